"""Jobs of a start group start together or not at all.

Rule: ``start_j = start_i`` for all jobs of the group. Since a gang that starts has its
minimum, all minimums of a group come before anybody's surplus.

Reads ``start``. As a reason users see it as ``waits-for-<job>``.
"""

from __future__ import annotations

from solver.cpsat.variables import Variables


def add_start_groups(variables: Variables) -> None:
    """Tie the members of every group to its first one."""
    for first, *others in variables.problem.start_groups.values():
        for job in others:
            variables.model.add(variables.start[job.name] == variables.start[first.name])
