"""Run the command line inside the test process, as a user would from a shell."""

from __future__ import annotations

import io
import sys
from contextlib import redirect_stderr, redirect_stdout
from typing import NamedTuple

import cli


class Done(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str


class _Stdin(io.TextIOWrapper):
    def __init__(self, content: bytes) -> None:
        super().__init__(io.BytesIO(content), encoding="utf-8")


def unstrand(*words: object, stdin: str | None = "") -> Done:
    """Run ``unstrand WORDS``; without standard input at all where that is None."""
    out, err = io.StringIO(), io.StringIO()
    before = sys.stdin
    sys.stdin = None if stdin is None else _Stdin(stdin.encode())
    try:
        with redirect_stdout(out), redirect_stderr(err):
            cli.main([str(word) for word in words])
    except SystemExit as leaving:
        code = leaving.code
    finally:
        sys.stdin = before
    return Done(code if isinstance(code, int) else 1, out.getvalue(), err.getvalue())
