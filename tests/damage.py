"""Documents with some of their values replaced, removed, renamed or taken from elsewhere."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

JUNK = st.sampled_from(
    [
        *(None, True, 0, -1, 10**12, 1.5, "", " ", "x", "é", "\x00", "yes", "1e3", "8", "0.3"),
        "a" * 300,
        [],
        {},
    ]
) | st.recursive(st.none() | st.text(max_size=3), lambda x: st.lists(x, max_size=2), max_leaves=3)


def paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths to all values of a document."""
    yield path
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from paths(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from paths(inner, (*path, index))


def at(document: Any, path: tuple[Any, ...]) -> Any:
    """The value at a path."""
    for step in path:
        document = document[step]
    return document


@st.composite
def damaged(draw, document: Any) -> Any:
    """The document with one to five of its values changed."""
    ways = [path for path in paths(document) if path]
    result = copy.deepcopy(document)
    for path in draw(st.lists(st.sampled_from(ways), min_size=1, max_size=5)):
        try:
            holder = at(result, path[:-1])
            how = draw(st.sampled_from(["junk", "junk", "remove", "copy", "rename"]))
            if how == "junk":
                holder[path[-1]] = draw(JUNK)
            elif how == "remove":
                del holder[path[-1]]
            elif how == "rename" and isinstance(holder, dict):
                holder[draw(st.text(max_size=4))] = holder.pop(path[-1])
            else:
                holder[path[-1]] = copy.deepcopy(at(document, draw(st.sampled_from(ways))))
        except (KeyError, IndexError, TypeError):
            continue  # an earlier change has taken that value away
    return result
