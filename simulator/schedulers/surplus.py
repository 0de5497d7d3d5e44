"""What elastic jobs and services hold above their minimums: handed out last, given up first."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from simulator.lives import Life
from simulator.state import Cluster, Unit
from solver.fit import shares_on
from solver.problem import RoleKey
from solver.slices import are_open
from solver.solution import Placement
from solver.workload import Role

Hold = Callable[[], None]
"""Holds back, on the draft, what is not to be taken."""

MayTake = Callable[[Life], bool]
"""Whose surplus may be taken."""


def shed_load(cluster: Cluster) -> None:
    """Services let go of the replicas that their load does not ask for any more."""
    for life in list(cluster.elastic.values()):
        least = life.arrival.job.min_replicas
        while life.held > max(least, life.wanted(cluster.now_ms)):
            cluster.shrink(life)


def hand_out_surplus(cluster: Cluster, hold: Hold | None = None) -> None:
    """Let elastic jobs grow into the room that is left, the oldest first; services by load."""
    for life in list(cluster.elastic.values()):
        while life.held < life.wanted(cluster.now_ms) and _grow(cluster, life, hold):
            pass


def _grow(cluster: Cluster, life: Life, hold: Hold | None) -> bool:
    started: dict[str, int] = {}
    for role, _ in cluster.draft.seats(life.name):
        started[role.name] = started.get(role.name, 0) + 1
    open_: list[Role] = [
        role for role in life.arrival.job.roles if started.get(role.name, 0) < role.replicas
    ]
    return any(cluster.grow(life, role, hold) for role in open_)


def start_in_surplus(cluster: Cluster, unit: Unit, may_take: MayTake = lambda _: True) -> bool:
    """Start a unit in the room that others hold above their minimums; as little as it takes."""

    def fits() -> bool:
        mark = cluster.draft.mark()
        found = cluster.draft.start(unit.jobs)
        cluster.draft.roll_back(mark)
        return found

    return _shrink_until(cluster, fits, may_take) and cluster.start(unit)


def make_way(cluster: Cluster, places: Sequence[Placement]) -> None:
    """Let surplus leave places that a unit is to start in."""
    if not _are_free(cluster, places):
        _shrink_until(cluster, lambda: _are_free(cluster, places), lambda _: True)


def drop_surplus(cluster: Cluster, may_take: MayTake = lambda _: True) -> None:
    """Take all surplus off the draft, until it is rolled back."""
    _drop(cluster, _surplus(cluster, may_take))


def _surplus(cluster: Cluster, may_take: MayTake) -> dict[str, int]:
    """Replicas above the minimum by job, the youngest job first."""
    return {
        life.name: life.held - life.arrival.job.min_replicas
        for life in cluster.surplus()
        if may_take(life)
    }


def _drop(cluster: Cluster, counts: dict[str, int]) -> None:
    for name, count in counts.items():
        job = cluster.by_name[name].arrival.job
        for _ in range(count):
            cluster.draft.release_one(job, len(cluster.draft.seats(name)) - 1)


def _shrink_until(cluster: Cluster, fits: Callable[[], bool], may_take: MayTake) -> bool:
    """Shrink elastic jobs, the youngest first, by as little as it takes; False: it is no use."""
    most = _surplus(cluster, may_take)
    draft = cluster.draft

    def is_enough(counts: dict[str, int]) -> bool:
        mark = draft.mark()
        _drop(cluster, counts)
        found = fits()
        draft.roll_back(mark)
        return found

    if not most or not is_enough(most):
        return False
    taken: dict[str, int] = {}
    for name in (name for name, count in most.items() for _ in range(count)):
        taken[name] = taken.get(name, 0) + 1
        if is_enough(taken):
            break
    for name in list(taken):  # Some of it may have been of no use.
        while taken[name] and is_enough({**taken, name: taken[name] - 1}):
            taken[name] -= 1
    for name, count in taken.items():
        for _ in range(count):
            cluster.shrink(cluster.by_name[name])
    return True


def _are_free(cluster: Cluster, places: Sequence[Placement]) -> bool:
    """Whether replicas can take these places as things stand, limits of queues included."""
    draft = cluster.draft
    mark = draft.mark()
    found = True
    for place in places:
        role = cluster.problem.role_by_key[RoleKey(place.job, place.role)]
        n = draft.board.number[place.node]
        left = draft.board.state(n)
        queue = cluster.by_name[place.job].arrival.job.queue
        ledger = draft.ledger
        if (
            not ledger.allows(queue, ledger.amounts(role.shape))
            or any(left.gpu_left[gpu] < place.share_milli for gpu in place.gpus)
            or (
                role.shape.is_share
                and not shares_on(draft.board.nodes[n], role.shape, left, place.gpus[0])
            )
            or not are_open(draft.board.nodes[n], left, place.instances)
            or (left.cpu_left is not None and left.cpu_left < role.shape.cpu_milli)
            or (left.memory_left is not None and left.memory_left < role.shape.memory_mib)
        ):
            found = False
            break
        draft.reserve(queue, role.shape, 1)
        state = left.place(role.shape, place.gpus, place.share_milli)
        draft.hold(n, state.cut(place.instances))
    draft.roll_back(mark)
    return found
