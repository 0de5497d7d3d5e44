"""Many runs: policies times seeds times traces, in this process, in several, or on Ray.

Every engine gives the same rows in the same order. A run that a lost worker was at is made again,
and one that goes wrong leaves the others alone; what is finished stays finished when the rest is
given up.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from simulator.outcome import Outcome, Summary
from simulator.policies import SimulationOptions
from simulator.run import Listener, simulate
from simulator.saving import SUMMARY, folder_of, save, saved_outcome, saved_summary, sweep_drafts
from simulator.sources import Source
from solver.interrupts import held

ATTEMPTS = 3
"""How often a run is tried whose workers get lost."""


MOST_WRONG = 10
"""How many runs may go wrong before the rest is given up: then it is not the runs' fault."""


class LostWorkerError(RuntimeError):
    """The worker of a run was lost again and again, probably for want of memory."""


class FailedRunError(Exception):
    """One run of a sweep went wrong.

    Parameters
    ----------
    trace, policy, seed
        Which one.
    error
        How.

    Attributes
    ----------
    more
        How many others went wrong too.
    """

    def __init__(self, trace: str, policy: str, seed: int, error: Exception) -> None:
        super().__init__(trace, policy, seed, error)  # as it is pickled
        self.trace, self.policy, self.seed, self.error = trace, policy, seed, error
        self.more = 0

    def __str__(self) -> str:
        return f"{self.run}: {self.error}"

    @property
    def run(self) -> str:
        """Which run it was."""
        others = f" (and {self.more} more)" if self.more else ""
        return f"{self.policy} with seed {self.seed} on {self.trace}{others}"


@dataclass(frozen=True, slots=True)
class Cell:
    """One run of a sweep."""

    source: Source
    policy: str
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """What is run, and what is kept of it.

    Parameters
    ----------
    folder
        Where runs are saved; None saves nothing. Runs that are there are not made again.
    keep
        Cells of which the whole outcome is wanted, and not only the row.
    """

    cells: tuple[Cell, ...]
    options: SimulationOptions
    folder: Path | None = None
    keep: frozenset[Cell] = frozenset()

    @property
    def in_turn(self) -> tuple[Cell, ...]:
        """The cells in the order in which they are run: all policies of a trace and seed in a row.

        They share its scenario, which a worker reads once; and where the sweep is given up, what
        is finished can be compared.
        """
        place = {cell.source: n for n, cell in reversed(list(enumerate(self.cells)))}
        seeds = {cell.seed: n for n, cell in reversed(list(enumerate(self.cells)))}
        return tuple(sorted(self.cells, key=lambda c: (place[c.source], seeds[c.seed])))


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a cell; `outcome` only where it is kept, `cached` where it was there already.

    `replaces` where a saved run of something else, by the same names, has made way for it.
    """

    cell: Cell
    summary: Summary
    outcome: Outcome | None = None
    cached: bool = False
    replaces: bool = False


def fingerprint(cell: Cell, options: SimulationOptions) -> str:
    """Equal for cells that give the same run."""
    return f"{cell.source.fingerprint()} {options!r}"


def run_cell(sweep: Sweep, cell: Cell, listener: Listener | None = None) -> Result:
    """Make one run, or take it from the folder where it is there already.

    Raises
    ------
    FailedRunError
        The run went wrong.
    """
    try:
        return _run(sweep, cell, listener)
    except Exception as error:
        raise failed(cell, error) from error


def failed(cell: Cell, error: Exception) -> FailedRunError:
    """The error of a cell."""
    return FailedRunError(cell.source.name, cell.policy, cell.seed, error)


class Failures:
    """Runs that went wrong while others went on."""

    def __init__(self) -> None:
        self._errors: list[FailedRunError] = []

    def add(self, error: FailedRunError) -> None:
        """Keep it for later.

        Raises
        ------
        FailedRunError
            There are too many.
        """
        self._errors.append(error)
        if len(self._errors) >= MOST_WRONG:
            self.tell()

    def tell(self) -> None:
        """Everything else is done: say what went wrong.

        Raises
        ------
        FailedRunError
            The first one, if there is any.
        """
        if self._errors:
            first, *others = self._errors
            first.more = len(others)
            raise first


def _run(sweep: Sweep, cell: Cell, listener: Listener | None) -> Result:
    keep = cell in sweep.keep
    folder, mark, replaces = None, "", False
    if sweep.folder is not None:
        folder = folder_of(sweep.folder, cell.source.name, cell.policy, cell.seed)
        mark = fingerprint(cell, sweep.options)
        sweep_drafts(folder)
        if (there := saved_summary(folder, mark)) is not None:
            outcome = saved_outcome(folder, there) if keep else None
            if not keep or outcome is not None:
                return Result(cell, there, outcome, cached=True)
        replaces = (folder / SUMMARY).is_file()
    outcome = simulate(
        cell.source.scenario(cell.seed),
        cell.policy,
        cell.seed,
        sweep.options,
        listener=listener,
        series=keep or folder is not None,
    )
    if folder is not None:
        save(outcome, folder, mark)
    return Result(cell, outcome.summary, outcome if keep else None, replaces=replaces)


def run_here(sweep: Sweep, listener: Listener | None = None) -> Iterator[Result]:
    """One run after the other, in this process.

    Raises
    ------
    FailedRunError
        A run went wrong; the others were made before that is said.
    """
    failures = Failures()
    for cell in sweep.in_turn:
        try:
            result = run_cell(sweep, cell, listener)
        except FailedRunError as error:
            failures.add(error)
        else:
            yield result
    failures.tell()


def run_local(sweep: Sweep, workers: int) -> Iterator[Result]:
    """Several runs at once, each in a process; results come as they are finished.

    Where workers are lost again and again, the runs that are left are made one by one: that takes
    less memory, and shows which one it is that takes its worker with it.

    Raises
    ------
    FailedRunError
        A run went wrong, or its workers were lost `ATTEMPTS` times; the others were made before
        that is said.
    """
    left = dict.fromkeys(sweep.in_turn)
    lost = 0
    while left and lost < ATTEMPTS - 1:
        before = len(left)
        try:
            for result in _run_pool(sweep, tuple(left), workers):
                del left[result.cell]
                yield result
            return
        except BrokenProcessPool:
            lost = lost + 1 if len(left) == before else 1
    failures = Failures()
    for cell in left:
        try:
            yield from _run_pool(sweep, (cell,), 1)
        except FailedRunError as error:
            failures.add(error)
        except BrokenProcessPool:
            why = f"its worker was killed {ATTEMPTS} times, probably for want of memory"
            failures.add(failed(cell, LostWorkerError(why)))
    failures.tell()


def _run_pool(sweep: Sweep, cells: Sequence[Cell], workers: int) -> Iterator[Result]:
    # A fresh interpreter for each worker: forking would copy locks that other threads hold.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_begin_worker)
    waiting: set[Future[Result]] = set()
    queue = iter(cells)
    failures = Failures()
    try:
        for cell in queue:
            waiting.add(_submitted(pool, sweep, cell))
            if len(waiting) >= 2 * workers:
                break
        while waiting:
            done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            for future in done:
                try:
                    result = future.result()
                except FailedRunError as error:
                    failures.add(error)
                else:
                    yield result
            for cell in islice(queue, len(done)):
                waiting.add(_submitted(pool, sweep, cell))
        failures.tell()
    finally:
        processes = list((getattr(pool, "_processes", None) or {}).values())
        pool.shutdown(wait=False, cancel_futures=True)
        if waiting:  # Given up: nobody waits for the rest.
            for process in processes:
                process.terminate()


def _submitted(pool: ProcessPoolExecutor, sweep: Sweep, cell: Cell) -> Future[Result]:
    """Hand out a run; a worker that starts for it takes no Ctrl-C from its first moment on.

    It inherits that the signal is blocked; and nothing interrupts this process half way through
    telling the worker what it needs.
    """
    with held():
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            return pool.submit(run_cell, sweep, cell)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin_worker() -> None:
    """Leave Ctrl-C to the process that hands out the work, and end with it, however it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    # A pool's workers hold both ends of the pipe they read from: none ever sees it closed.
    if (parent := multiprocessing.parent_process()) is not None:
        parent.join()
        os._exit(1)


Runner = Callable[[Sweep], Iterator[Result]]
