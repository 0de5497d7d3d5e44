"""How long and how carefully to search: everything a solve may use besides the problem."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class ModelChoice(StrEnum):
    """The way in which cp-sat searches.

    ``DIRECT`` counts replicas by gang and node and proves the optimum of all but large problems;
    ``AGGREGATED`` packs by a linear program over classes and bounds by relaxations; ``AUTO`` takes
    one by the size of the problem.
    """

    DIRECT = "direct"
    AGGREGATED = "aggregated"
    AUTO = "auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class SolveOptions:
    """Limits of one solve.

    Parameters
    ----------
    time_limit_s
        Wall-clock time for all tiers together; at its end the incumbent is returned.
    deterministic_limit
        Limit in CP-SAT's deterministic time, which is the same on every machine; None is no limit.
    workers
        Search threads; None leaves the choice to the solver, 1 makes runs repeatable.
    seed
        Seed of everything random.
    gap
        Relative gap at which a tier counts as good enough, 0 for a proved optimum.
    model
        Which way the optimum is searched.
    """

    time_limit_s: float = 30.0
    deterministic_limit: float | None = None
    workers: int | None = None
    seed: int = 1
    gap: float = 0.0
    model: ModelChoice = ModelChoice.AUTO

    def __post_init__(self) -> None:
        if self.time_limit_s <= 0 or self.gap < 0:
            raise ValueError(f"a time limit is positive and a gap is not negative: {self}")
        if self.deterministic_limit is not None and self.deterministic_limit <= 0:
            raise ValueError(f"a deterministic limit is positive: {self}")
        if self.workers is not None and self.workers < 1:
            raise ValueError(f"at least one worker searches: {self}")
