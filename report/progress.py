"""The progress of a long search, on standard error: one line that changes, or a few lines."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from types import TracebackType

    from solver.progress import Progress

PLAIN_EVERY_S = 10.0
"""Between two lines where no terminal can overwrite the last one."""

TERMINAL_EVERY_S = 0.1
MAX_COLUMNS = 100


class ProgressLine:
    r"""Shows the best value and bound so far; call it with every `Progress`.

    On a terminal it is one line that is overwritten and cleared at the end. Elsewhere it is
    silent for the first seconds and then rare, so that logs stay short.

    Examples
    --------
    >>> import io
    >>> from types import SimpleNamespace
    >>> log = io.StringIO()
    >>> with ProgressLine(log) as progress:
    ...     for second in (0.5, 11, 12):
    ...         message = f"{second} s: topology 3"
    ...         progress(SimpleNamespace(elapsed_s=second, value=3, bound=1, message=message))
    >>> log.getvalue()
    '11 s: topology 3\n'
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._live = stream.isatty()
        self._last_s = 0.0
        self._shown = 0

    def __enter__(self) -> ProgressLine:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live and self._shown:
            self._stream.write("\r" + " " * self._shown + "\r")
            self._stream.flush()

    def __call__(self, progress: Progress) -> None:
        """Show this state of the search, unless the last one is too recent."""
        if not (isfinite(progress.value) and isfinite(progress.bound)):
            return  # a search that has just begun
        every_s = TERMINAL_EVERY_S if self._live else PLAIN_EVERY_S
        if progress.elapsed_s - self._last_s < every_s:
            return
        self._last_s = progress.elapsed_s
        text = progress.message[:MAX_COLUMNS]
        if self._live:
            self._shown = max(self._shown, len(text))
            self._stream.write("\r" + text.ljust(self._shown))
        else:
            self._stream.write(text + "\n")
        self._stream.flush()
