"""What a benchmark is, and the table of those there are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

Verdict = Literal["ok", "short", "skipped", "info"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One measured number.

    Parameters
    ----------
    instance
        What was run, with its size and seed.
    measure
        What was measured.
    value
        The number in `unit`; None where the row is skipped.
    limit
        The stated number that it must not exceed; None where none is stated.
    note
        What else the reader should know.
    """

    instance: str
    measure: str
    value: float | None
    unit: str
    limit: float | None = None
    note: str = ""

    @property
    def verdict(self) -> Verdict:
        """Whether the stated number is reached."""
        if self.value is None:
            return "skipped"
        if self.limit is None:
            return "info"
        return "ok" if self.value <= self.limit else "short"


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """A named set of measurements; `run` yields rows as they come, for one size or for all."""

    name: str
    text: str
    sizes: tuple[str, ...]
    run: Callable[[str | None], Iterator[Row]]


def registry() -> Mapping[str, Benchmark]:
    """All benchmarks by name."""
    from benchmarks.defrag import DEFRAG
    from benchmarks.explain import EXPLAIN
    from benchmarks.fgd_race import FGD_RACE
    from benchmarks.import_objects import IMPORT
    from benchmarks.latency import LATENCY
    from benchmarks.mig import MIG
    from benchmarks.never_worse import NEVER_WORSE
    from benchmarks.openb import OPENB_BENCHMARK
    from benchmarks.openb_ceiling import OPENB_CEILING
    from benchmarks.philly import PHILLY_BENCHMARK
    from benchmarks.plugin import PLUGIN
    from benchmarks.preempt import PREEMPT
    from benchmarks.scale import SCALE
    from benchmarks.simulate_scale import SIMULATE_SCALE
    from benchmarks.spine import SPINE

    return {
        benchmark.name: benchmark
        for benchmark in (
            SPINE,
            SCALE,
            LATENCY,
            EXPLAIN,
            NEVER_WORSE,
            OPENB_CEILING,
            OPENB_BENCHMARK,
            FGD_RACE,
            PHILLY_BENCHMARK,
            PREEMPT,
            DEFRAG,
            PLUGIN,
            MIG,
            SIMULATE_SCALE,
            IMPORT,
        )
    }
