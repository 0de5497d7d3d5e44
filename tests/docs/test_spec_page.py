"""``docs/spec.md`` names every key of the schema, where it belongs, and no other."""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "spec.md").read_text(encoding="utf-8")
SCHEMA = json.loads((ROOT / "specs" / "cluster.schema.json").read_text(encoding="utf-8"))
SECTIONS = {
    "The file": ["root"],
    "`cluster`": ["Cluster"],
    "`cluster.pools` and `cluster.nodes`": ["PoolSpec", "NodeSpec"],
    "`queues`": ["QueueSpec"],
    "`jobs`": ["JobSpec"],
    "`mig`": ["MigRulesSpec"],
    "`sharing`": ["SharingSpec"],
    "`tenants`": ["TenantSpec"],
    "`solve`": ["SolveSpec"],
}
INSIDE = {
    ("`cluster.pools` and `cluster.nodes`", "topology"): ["TopologySpec"],
    ("`cluster.pools` and `cluster.nodes`", "gpus[]"): ["GpuSpec"],
    ("`cluster.pools` and `cluster.nodes`", "links[]"): ["LinkSpec"],
    ("`cluster.pools` and `cluster.nodes`", "reserved"): ["ReservedSpec"],
    ("`cluster.pools` and `cluster.nodes`", "taints[]"): ["TaintSpec"],
    ("`cluster.pools` and `cluster.nodes`", "mig[]"): ["MigGpuSpec", "MigInstanceSpec"],
    ("The file", "fair_share"): ["FairShareSpec"],
    ("`queues`", "past[]"): ["PastUseSpec"],
    ("`jobs`", "topology"): ["TopologyRuleSpec"],
    ("`jobs`", "spread"): ["SpreadSpec"],
    ("`jobs`", "tolerations[]"): ["TolerationSpec"],
    ("`jobs`", "roles[]"): ["RoleSpec"],
    ("`jobs`", "preemption"): ["PreemptionSpec"],
    ("`jobs`", "load"): ["LoadSpec"],
    ("`running`", "replicas[]"): ["RunningReplicaSpec"],
    ("`mig`", "demand[]"): ["DemandSpec"],
}


def keys_of(name: str) -> set[str]:
    return set((SCHEMA if name == "root" else SCHEMA["$defs"][name])["properties"])


def section(title: str) -> str:
    found = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert found, f"no section {title}"
    return found.group(1)


def rows(text: str, columns: int) -> dict[str, str]:
    """First cell, without its backticks, to the rest, of tables with that many columns."""
    found = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("| `") and len(cells) == columns:
            found[cells[0].strip("`")] = cells[-1]
    return found


@pytest.mark.parametrize("title", SECTIONS)
def test_a_section_has_the_keys_of_the_schema(title: str):
    wanted = set().union(*(keys_of(name) for name in SECTIONS[title]))

    assert set(rows(section(title), 3)) == wanted


@pytest.mark.parametrize("place", INSIDE, ids=" ".join)
def test_parts_name_all_their_keys(place: tuple[str, str]):
    title, key = place
    text = rows(section(title), 2)[key]

    named = set(re.findall(r"`([a-z_]+)`", text))
    assert set().union(*(keys_of(name) for name in INSIDE[place])) <= named


def test_running_work_has_the_keys_of_a_job_and_its_own():
    own = set(rows(section("`running`"), 3))

    assert own | keys_of("JobSpec") - {"name"} == keys_of("RunningSpec")
    assert keys_of("RunningPreemptionSpec") - keys_of("PreemptionSpec") == {"checkpoint_age"}
    assert "`checkpoint_age`" in rows(section("`running`"), 3)["preemption"]


def test_reference_and_amounts_are_complete():
    assert keys_of("ReferenceSpec") <= set(re.findall(r"`([a-z_]+)`", section("`reference`")))
    assert keys_of("AmountsSpec") <= set(re.findall(r"`([a-z_]+)`", section("`queues`")))


def test_no_part_of_the_schema_is_forgotten():
    named = {name for names in [*SECTIONS.values(), *INSIDE.values()] for name in names}
    others = {"RunningSpec", "RunningPreemptionSpec", "ReferenceSpec", "AmountsSpec", "root"}

    assert named | others == set(SCHEMA["$defs"]) | {"root"}
