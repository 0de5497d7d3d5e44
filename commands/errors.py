"""Outcomes of a verb that end it with an exit code of their own; `cli.py` has the table."""

from __future__ import annotations

from collections.abc import Sequence


class CommandError(Exception):
    """Root of the package's errors; the message is one line for people."""


class MustJobError(CommandError):
    """Jobs marked ``must: true`` are proved unable to run."""

    def __init__(self, jobs: Sequence[str]) -> None:
        self.jobs = tuple(jobs)
        names = ", ".join(f'"{job}"' for job in self.jobs)
        noun, has = ("job", "is") if len(self.jobs) == 1 else ("jobs", "are")
        super().__init__(f"{noun} {names} {has} marked must, and proved unable to run")


class NoAnswerError(CommandError):
    """The time was over before there was any answer."""


class StuckJobError(MustJobError):
    """It is proved that no moves and evictions let a job start."""

    def __init__(self, job: str, within: str) -> None:
        self.jobs = (job,)
        text = f'no moves and evictions{within} let job "{job}" start; explain says why it waits'
        Exception.__init__(self, text)
