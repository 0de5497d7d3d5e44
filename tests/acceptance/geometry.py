"""Cases that ask how GPUs are cut: put to the planner as nodes with one GPU each."""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from solver.api import solve
from solver.geometry import gpu_plans
from solver.verify import explain_violations, verify
from specs.compile import compile_spec
from specs.loader import load_spec
from topology.mig.layouts import layouts, multiset
from topology.mig.tables import mig_table

if TYPE_CHECKING:
    from solver.geometry import GpuPlan
    from tests.acceptance.neutral import Case
    from topology.mig.layouts import Layout
    from topology.mig.tables import MigTable


@dataclass(frozen=True)
class Cut:
    """The answer to one GPU of a case; without a plan the wish cannot be had."""

    table: MigTable
    wish: dict[str, int]
    before: Layout
    plan: GpuPlan | None

    @property
    def final(self) -> Layout:
        """What is on the GPU in the end."""
        return tuple(i for i, _ in self.plan.final) if self.plan else self.before

    @property
    def ways(self) -> list[Layout]:
        """All layouts of the wish beside what is in use."""
        wanted = tuple(sorted(self.wish.items()))
        kinds = [self.table.profile(name) for name in self.wish]
        return [way for way in layouts(self.table, kinds, self.before) if multiset(way) == wanted]

    def takes(self, wish: dict[str, int], beside: Layout | None = None) -> bool:
        """Whether all of a further wish fits beside the final layout, or beside another one."""
        kinds = [self.table.profile(name) for name in wish]
        there = self.final if beside is None else beside
        wanted = tuple(sorted(wish.items()))
        return any(multiset(way) == wanted for way in layouts(self.table, kinds, there))


def spec_of(case: Case) -> dict[str, Any]:
    """The spec that says what the case says: a wish is one replica, so all of it or nothing."""
    nodes = []
    for gpu in case["gpus"]:
        node: dict[str, Any] = {"name": gpu["name"], "gpus": 1, "gpu_model": gpu["model"]}
        if "instances" in gpu:
            held = [{"used_by": "somebody", **instance} for instance in gpu["instances"]]
            node["mig"] = [{"gpu": 0, "instances": held}]
        nodes.append(node)
    jobs = [
        {
            "name": f"want-{number}",
            "mig": want["profiles"],
            "node_selector": {"kubernetes.io/hostname": want["gpu"]},
        }
        for number, want in enumerate(case["want"])
    ]
    return {"cluster": {"name": str(case["id"]), "nodes": nodes}, "jobs": jobs}


def cuts(case: Case) -> dict[str, Cut]:
    """The planner's answer, by GPU; the plan is checked."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cluster.yaml"
        path.write_text(yaml.safe_dump(spec_of(case), sort_keys=False))
        compiled = compile_spec(load_spec(str(path)))
    problem = compiled.problem
    result = solve(problem, replace(compiled.options, workers=1))
    broken = verify(problem, result.plan)
    assert not broken, explain_violations(broken)
    plans = {gpu.node: gpu for gpu in gpu_plans(problem, result.plan)}
    models = {gpu["name"]: gpu["model"] for gpu in case["gpus"]}
    found = {}
    for number, want in enumerate(case["want"]):
        name = want["gpu"]
        table = mig_table(models[name])
        wish = {table.profile(text).name: count for text, count in want["profiles"].items()}
        starts = f"want-{number}" in result.plan.by_job
        before = problem.node_by_name[name].used_layouts[0]
        found[name] = Cut(table, wish, before, plans.get(name) if starts else None)
    return found


def differences(case: Case) -> list[str]:
    """What the planner answers otherwise than the case expects.

    Raises
    ------
    LookupError
        The case expects something whose meaning is not coded.
    """
    told = cuts(case)
    found = []
    for key, expected in case["expect"].items():
        if key == "feasible":
            said: object = {name: told[name].plan is not None for name in expected}
        elif key == "layouts":
            said = {name: _written(told[name].final) for name in expected}
        elif key == "creation_order":
            said = {name: _order(told[name]) for name in expected}
        elif key == "layout_must":
            found += _musts(told, expected)
            continue
        elif key == "still_possible_together":
            (only,) = told.values()
            said, expected = only.takes(expected), True
        elif key == "numbers":
            said = {name: _number(name, told) for name in expected}
        else:
            raise LookupError(f'nobody has said what "expect: {key}" means')
        if said != expected:
            found.append(f"{key}: {said}, expected {expected}")
    return found


def _written(layout: Layout) -> list[dict[str, Any]]:
    return [{"profile": i.profile, "start": i.start} for i in layout]


def _order(cut: Cut) -> list[str]:
    return [i.profile for i in cut.plan.creation.order] if cut.plan else []


def _musts(told: dict[str, Cut], expected: dict[str, list[int]]) -> list[str]:
    """Every instance of a profile begins at one of the listed slots."""
    return [
        f"layout_must: {instance} on {name}, expected a start of {expected[instance.profile]}"
        for name, cut in told.items()
        for instance in cut.final
        if instance.profile in expected and instance.start not in expected[instance.profile]
    ]


def _profile(cut: Cut, words: str) -> str:
    """``1g_10gb`` is 1g.10gb, and ``4g`` the plain profile of that family."""
    text = words.replace("_", ".", 1)
    if "." in text:
        return cut.table.profile(text).name
    return next(p.name for p in cut.table.base if p.family == text)


def _number(name: str, told: dict[str, Cut]) -> object:
    if match := re.fullmatch(r"layouts_of_(\w+)", name):
        return len(told[match[1]].ways)
    if match := re.fullmatch(r"spare_(\w+)_on_(\w+)", name):
        cut = told[match[2]]
        profile = cut.table.profile(_profile(cut, match[1]))
        return max(len(way) for way in layouts(cut.table, [profile], cut.final))
    (cut,) = told.values()
    if match := re.fullmatch(r"starts_that_keep_(\w+)", name):
        rest = dict(Counter(_profile(cut, words) for words in match[1].split("_plus_")))
        return sum(cut.takes(rest, tuple(sorted((*cut.before, *way)))) for way in cut.ways)
    kinds = [cut.table.profile(p) for p, count in cut.wish.items() for _ in range(count)]
    sums = {
        "distinct_layouts": lambda: len(cut.ways),
        "sum_of_names_gb": lambda: sum(int(re.findall(r"\.(\d+)gb", p.name)[0]) for p in kinds),
        "compute_slices": lambda: sum(profile.compute for profile in kinds),
        "memory_slices": lambda: sum(profile.size for profile in kinds),
    }
    if name not in sums:
        raise LookupError(f"nobody has said what the number {name} means")
    return sums[name]()
