"""What an import read, assumed and ignored, with counts: nothing is dropped in silence."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_EXAMPLES = 3


@dataclass(slots=True)
class Tally:
    """Remarks of one kind: how many objects each is about, and the first of them by name."""

    _count: Counter[str] = field(default_factory=Counter)
    _examples: dict[str, list[str]] = field(default_factory=dict)

    def add(self, remark: str, about: str = "", count: int = 1) -> None:
        """One more object (or `count` of them) that a remark is about."""
        self._count[remark] += count
        examples = self._examples.setdefault(remark, [])
        if about and len(examples) < MAX_EXAMPLES and about not in examples:
            examples.append(about)

    def __getitem__(self, remark: str) -> int:
        """How many objects a remark is about."""
        return self._count[remark]

    def __iter__(self) -> Iterator[str]:
        """Remarks in the order in which they came up."""
        return iter(self._count)

    def lines(self) -> Iterator[str]:
        """Remarks with their counts and examples."""
        for remark, count in self._count.items():
            examples = self._examples[remark]
            names = ", ".join(examples) + (", …" if count > len(examples) else "")
            yield f"{remark} ({count:,}{': ' + names if examples else ''})"


@dataclass(slots=True)
class ImportReport:
    """The three things to say about an import, besides its result."""

    read: Tally = field(default_factory=Tally)
    assumed: Tally = field(default_factory=Tally)
    ignored: Tally = field(default_factory=Tally)

    def lines(self) -> Iterator[str]:
        """The report for people, a remark on each line."""
        for name, tally in (
            ("read", self.read),
            ("assumed", self.assumed),
            ("ignored", self.ignored),
        ):
            for line in tally.lines():
                yield f"{name}: {line}"
