"""When a unit that finds no room can start at the latest, and keeping that free."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf

from simulator.lives import Life
from simulator.schedulers.promises import Claim, hold_limits
from simulator.schedulers.surplus import drop_surplus
from simulator.state import Cluster, Unit
from solver.cluster import GPU_MILLI
from solver.problem import RoleKey
from solver.solution import Placement
from solver.state import NodeState


@dataclass(frozen=True, slots=True)
class Reservation:
    """A time and the very places with which a unit starts then, if it could not before."""

    unit: Unit
    at_ms: int
    places: tuple[Placement, ...]


def places_of(cluster: Cluster, unit: Unit) -> tuple[Placement, ...]:
    """Where the draft has the jobs of a unit."""
    return tuple(p for life in unit.lives for p in cluster.draft.placements(life.name))


def longest_ms(cluster: Cluster, unit: Unit) -> int | None:
    """The longest that a unit runs from its start with its minimums; None: it does not end."""
    stretch = cluster.stretch.longest_milli
    times = [life.needs_ms(life.arrival.job.min_replicas, stretch) for life in unit.lives]
    known = [time for time in times if time is not None]
    return max(known) if len(known) == len(times) else None


def try_places(cluster: Cluster, unit: Unit) -> tuple[Placement, ...] | None:
    """Where a unit would start now; nothing is changed."""
    mark = cluster.draft.mark()
    fits = cluster.draft.start(unit.jobs)
    places = places_of(cluster, unit) if fits else None
    cluster.draft.roll_back(mark)
    return places


def by_end(cluster: Cluster) -> list[tuple[int, list[Life]]]:
    """Running jobs by the time of their end, the first first; those without one are left out.

    Elastic jobs end as if they fell back to their minimums now: not later than that, whatever is
    taken from them.
    """
    ends: dict[int, list[Life]] = {}
    for life in cluster.running.values():
        if (end_ms := latest_end_ms(cluster, life)) is not None:
            ends.setdefault(end_ms, []).append(life)
    return sorted(ends.items())


def latest_end_ms(cluster: Cluster, life: Life) -> int | None:
    """When a running job ends at the latest."""
    if not life.is_elastic or life.end_ms is None:
        return life.end_ms
    life.advance(cluster.now_ms)
    needs_ms = life.needs_ms(life.arrival.job.min_replicas, life.stretch_milli)
    return None if needs_ms is None else cluster.now_ms + needs_ms


def reserve(cluster: Cluster, unit: Unit) -> Reservation | None:
    """The earliest time at which a unit fits if nothing else starts; None where that is never.

    What others hold above their minimums is as good as free.
    """
    draft = cluster.draft
    mark = draft.mark()
    found = None
    drop_surplus(cluster)
    for at_ms, lives in by_end(cluster):
        for life in lives:
            draft.release(life.arrival.job)
        if draft.start(unit.jobs):
            found = Reservation(unit, at_ms, places_of(cluster, unit))
            break
    draft.roll_back(mark)
    return found


def running_claims(cluster: Cluster) -> list[Claim]:
    """What runs, on its queues until it ends at the latest; nothing where no queue is limited."""
    ledger = cluster.draft.ledger
    claims = []
    for life in cluster.running.values():
        if ledger.limited(life.arrival.job.queue):
            end_ms = latest_end_ms(cluster, life)
            claims.append(Claim(life, -inf, inf if end_ms is None else end_ms))
    return claims


def hold(cluster: Cluster, reservations: Iterable[Reservation]) -> None:
    """Keep free what reservations need: then nothing that is started delays them.

    A node shows, of each resource, the less of what is left now and of what will be left at
    the time of the reservation once its jobs are in place; and so do the limits of queues.
    """
    board = cluster.draft.board
    known = list(reservations)
    claims = running_claims(cluster)
    claims += [Claim(life, r.at_ms, inf) for r in known for life in r.unit.lives]
    hold_limits(cluster, claims, cluster.now_ms, inf)
    for reservation in known:
        numbers = {board.number[place.node] for place in reservation.places}
        then = {n: board.state(n) for n in numbers}
        for life in cluster.running.values():
            end_ms = latest_end_ms(cluster, life)
            seats = cluster.draft.seats(life.name)
            if end_ms is None or end_ms > reservation.at_ms:
                seats = seats[life.arrival.job.min_replicas :]  # its surplus, if it has any
            for role, seat in seats:
                if seat.node in then:
                    state = then[seat.node]
                    state = state.give_back(role.shape, seat.gpus, seat.share_milli)
                    then[seat.node] = state.join(seat.instances, board.nodes[seat.node])
        for place in reservation.places:
            n = board.number[place.node]
            shape = cluster.problem.role_by_key[RoleKey(place.job, place.role)].shape
            then[n] = then[n].place(shape, place.gpus, place.share_milli).cut(place.instances)
        for n in sorted(numbers):
            cluster.draft.hold(n, least(board.state(n), then[n]))


def least(a: NodeState, b: NodeState) -> NodeState:
    """Of each resource the less of two states of a node."""
    left = list(map(min, a.gpu_left, b.gpu_left))
    groups = [""] * len(left)
    for gpu in range(len(left)) if a.groups or b.groups else ():
        mine, theirs = a.group(gpu), b.group(gpu)
        groups[gpu] = mine or theirs or ""
        if mine is not None and theirs is not None and mine != theirs:
            left[gpu] = 0  # Nobody may be put beside both.
    extra = [0] * len(left)
    for gpu in range(len(left)) if a.extra_compute or b.extra_compute else ():
        # The limit of a node falls out: what counts is what is left of it.
        least_left = min(a.compute_left(gpu, GPU_MILLI), b.compute_left(gpu, GPU_MILLI))
        extra[gpu] = left[gpu] - least_left
    layouts = (tuple(sorted({*a.layout(gpu), *b.layout(gpu)})) for gpu in range(len(left)))
    cuts = tuple(layouts) if a.layouts or b.layouts else ()
    return NodeState(
        tuple(left),
        None if a.cpu_left is None or b.cpu_left is None else min(a.cpu_left, b.cpu_left),
        None
        if a.memory_left is None or b.memory_left is None
        else min(a.memory_left, b.memory_left),
        layouts=cuts,
        groups=tuple(groups) if any(groups) else (),
        extra_compute=tuple(extra) if any(extra) else (),
    )
