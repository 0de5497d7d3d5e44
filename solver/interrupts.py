"""Ctrl-C at a moment that suits: state is never left half changed, and no answer is lost.

Python raises `KeyboardInterrupt` between any two instructions of the main thread. Long searches
catch it and answer with what they have; the few lines that change what they have are `held`.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def held(*, drop: bool = False) -> Iterator[None]:
    """Within the block Ctrl-C waits; it is raised at the end.

    Does nothing outside the main thread or where the program has its own handler of SIGINT. Whoever
    presses a second time does not want to wait: that one is raised at once.

    Parameters
    ----------
    drop
        The answer is ready in a moment and the search is over: forget the first Ctrl-C.
    """
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    pressed = False

    def note(number: int, frame: object) -> None:
        nonlocal pressed
        if pressed:
            raise KeyboardInterrupt
        pressed = True

    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if pressed and not drop:
        raise KeyboardInterrupt
