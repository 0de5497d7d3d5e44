"""Small ways to read a spec in a test, and to get at the one thing that is wrong with it."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from specs.compile import CompiledSpec, compile_spec
from specs.errors import SpecErrors, SpecFault
from specs.loader import parse_spec

FILE = "cluster.yaml"
SPECS = Path(__file__).resolve().parents[2] / "specs"


def compiled(text: str, folder: Path | None = None) -> CompiledSpec:
    return compile_spec(parse_spec(dedent(text).lstrip("\n"), FILE, folder))


def faults_of(text: str, folder: Path | None = None) -> tuple[SpecFault, ...]:
    with pytest.raises(SpecErrors) as caught:
        compiled(text, folder)
    return caught.value.faults


def fault_of(text: str, folder: Path | None = None) -> SpecFault:
    faults = faults_of(text, folder)
    assert len(faults) == 1, "\n".join(str(fault) for fault in faults)
    return faults[0]


def message_of(text: str, folder: Path | None = None) -> str:
    return str(fault_of(text, folder))
