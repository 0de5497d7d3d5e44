"""From the options of ``simulate`` to the runs of a sweep, and from those to rows."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from report.progress import ProgressLine
    from report.simulation_view import SimulationRow
    from simulator.outcome import Outcome
    from simulator.policies import SimulationOptions
    from simulator.run import Listener
    from simulator.sources import Source
    from simulator.sweep import Cell, Result, Sweep

SHIPPED = "adversarial.yaml"
"""The scenario that is replayed where none is named."""

POLICIES = (
    "first-fit,best-fit,worst-fit,fgd,topology-aware,fifo-strict,sjf,drf,easy,conservative,"
    "per-pod,cp-sat"
)
"""What is compared where nothing is said."""

TRACE_POLICIES = "fifo-strict,fifo-skip,sjf,easy"
"""The same for a trace: queue orders, which is what traces are about."""

OPENB_POLICIES = "random,dot-product,gpu-clustering,gpu-packing,best-fit,fgd"
"""The same for openb: the policies of the publication."""

KINDS = ("openb", "philly", "helios", "acme", "synthetic")

MAX_SEEDS = 10_000

MAX_PENALTY = 100

MAX_PLOTTED = 8
"""Policies in a picture: more lines cannot be told apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The options as they were typed."""

    spec: str | None = None
    traces: tuple[str, ...] = ()
    policies: str | None = None
    seeds: str | None = None
    workload: str | None = None
    nodes: int | None = None
    since: str | None = None
    until: str | None = None
    engine: str = "local"
    workers: int | None = None
    penalty: float = 0.0
    round_: str | None = None
    prices: Path | None = None
    price_window: str | None = None
    max_size: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepQuestion:
    """What is run, where, and what it is called: all of it, and what a picture of it shows."""

    title: str
    pictured: str
    sweep: Sweep
    engine: str
    workers: int
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Rows in order, the outcomes that were kept, notes; `failure` ended it before all was done."""

    rows: tuple[SimulationRow, ...]
    outcomes: tuple[Outcome, ...]
    notes: tuple[str, ...]
    failure: Exception | None


def read_question(asked: Asked, save: Path | None, *, plotted: bool) -> SweepQuestion:
    """Read everything that can be wrong, before any long work begins.

    Raises
    ------
    typer.BadParameter
        An option makes no sense, alone or beside the others.
    specs.errors.SpecErrors
        The spec has faults.
    simulator.traces.table.TraceError
        A trace cannot be used.
    """
    from report.text import plural
    from simulator.sweep import Cell, Sweep

    if plotted:
        _need("matplotlib", "plots", "--plot")
    engine, workers = _engine(asked)
    if engine.startswith("ray"):
        _need("ray", "ray", "--engine")
    sources = _sources(asked)
    names = _policies(asked, sources)
    seeds = parse_seeds(asked.seeds) if asked.seeds is not None else (1,)
    cells = tuple(Cell(s, policy, seed) for s in sources for policy in names for seed in seeds)
    # The first scenario is read here, so that a trace that cannot be read is found at once.
    first = sources[0].scenario(seeds[0])
    keep = frozenset(cell for cell in cells if cell.seed == seeds[0] and cell.source == sources[0])
    sweep = Sweep(
        cells=cells,
        options=_options(asked, names),
        folder=save,
        keep=keep if plotted else frozenset(),
    )
    gpus = (first.problem.capacity["gpu_milli"] or 0) // 1000
    jobs = plural(len(first.arrivals), "job")
    if first.standing:
        jobs += f" and {len(first.standing):,} running"
    machines = f"{plural(len(first.nodes), 'node')}, {plural(gpus, 'GPU')}"
    title = pictured = f"{sources[0].name}: {jobs} on {machines}"
    if len(seeds) > 1:
        pictured += f", seed {seeds[0]}"
    if len(sources) > 1:
        title = f"{len(sources)} traces, the first {title}"
    notes = list(dict.fromkeys(first.notes))
    if "cp-sat" in names and len({a.job.priority for a in first.everyone}) > 1:
        notes.append(
            "cp-sat takes its jobs in the order of fifo-skip and looks at no priority;"
            " priority+cp-sat does"
        )
    if any(arrival.job.must for arrival in first.everyone):
        notes.append("must has no say over time: a job that never fits is named as unschedulable")
    same = [source.name for source in sources if not source.draws]
    if len(seeds) > 1 and same:
        whose = "" if len(same) == len(sources) else f" of {', '.join(same)}"
        notes.append(f"every seed replays the same jobs{whose}: only policies that draw differ")
    for reason, count in first.rejected_by_reason.items():
        lines = [str(row.line) for row in first.rejected if row.reason == reason][:5]
        more = ", …" if count > len(lines) else ""
        where = "line" if count == 1 else "lines"
        notes.append(
            f"{plural(count, 'row')} not used: {reason} ({where} {', '.join(lines)}{more})"
        )
    return SweepQuestion(
        title=title,
        pictured=pictured,
        sweep=sweep,
        engine=engine,
        workers=workers,
        notes=tuple(notes),
    )


def _need(module: str, extra: str, option: str) -> None:
    """Refuse what needs an extra that is not installed."""
    from importlib.util import find_spec

    if find_spec(module) is None:
        text = f"needs {module}: pip install 'unstrand[{extra}]'"
        raise typer.BadParameter(text, param_hint=option)


def _sources(asked: Asked) -> list[Source]:
    if asked.spec is not None and asked.traces:
        raise typer.BadParameter("either a spec or traces, not both", param_hint="--trace")
    found: list[Source] = []
    for text in asked.traces:
        found += _trace_sources(text, asked)
    if not asked.traces:
        for option, value in (
            ("--workload", asked.workload),
            ("--nodes", asked.nodes),
            ("--since", asked.since),
            ("--until", asked.until),
        ):
            if value is not None:
                raise typer.BadParameter("says which part of a --trace is taken", param_hint=option)
        found.append(_spec_source(asked))
    twice = {source.name for source in found if sum(s.name == source.name for s in found) > 1}
    if twice:
        raise typer.BadParameter(f"{sorted(twice)[0]} is named twice", param_hint="--trace")
    return found


def _trace_sources(text: str, asked: Asked) -> list[Source]:
    from difflib import get_close_matches

    from simulator.sources import TraceSource

    kind, _, place = text.partition(":")
    if kind not in KINDS or (kind != "synthetic" and not place):
        near = get_close_matches(kind, KINDS, 1)
        hint = f'; did you mean "{near[0]}"?' if near and kind not in KINDS else ""
        known = ", ".join(f"{k}:DIR" for k in KINDS[:-1])
        rule = f'"{text}" is no trace{hint}; write {known} or synthetic:KEY=VALUE,…'
        raise typer.BadParameter(rule, param_hint="--trace")
    for option, value in (("--since", asked.since), ("--until", asked.until)):
        if value is not None:
            if kind != "philly":
                raise typer.BadParameter(f"is for philly, not {kind}", param_hint=option)
            _check_date(value, option)
    if asked.nodes is not None and kind != "philly":
        raise typer.BadParameter(f"is for philly, not {kind}", param_hint="--nodes")
    if asked.workload is not None and kind not in ("openb", "philly"):
        raise typer.BadParameter(f"is for openb and philly, not {kind}", param_hint="--workload")
    parts: Sequence[str | None] = [None]
    if asked.workload is not None:
        parts = [part.strip() for part in asked.workload.split(",")]
    return [TraceSource(kind, place, part, asked.nodes, asked.since, asked.until) for part in parts]


def _check_date(text: str, option: str) -> None:
    day, _, clock = text.partition(" ")
    try:
        date.fromisoformat(day)
    except ValueError:
        day = ""
    if not day or (clock and not re.fullmatch(r"\d\d:\d\d:\d\d", clock)):
        raise typer.BadParameter(f'"{text}" is no date; write 2017-10-01', param_hint=option)


def _spec_source(asked: Asked) -> Source:
    from commands.inputs import size_bytes
    from simulator.sources import FixedSource
    from specs.compile import compile_spec
    from specs.loader import MAX_SIZE_BYTES, load_spec
    from specs.simulation import scenario_of

    limit = MAX_SIZE_BYTES if asked.max_size is None else size_bytes(asked.max_size)
    spec = asked.spec or str(files("specs") / SHIPPED)
    loaded = load_spec(spec, limit)
    scenario = scenario_of(loaded, compile_spec(loaded))
    return FixedSource(scenario, loaded.document.text)


def _policies(asked: Asked, sources: Sequence[Source]) -> list[str]:
    from simulator.policies import parse_simulation_policy
    from simulator.sources import TraceSource
    from solver.greedy import UnknownPolicyError

    kinds = {source.kind for source in sources if isinstance(source, TraceSource)}
    default = POLICIES
    if kinds:
        default = OPENB_POLICIES if kinds == {"openb"} else TRACE_POLICIES
    elif len({arrival.job.priority for arrival in sources[0].scenario(1).everyone}) > 1:
        default += ",priority"
    names = [
        name.strip() for name in (default if asked.policies is None else asked.policies).split(",")
    ]
    for place, name in enumerate(names):
        if not name:
            rule = "a name is missing; write first-fit,drf+fgd,cp-sat"
            raise typer.BadParameter(rule, param_hint="--policies")
        try:
            parse_simulation_policy(name)
        except UnknownPolicyError as error:
            raise typer.BadParameter(str(error), param_hint="--policies") from error
        if name in names[:place]:
            raise typer.BadParameter(f"{name} is named twice", param_hint="--policies")
    return names


def parse_seeds(text: str) -> tuple[int, ...]:
    """Seeds of ``42-51`` or ``1,3,7-9``.

    Raises
    ------
    typer.BadParameter
        The text is no such list.

    Examples
    --------
    >>> parse_seeds("1,3,7-9")
    (1, 3, 7, 8, 9)
    """
    found: dict[int, None] = {}
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,15})(?:-(\d{1,15}))?\s*", part, re.ASCII)
        if match is None:
            rule = f'"{part}" is no seed; write 42, 1,2,3 or 42-51'
            raise typer.BadParameter(rule, param_hint="--seeds")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise typer.BadParameter(f'"{part}" goes backwards', param_hint="--seeds")
        if last - first >= MAX_SEEDS:
            raise typer.BadParameter(f"at most {MAX_SEEDS:,} seeds", param_hint="--seeds")
        found |= dict.fromkeys(range(first, last + 1))
    return tuple(found)


def _engine(asked: Asked) -> tuple[str, int]:
    from os import cpu_count

    name, colon, address = asked.engine.partition(":")
    host = r"(ray://)?(\[[0-9a-fA-F:.]+\]|[\w.-]+)"
    known = address == "auto" or re.fullmatch(rf"{host}:\d{{1,5}}|ray://{host}", address, re.ASCII)
    if name not in ("local", "ray") or (colon and (name == "local" or not known)):
        rule = f'"{asked.engine}" is no engine; write local, ray, ray:auto or ray:HOST:PORT'
        raise typer.BadParameter(rule, param_hint="--engine")
    return asked.engine, asked.workers or cpu_count() or 1


def _options(asked: Asked, names: Sequence[str]) -> SimulationOptions:
    from commands.inputs import duration_s
    from commands.policies import read_prices
    from simulator.policies import SimulationOptions
    from simulator.schedulers.rolling import Rolling

    if not 0 <= asked.penalty <= MAX_PENALTY:  # nor is nan
        rule = (
            f'"{asked.penalty}" is no factor; write a number from 0 to {MAX_PENALTY}, such as 0.3'
        )
        raise typer.BadParameter(rule, param_hint="--penalty")
    rolling = Rolling()
    if asked.round_ is not None:
        rolling = Rolling(every_ms=round(duration_s(asked.round_, "--round") * 1000))
    return SimulationOptions(
        penalty=asked.penalty,
        rolling=rolling,
        prices=read_prices(asked.prices, names),
        price_window_ms=_price_window_ms(asked, names),
    )


def _price_window_ms(asked: Asked, names: Sequence[str]) -> int | None:
    from commands.inputs import duration_s
    from commands.policies import check_priced

    if asked.price_window is None:
        return None
    window_ms = round(duration_s(asked.price_window, "--price-window") * 1000)
    if window_ms <= 0:
        rule = f'"{asked.price_window}" is no time; write one such as 24h'
        raise typer.BadParameter(rule, param_hint="--price-window")
    check_priced(names, "--price-window")
    return window_ms


def run_sweep(
    question: SweepQuestion,
) -> Answer:
    """Make the runs, with progress on standard error.

    Ctrl-C ends it with what is finished. A run that goes wrong leaves the others alone. Where
    nothing is finished, either is passed on.
    """
    from report.progress import ProgressLine
    from report.simulation_view import SimulationRow, left_notes
    from report.text import plural
    from simulator.sweep import FailedRunError

    sweep = question.sweep
    done: dict[Cell, Result] = {}
    notes = list(question.notes)
    failure: Exception | None = None
    interrupted = False
    with ProgressLine(sys.stderr) as line:
        listener = _Listener(line, len(sweep.cells))
        try:
            for result in _results(question, listener):
                done[result.cell] = result
                listener.finished(result)
        except KeyboardInterrupt:
            if not done:
                raise
            interrupted = True
        except FailedRunError as error:
            if not done:
                raise
            failure = error
    if interrupted or failure is not None:
        why = "interrupted" if failure is None else "not all went well"
        notes.append(f"{why}: {len(done)} of {len(sweep.cells)} runs are finished")
    cached = sum(result.cached for result in done.values())
    if cached:
        notes.append(f"{cached} of {len(sweep.cells)} runs were there already ({sweep.folder})")
    replaced = sum(result.replaces for result in done.values())
    if replaced:
        notes.append(
            f"{plural(replaced, 'saved run')} by the same names, of another workload, other options"
            f" or another version, made way for the new ones ({sweep.folder})"
        )
    results = [done[cell] for cell in sweep.cells if cell in done]
    rows = [SimulationRow(result.cell.source.name, result.summary) for result in results]
    notes += left_notes(rows)
    outcomes = tuple(r.outcome for r in results if r.outcome is not None)
    return Answer(rows=tuple(rows), outcomes=outcomes, notes=tuple(notes), failure=failure)


def _results(question: SweepQuestion, listener: Listener) -> Iterator[Result]:
    from simulator.sweep import run_here, run_local
    from simulator.sweep_ray import run_ray

    name, _, address = question.engine.partition(":")
    if name == "ray":
        return run_ray(question.sweep, address or None, question.workers)
    workers = min(question.workers, len(question.sweep.cells))
    if workers == 1:
        return run_here(question.sweep, listener)
    return run_local(question.sweep, workers)


class _Listener:
    """Writes the progress line: runs finished, events, and events per second."""

    def __init__(self, line: ProgressLine, runs: int) -> None:
        self._line = line
        self._runs = runs
        self._finished = 0
        self._events = 0
        self._began = time.monotonic()

    def __call__(self, events: int, jobs: int) -> None:
        self._show(self._events + events)

    def finished(self, result: Result) -> None:
        """A run is over."""
        self._finished += 1
        self._events += 0 if result.cached else result.summary.events
        self._show(self._events)

    def _show(self, events: int) -> None:
        from solver.progress import Progress

        elapsed_s = time.monotonic() - self._began
        rate = events / max(elapsed_s, 1e-9)
        message = f"{elapsed_s:.0f} s: {self._finished} of {self._runs} runs, "
        message += f"{events:,} events, {rate:,.0f} a second"
        self._line(
            Progress(elapsed_s=elapsed_s, tier="simulate", value=0, bound=0, message=message)
        )


def figure(question: SweepQuestion, outcomes: Sequence[Outcome], path: Path) -> bytes:
    """The picture of the runs that were kept: the first trace and seed, up to eight policies.

    Where there are more, the solver's are among them, and the first of the others.
    """
    from report.simulation_plots import simulation_figure
    from simulator.policies import CP_SAT

    cell = question.sweep.cells[0]
    capacity = cell.source.scenario(cell.seed).problem.capacity["gpu_milli"] or 0
    by_rank = sorted(outcomes, key=lambda outcome: CP_SAT not in outcome.summary.policy)
    shown = {id(outcome) for outcome in by_rank[:MAX_PLOTTED]}
    title = question.pictured
    if len(shown) < len(outcomes):
        title += f" ({len(shown)} of {len(outcomes)} policies)"
    drawn = [outcome for outcome in outcomes if id(outcome) in shown]
    return simulation_figure(title, drawn, capacity, path)
