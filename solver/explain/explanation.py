"""What is said about one job: verdict, core, nodes, fixes. Pure data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from solver.result import Pending
from solver.solution import Placement

Verdict = Literal["starts-now", "waits", "impossible"]

KINDS = (
    "wait", "uncordon", "change-toleration", "change-selector", "relax-link", "relax-topology",
    "other-model", "raise-quota", "lower-request", "lower-min", "move", "preempt", "add-capacity",
)  # fmt: skip
"""Kinds of fixes, in the order in which fixes of equal price are listed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreRule:
    """One of the rules that cannot hold together, with what it amounts to here."""

    rule: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeReason:
    """Why one node takes no replica, or how many it takes.

    `free` and `needs` are GPUs, or what the reason is about: CPU cores, GiB.
    """

    node: str
    reason: str
    free: float
    needs: float
    said: str = ""
    holders: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGroup:
    """Nodes that stand in the way for the same reason, in one line with the numbers behind it."""

    reason: str
    count: int
    names: tuple[str, ...]
    text: str
    facts: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fix:
    """One change by which the job starts.

    Parameters
    ----------
    cost_gpu_s
        Its price in GPU-seconds (see `solver.explain.fixes`).
    verified
        The question was solved with it applied: the job starts and nobody else loses anything.
    placements
        Where the job then starts.
    """

    kind: str
    params: Mapping[str, Any]
    text: str
    cost_gpu_s: int
    verified: bool
    placements: tuple[Placement, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The whole answer; `pending` is the line that ``solve`` prints for the job, if it waits."""

    job: str
    verdict: Verdict
    core: tuple[CoreRule, ...] = ()
    core_proved: bool = False
    nodes: tuple[NodeGroup, ...] = ()
    fixes: tuple[Fix, ...] = ()
    pending: Pending | None = None
    placements: tuple[Placement, ...] = ()
    notes: tuple[str, ...] = field(default=())
