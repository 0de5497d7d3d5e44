"""Where tables go: a terminal as wide as it is, or plain text."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, TextIO

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from rich.console import RenderableType

PLAIN_WIDTH = 120
"""Columns where nobody's terminal says how wide it is."""


def console_for(stream: TextIO, width: int | None = None) -> Console:
    """A console on `stream`: as wide as its terminal, without colour where it is none."""
    if width is None and not stream.isatty():
        columns = os.environ.get("COLUMNS", "")
        width = int(columns) if columns.isdecimal() and int(columns) else PLAIN_WIDTH
    return Console(file=stream, width=width, highlight=False, emoji=False)


def show(content: RenderableType, stream: TextIO, width: int | None = None) -> None:
    """Write a table or a text to a stream.

    Parameters
    ----------
    width
        Columns; None takes the terminal's, or `PLAIN_WIDTH` where there is none.
    """
    console = console_for(stream, width)
    # Pictures and commands are not folded; on a narrow terminal they are not to be cut off either.
    if console.is_terminal:
        console.print(content, crop=False)
        return
    with console.capture() as written:
        console.print(content, crop=False)
    lines = written.get().split("\n")
    stream.write("\n".join(line.rstrip() for line in lines))  # rich fills up its last column


def new_table() -> Table:
    """An empty table in the one style of all answers."""
    return Table(box=SIMPLE_HEAD, show_edge=False, header_style="bold", padding=(0, 1, 0, 0))
