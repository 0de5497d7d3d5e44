"""What queues have used so far, half of it forgotten with every half life."""

from __future__ import annotations

from collections.abc import Mapping
from math import log

from simulator.scenario import MS, Scenario
from solver.cluster import GPU_MILLI
from solver.queues import weights_now


class PastUse:
    """Decayed GPU-time by queue, from the scenario's own past use on.

    Between two moments held GPUs are constant, so with a half life H the use after a span d is
    exactly ``use * 2**(-d/H) + held * H / ln 2 * (1 - 2**(-d/H))``.
    """

    def __init__(self, scenario: Scenario) -> None:
        assert scenario.half_life_ms
        self._half_life_ms = scenario.half_life_ms
        self._tree = scenario.problem.queue_tree
        self._weight = {queue.name: queue.weight for queue in scenario.queues}
        self._used = {q.name: q.past_gpu_s * GPU_MILLI * MS for q in scenario.queues}
        self._held: Mapping[str, int] = dict.fromkeys(self._used, 0)
        self._at_ms = 0

    @property
    def gpu_s(self) -> dict[str, float]:
        """Decayed GPU-seconds by queue, at the last moment that was looked at."""
        return {name: used / GPU_MILLI / MS for name, used in self._used.items()}

    def advance(self, now_ms: int) -> None:
        """Time has passed."""
        left = 2.0 ** ((self._at_ms - now_ms) / self._half_life_ms)
        gained_ms = self._half_life_ms / log(2) * (1 - left)
        for name in self._used:
            self._used[name] = self._used[name] * left + self._held[name] * gained_ms
        self._at_ms = now_ms

    def hold(self, held_milli: Mapping[str, int]) -> None:
        """From now on queues hold so many GPU-milli."""
        self._held = dict(held_milli)

    def weights(self) -> dict[str, float]:
        """Weight of every member of the tree now."""
        found: dict[str, float] = {}
        for members in self._tree.families.values():
            found |= weights_now(
                {
                    m.name: (
                        1 if m.is_own else self._weight[m.name],
                        sum(self._used[queue] for queue in m.queues),
                    )
                    for m in members
                }
            )
        return found
