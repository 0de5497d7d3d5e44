"""Who is stopped for a unit that finds no room: as few as it takes, of those that may be."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from simulator.lives import Life
from simulator.state import Cluster, Unit

MayGo = Callable[[Life], bool]


def fewest_of(
    cluster: Cluster, unit: Unit, candidates: Sequence[Life], may_go: MayGo = lambda _: True
) -> list[Life]:
    """Candidates without which a unit finds room; none where that is no use.

    They go in their order until there is room; then each is put back who need not go, the last
    one first. So no victim could have stayed.

    Parameters
    ----------
    may_go
        Asked when it is a candidate's turn, with those before it off the draft.
    """
    draft = cluster.draft
    mark = draft.mark()
    victims: list[Life] = []
    for life in candidates:
        if not may_go(life):
            continue
        draft.release(life.arrival.job)
        victims.append(life)
        if draft.start(unit.jobs):
            break
    else:
        draft.roll_back(mark)
        return []
    draft.roll_back(mark)
    for life in list(reversed(victims)):
        rest = [victim for victim in victims if victim is not life]
        for victim in rest:
            draft.release(victim.arrival.job)
        if rest and draft.start(unit.jobs):
            victims = rest
        draft.roll_back(mark)
    return victims


def may_be_stopped(cluster: Cluster) -> list[Life]:
    """Running jobs that may be stopped at all, with their work up to now; services never are."""
    found = [
        life
        for life in cluster.running.values()
        if life.arrival.preemptible and not life.is_service
    ]
    for life in found:
        life.advance(cluster.now_ms)
    return found
