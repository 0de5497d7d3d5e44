"""One waiting line: strict (nobody overtakes), skipping (who fits goes), or by fair share.

Preempting lines stop work of lower priority where a unit finds no room otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush

from simulator.lives import Life
from simulator.orders import OrderKey, claim_of
from simulator.scenario import Arrival
from simulator.schedulers.base import Scheduler
from simulator.schedulers.surplus import MayTake, hand_out_surplus, shed_load, start_in_surplus
from simulator.schedulers.victims import fewest_of, may_be_stopped
from simulator.state import Cluster, Unit
from simulator.waiting import Key, WaitingLine
from solver.workload import Shape


class LineScheduler(Scheduler):
    """Starts units in the order of a line.

    Parameters
    ----------
    strict
        Whether the first that finds no room keeps all behind it waiting.
    preempts
        Whether work of lower priority is stopped for a unit that finds no room.
    """

    def __init__(
        self, cluster: Cluster, key: OrderKey, *, strict: bool = False, preempts: bool = False
    ) -> None:
        super().__init__(cluster)
        self.line = WaitingLine(key)
        self.key = key
        self._strict = strict
        self.preempts = preempts
        self._claim = claim_of(cluster.scenario)
        self._gained: list[int] = []
        self._reopened: set[int] = set()
        self._helped: dict[int, bool] = {}
        self._alike: dict[tuple[Shape, ...], tuple[int, tuple[Shape, ...]]] = {}
        self._shapes: dict[int, tuple[int, tuple[Shape, ...]]] = {}
        self._limited = any(queue.limit for queue in cluster.scenario.queues)
        self._own_lines = cluster.scenario.lines == "queue"

    def arrive(self, unit: Unit) -> None:
        """Join the line."""
        self.line.add(unit)

    def round(self) -> None:
        """Start who can, then hand out the surplus."""
        if self.cluster.elastic:
            shed_load(self.cluster)
        self.serve()
        if self.cluster.elastic:
            hand_out_surplus(self.cluster)

    def serve(self) -> None:
        """Start who can."""
        self.open_lanes()
        if self._strict:
            self._serve_strictly()
        else:
            self._serve_all()
            while self.cluster.gained:  # Who was stopped, or left room, lets others in.
                self.open_lanes()
                self._serve_all()

    def _serve_all(self) -> None:
        for unit in self.turns():
            # What a lane was opened for may be gone: others were before it.
            gone = unit.lane in self._reopened and not self._is_of_use(unit)
            if not gone and self.attempt(unit):
                self.line.remove_head(unit)
                self._helped.clear()
                if self.preempts and self.cluster.gained:
                    return  # What was stopped for it may leave more room than it takes.
            else:
                self.line.close(unit)

    def open_lanes(self) -> None:
        """Let those try again to whom the room that was made may be of use.

        Who found no room finds some only if a node that gained some takes one of its replicas;
        unless limits, surplus or victims come into it.
        """
        cluster = self.cluster
        self._reopened.clear()
        if not cluster.gained:
            return
        if self.preempts or self._limited or cluster.elastic:
            self.line.open_all()
        else:
            self._gained = sorted(cluster.gained)
            self._helped.clear()
            self._reopened = self.line.open_where(self._is_of_use)
        cluster.gained.clear()

    def _is_of_use(self, unit: Unit) -> bool:
        """Whether a node that gained room takes a replica of the unit now."""
        shapes = self._shapes.get(unit.lane)
        if shapes is None:
            roles = [role for job in unit.jobs for role in job.roles if role.min_replicas]
            same = tuple(dict.fromkeys(role.shape for role in roles))
            shapes = self._shapes[unit.lane] = self._alike.setdefault(
                same, (len(self._alike), same)
            )
        helped = self._helped.get(shapes[0])
        if helped is None:
            board = self.cluster.draft.board
            helped = any(board.fit(n, shape) for shape in shapes[1] for n in self._gained)
            self._helped[shapes[0]] = helped
        return helped

    def turns(self) -> Iterator[Unit]:
        """Whose turn it is, again and again; each unit is taken off the line or its lane closed."""
        heap = [(key, unit.lane, unit) for key, unit in self.line.open_heads()]
        heapify(heap)
        while heap:
            _, lane, unit = heappop(heap)
            yield unit
            behind = self.line.head_of(lane)
            if behind is not None and not self.line.is_closed(behind[1]):
                heappush(heap, (behind[0], lane, behind[1]))

    def _serve_strictly(self) -> None:
        """Each line (the cluster's, or each queue's) until its first unit finds no room."""
        first: dict[str, tuple[Key, Unit]] = {}
        for key, unit in self.line.heads():
            name = unit.queue if self._own_lines else ""
            if name not in first or key < first[name][0]:
                first[name] = (key, unit)
        for name, (_, unit) in first.items():
            head: Unit | None = unit
            while head is not None and not self.line.is_closed(head):
                if not self.attempt(head):
                    self.line.close(head)
                    break
                self.line.remove_head(head)
                head = self._first_of(name)

    def _first_of(self, name: str) -> Unit | None:
        entries = [
            (key, unit)
            for key, unit in self.line.heads()
            if not self._own_lines or unit.queue == name
        ]
        return min(entries, key=lambda entry: entry[0])[1] if entries else None

    def attempt(self, unit: Unit) -> bool:
        """Start a unit: in free room, in what others hold above their minimums, or for priority."""
        if self.attempt_alone(unit):
            return True
        if not self.preempts:
            return False
        victims = fewest_victims(self.cluster, unit, self._claim)
        for victim in victims:
            self.cluster.evict(victim)
            self.line.add(Unit((victim,), lane=-1 - victim.order))
        return bool(victims) and self.cluster.start(unit)

    def attempt_alone(self, unit: Unit) -> bool:
        """Start a unit without stopping anybody: in free room, or in surplus."""
        return self.cluster.start(unit) or start_in_surplus(
            self.cluster, unit, self._may_take(unit)
        )

    def _may_take(self, unit: Unit) -> MayTake:
        """Whose surplus a unit may take: where priority rules, not that of higher ones."""
        priority = unit.life.arrival.job.priority
        return lambda life: not self.preempts or life.arrival.job.priority <= priority


def fewest_victims(cluster: Cluster, unit: Unit, claim: Callable[[Arrival], int]) -> list[Life]:
    """Running jobs that rank lower without which a unit finds room; none where that is no use.

    Priority ranks first; at the same priority, fixed training and floors of services rank above
    training that may be stopped (see `simulator.orders.claim_of`). Services are never victims.

    The lowest priority goes first, among equals who has lost least; then each is put back who need
    not go, those of the highest priority first. So no victim could have stayed.
    """

    def rank_of(life: Life) -> tuple[int, int]:
        return (life.arrival.job.priority, -claim(life.arrival))

    rank = rank_of(unit.life)
    candidates = [life for life in may_be_stopped(cluster) if rank_of(life) < rank]
    candidates.sort(key=lambda life: (rank_of(life), life.would_lose_gpu_ms(), -life.order))
    return fewest_of(cluster, unit, candidates)
