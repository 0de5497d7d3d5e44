"""What a run amounts to: time-weighted means, percentiles, and the series that they come from.

* utilization: GPU-time of jobs that run, over capacity times (last end - first arrival);
* wait: first start - arrival, of jobs that started; the p-th percentile is the
  ``ceil(p / 100 * n)``-th smallest;
* JCT: end - arrival, of jobs that ran to their end;
* stranded and fragmented GPUs: time-weighted means; where no time passes, as with utilization,
  what holds at that moment;
* Jain's index over queues of what each was given of what it was entitled to, and the worst gap
  between the two (see `Fairness`).
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import replace
from math import ceil

from simulator.scenario import Scenario
from simulator.state import Cluster
from simulator.waste import Waste
from solver.cluster import GPU_MILLI
from solver.fair_share import Division
from solver.queues import QueueTree

PERCENTILES = (50, 99)


def percentile(sorted_values: Sequence[int], percent: float) -> int:
    """The ``ceil(percent / 100 * n)``-th smallest of sorted values; 0 where there are none.

    Examples
    --------
    >>> percentile([1, 2, 3, 4], 50), percentile([1, 2, 3, 4], 99)
    (2, 4)
    """
    if not sorted_values:
        return 0
    return sorted_values[max(0, ceil(percent * len(sorted_values) / 100) - 1)]


def jain(values: Sequence[float]) -> float:
    """Jain's fairness index: 1 where all are equal, 1/n where one has everything.

    ``(sum x)^2 / (n * sum x^2)``; 1 where there is nothing to share.

    References
    ----------
    R. Jain, D. Chiu, W. Hawe, "A Quantitative Measure of Fairness and Discrimination for Resource
    Allocation in Shared Computer Systems", DEC TR-301, 1984.

    Examples
    --------
    >>> jain([1.0, 1.0]), jain([1.0, 0.0]), jain([])
    (1.0, 0.5, 1.0)
    """
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else 1.0


class Fairness:
    """GPU-time that queues were given of what they were entitled to, over time.

    At every moment a queue is entitled to GPUs as in `solver.fair_share` (level by level: quota,
    then queue priority, then weight, up to what it holds and waits for). What it holds beyond that
    counts for nothing. Jain's index is taken over ``given / entitled`` of the queues. The gap of a
    moment is what the queue that lacks most lacks of its entitlement, as a share of all GPUs.
    """

    def __init__(self, scenario: Scenario) -> None:
        # Weights as they are said: what past use makes of them is the policy's business.
        queues = [replace(queue, demand={}, past_gpu_s=0.0) for queue in scenario.queues]
        self._tree = QueueTree(queues)
        self._division = Division(self._tree, "gpu_milli", 1)
        self._capacity_milli = scenario.problem.capacity["gpu_milli"] or 0
        self._limits = {
            queue.name: queue.limit.get("gpu_milli", self._capacity_milli) for queue in queues
        }
        self._nested = any(queue.parent is not None for queue in queues)
        self._given = {queue.name: 0 for queue in queues}
        self._entitled = {queue.name: 0 for queue in queues}
        self._last: tuple[tuple[int, ...], dict[str, int]] = ((), {})
        self._gap_ms = 0
        self._span_ms = 0
        self._largest_milli = 0

    def advance(self, span_ms: int, held: dict[str, int], demand: dict[str, int]) -> None:
        """The time that passed with this held and asked for."""
        shares = self._shares(demand)
        lacks = 0
        for name, share in shares.items():
            given = min(held[name], share)
            self._given[name] += span_ms * given
            self._entitled[name] += span_ms * share
            lacks = max(lacks, share - given)
        self._span_ms += span_ms
        self._gap_ms += span_ms * lacks
        self._largest_milli = max(self._largest_milli, lacks)

    def _shares(self, demand: dict[str, int]) -> dict[str, int]:
        caps = {name: min(wanted, self._limits[name]) for name, wanted in demand.items()}
        if not self._nested and sum(caps.values()) <= self._capacity_milli:
            return caps
        key = tuple(demand.values())
        if self._last[0] != key:
            found = self._division.divide(demand, self._capacity_milli)
            own = {name: found[self._tree.own(name).name] for name in demand}
            self._last = (key, own)
        return self._last[1]

    @property
    def jain(self) -> float:
        """The index over queues that were entitled to anything."""
        return jain([self._given[q] / e for q, e in self._entitled.items() if e])

    @property
    def gap_mean(self) -> float:
        """Time-weighted mean of the gap, from 0 to 1."""
        whole = self._span_ms * self._capacity_milli
        return self._gap_ms / whole if whole else 0.0

    @property
    def gap_max(self) -> float:
        """The largest gap of any moment that lasted, from 0 to 1."""
        return self._largest_milli / self._capacity_milli if self._capacity_milli else 0.0


class Series:
    """Values over time: a row for every moment at which one changed.

    Attributes
    ----------
    time_ms, held_milli, busy_milli, stranded_milli, fragmented_milli, waiting
        GPU-milli held by jobs, and by those that run; stranded and fragmented milli-GPU; jobs that
        wait.
    queue_milli
        GPU-milli held, by queue.
    """

    def __init__(self, queues: Sequence[str]) -> None:
        self.time_ms = array("q")
        self.held_milli = array("q")
        self.busy_milli = array("q")
        self.stranded_milli = array("d")
        self.fragmented_milli = array("d")
        self.waiting = array("q")
        self.queue_milli = {name: array("q") for name in queues}

    def columns(self) -> dict[str, array[int] | array[float]]:
        """The columns by name, but for the queues'."""
        return {
            "time_ms": self.time_ms,
            "held_milli": self.held_milli,
            "busy_milli": self.busy_milli,
            "stranded_milli": self.stranded_milli,
            "fragmented_milli": self.fragmented_milli,
            "waiting": self.waiting,
        }


class Meter:
    """Observes a run: integrates over time, and keeps the series.

    Parameters
    ----------
    series
        Whether to keep the series.
    """

    def __init__(self, scenario: Scenario, *, series: bool = True) -> None:
        self._waste = Waste(scenario)
        self._fairness = Fairness(scenario) if len(scenario.queues) > 1 else None
        self._keep = series
        self.series = Series([queue.name for queue in scenario.queues])
        self._nodes: list[tuple[float, float]] = []
        self._stranded = 0.0
        self._fragmented = 0.0
        self._at_ms = 0
        self._busy = 0
        self._held: dict[str, int] = {}
        self._demand: dict[str, int] = {}
        self._busy_ms = 0
        self._stranded_ms = 0.0
        self._fragmented_ms = 0.0
        self._at_last_end = self._at_last_change = (0.0, 0.0, 0)
        self.first_ms = 0

    @property
    def fragmented_milli(self) -> float:
        """Fragmentation now, in milli-GPU."""
        return max(0.0, self._fragmented)  # a running sum may miss zero by a hair

    def begin(self, cluster: Cluster) -> None:
        """Look at everything once."""
        board = cluster.draft.board
        self._at_ms = self.first_ms = cluster.now_ms
        self._nodes = [self._waste.of(node, board.state(n)) for n, node in enumerate(board.nodes)]
        self._stranded = sum(stranded for stranded, _ in self._nodes)
        self._fragmented = sum(fragmented for _, fragmented in self._nodes)
        self._look(cluster)

    def before(self, cluster: Cluster) -> None:
        """Count the time since the last moment."""
        span_ms = cluster.now_ms - self._at_ms
        if not span_ms:
            return
        self._busy_ms += span_ms * self._busy
        self._stranded_ms += span_ms * self._stranded
        self._fragmented_ms += span_ms * self._fragmented
        if self._fairness is not None:
            self._fairness.advance(span_ms, self._held, self._demand)
        self._at_ms = cluster.now_ms

    def after(self, cluster: Cluster, touched: set[int]) -> None:
        """Look at what changed."""
        board = cluster.draft.board
        for n in touched:
            stranded, fragmented = self._waste.of(board.nodes[n], board.state(n))
            before = self._nodes[n]
            self._stranded += stranded - before[0]
            self._fragmented += fragmented - before[1]
            self._nodes[n] = (stranded, fragmented)
        sums = (self._stranded_ms, self._fragmented_ms, self._busy_ms)
        if cluster.last_end_ms == cluster.now_ms:
            self._at_last_end = sums
        if cluster.last_change_ms == cluster.now_ms:
            self._at_last_change = sums
        self._look(cluster)
        if self._keep:
            self._record(cluster)

    def _look(self, cluster: Cluster) -> None:
        self._busy = cluster.busy_milli
        if self._fairness is not None:
            self._held = dict(cluster.held_milli)
            self._demand = {
                name: held + cluster.wanted_milli[name] for name, held in self._held.items()
            }

    def _record(self, cluster: Cluster) -> None:
        series = self.series
        series.time_ms.append(cluster.now_ms)
        series.held_milli.append(sum(cluster.held_milli.values()))
        series.busy_milli.append(cluster.busy_milli)
        series.stranded_milli.append(self._stranded)
        series.fragmented_milli.append(self._fragmented)
        series.waiting.append(len(cluster.waiting))
        for name, held in cluster.held_milli.items():
            series.queue_milli[name].append(held)

    def means(self, span_ms: int, *, to_last_end: bool) -> tuple[float, float, float]:
        """Time-weighted means of stranded, fragmented and busy GPUs; over no time, as it is now.

        Parameters
        ----------
        to_last_end
            Whether the span goes to the last end of a job; else to the last change of any kind.
        """
        sums = self._at_last_end if to_last_end else self._at_last_change
        if not span_ms:
            span_ms, sums = 1, (self._stranded, self._fragmented, self._busy)
        stranded, fragmented, busy = (value / (span_ms * GPU_MILLI) for value in sums)
        return stranded, fragmented, busy

    @property
    def jain(self) -> float:
        """Jain's index over queues; 1 where there is one."""
        return 1.0 if self._fairness is None else self._fairness.jain

    @property
    def gap(self) -> tuple[float, float]:
        """Time-weighted mean and largest gap to what queues are entitled to; 0 for one queue."""
        fair = self._fairness
        return (0.0, 0.0) if fair is None else (fair.gap_mean, fair.gap_max)
