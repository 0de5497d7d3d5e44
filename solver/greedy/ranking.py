"""The best situation for one shape, found without looking at all of them."""

from __future__ import annotations

from bisect import insort
from collections.abc import Collection, Iterator, Mapping, Sequence

from solver.greedy.scoring import Score


class Ranking:
    """Situations that take a replica of one shape, by score.

    Situations come and go with every replica that is placed. Those that come are added; those that
    have gone stay until they are met where the best is looked for.
    """

    def __init__(self) -> None:
        self._scores: list[Score] = []
        self._groups: dict[Score, set[int]] = {}

    def add(self, score: Score, sid: int) -> None:
        """A situation that is there now; it may have been before."""
        group = self._groups.get(score)
        if group is None:
            self._groups[score] = {sid}
            insort(self._scores, score)
        else:
            group.add(sid)

    def best(self, buckets: Mapping[int, Sequence[int]]) -> int | None:
        """The first node (by number) of those with the highest score; None where there is none.

        Parameters
        ----------
        buckets
            The nodes of every situation that is there, in order.

        Examples
        --------
        >>> ranking = Ranking()
        >>> for score, sid in [((50,), 0), ((70,), 1), ((70,), 2), ((90,), 3)]:
        ...     ranking.add(score, sid)
        >>> ranking.best({0: [4], 1: [3, 8], 2: [1]})
        1
        """
        while self._scores:
            score = self._scores[-1]
            group = self._groups[score]
            there = group & buckets.keys()
            if there:
                self._groups[score] = there
                return min([buckets[sid][0] for sid in there])
            del self._groups[self._scores.pop()]
        return None

    def there(self, buckets: Collection[int]) -> Iterator[tuple[Score, int]]:
        """Every situation that is there, with its score; in a fixed order."""
        for score, group in self._groups.items():
            yield from ((score, sid) for sid in sorted(group) if sid in buckets)
