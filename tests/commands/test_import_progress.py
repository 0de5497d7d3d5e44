"""Large inputs: the number of objects so far is shown, on terminals only."""

from __future__ import annotations

import io
import sys

import pytest

import commands.kubernetes
import report.progress
from kube.reading import Found
from specs.importers.fields import Place


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(report.progress, "TERMINAL_EVERY_S", 0)
    monkeypatch.setattr(commands.kubernetes, "EVERY", 2)


@pytest.mark.parametrize(("stream", "shown"), [(Terminal, True), (io.StringIO, False)])
def test_objects_are_counted_while_they_are_read(stream, shown, monkeypatch, impatient):
    target = stream()
    monkeypatch.setattr(sys, "stderr", target)
    objects = [Found({}, Place("f", number)) for number in range(5)]

    passed = list(commands.kubernetes.counted(iter(objects), "f.json"))

    assert passed == objects
    assert ("f.json: 4 objects" in target.getvalue()) is shown
    assert not shown or target.getvalue().endswith("\r")
