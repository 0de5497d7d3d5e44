"""Did you mean …? Near misses among the names that would have been right."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_LISTED = 8
"""Names listed when none of them is near."""

MAX_COMPARED = 2000
"""Comparing a word with every node of a large cluster is not worth the wait."""


def did_you_mean(word: str, known: Iterable[str], what: str = "") -> str:
    """Hint for a word that is not among `known`.

    Parameters
    ----------
    word
        What was written.
    known
        What would have been right.
    what
        What the names are, for the list given when none is near; without it there is no list.

    Returns
    -------
    str
        ``Did you mean "rack"?``, or a list of names, or nothing.

    Examples
    --------
    >>> did_you_mean("rak", ["block", "rack"])
    'Did you mean "rack"?'
    >>> did_you_mean("zone", ["block", "rack"], "levels")
    'Known levels: block, rack'
    """
    names = sorted(set(known))
    lowered = {name.lower(): name for name in names}
    if word.lower() in lowered:
        return f'Did you mean "{lowered[word.lower()]}"?'
    near = get_close_matches(word, names[:MAX_COMPARED], n=1, cutoff=0.6)
    if near:
        return f'Did you mean "{near[0]}"?'
    if not what:
        return ""
    if not names:
        return f"There are no {what}"
    more = f" and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else ""
    return f"Known {what}: {', '.join(names[:MAX_LISTED])}{more}"
