"""The verbs `mig plan`, `mig ahead` and `advise`: their answers, exports and refusals."""

import json

import pytest
import yaml

from tests.commands.running import unstrand

SPEC = """\
cluster:
  name: two
  nodes:
    - name: n
      gpus: 2
      gpu_model: A100-80GB
      mig:
        - gpu: 0
          instances:
            - {profile: 3g.40gb, start: 4, used_by: chat}
            - {profile: 1g.10gb, start: 0}
jobs:
  - {name: four, priority: 1, mig: {4g.40gb: 1}}
  - {name: seven, mig: {7g.80gb: 1}}
"""


@pytest.fixture
def spec(tmp_path):
    path = tmp_path / "mig.yaml"
    path.write_text(SPEC)
    return path


def plan(spec, *words):
    done = unstrand("mig", "plan", spec, "--workers", 1, *words)
    assert done.code == 0, done.err
    return done.out


def test_a_plan_says_what_to_destroy_what_to_create_and_what_stays(spec):
    first, second = json.loads(plan(spec, "--output", "json"))["gpus"]

    assert first["destroy"] == [{"profile": "1g.10gb", "start": 0}]
    assert first["create"] == [{"profile": "4g.40gb", "start": 0}]
    assert first["final"] == [
        {"profile": "4g.40gb", "start": 0, "used_by": "four"},
        {"profile": "3g.40gb", "start": 4, "used_by": "chat"},
    ]
    assert (first["mode"], first["drain"], first["starts_must_be_passed"]) == (
        "unchanged",
        [],
        False,
    )
    assert second["create"] == [{"profile": "7g.80gb", "start": 0}]
    assert (second["mode"], second["reset"]) == ("on", True)


def test_a_small_slice_goes_where_a_driver_that_chooses_would_not_put_it(spec):
    spec.write_text(
        "cluster: {nodes: [{name: n, gpus: 1, gpu_model: A100-40GB}]}\n"
        "jobs: [{name: small, mig: {1g.5gb: 1}}]\n"
    )

    (gpu,) = json.loads(plan(spec, "--output", "json"))["gpus"]

    assert gpu["create"] == [{"profile": "1g.5gb", "start": 6}]
    assert gpu["starts_must_be_passed"]
    assert "the starts must be passed" in plan(spec)


def test_the_table_has_the_commands_with_their_starts(spec):
    out = plan(spec)

    assert "n gpu 0: destroy 1g.10gb@0" in out
    assert "nvidia-smi mig -i 0 -cgi 5:0 -C" in out
    assert "n gpu 1: switch MIG mode on, which resets the GPU   nvidia-smi -i 1 -mig 1" in out


def test_commands_and_pictures_are_whole_on_a_narrow_terminal(spec, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")

    lines = plan(spec).splitlines()

    assert any(line.endswith("nvidia-smi mig -i 0 -cgi 5:0 -C") for line in lines)
    assert any(line.startswith("n gpu 0") and line.count("[") == 2 for line in lines)
    layouts = unstrand("mig", "layouts", "H100-80GB").out
    assert layouts.rstrip().endswith("[1g.10gb]·              7/7     7/8")


def test_mig_parted_gets_counts_without_placements(spec):
    config = yaml.safe_load(plan(spec, "--export", "mig-parted"))

    assert config["version"] == "v1"
    assert config["mig-configs"]["n"] == [
        {"devices": [0], "mig-enabled": True, "mig-devices": {"3g.40gb": 1, "4g.40gb": 1}},
        {"devices": [1], "mig-enabled": True, "mig-devices": {"7g.80gb": 1}},
    ]


def test_checkpoints_have_placements_and_leave_out_gpus_in_use(spec):
    (device,) = json.loads(plan(spec, "--export", "mig-parted-checkpoint"))["n"]["MigState"][
        "Devices"
    ]

    (instance,) = device["GpuInstances"]
    assert device["UUID"] == "<uuid of GPU 1 of n>"
    assert instance["Placement"] == {"Start": 0, "Size": 8}
    assert instance["ProfileID"] == 4
    assert instance["ComputeInstances"] == [{"ProfileID": 4, "EngProfileID": 0}]


@pytest.mark.parametrize("form", ["mig-parted", "mig-parted-checkpoint"])
def test_an_export_says_which_gpus_it_cannot_change_beside_an_instance_in_use(spec, form):
    done = unstrand("mig", "plan", spec, "--workers", 1, "--export", form)

    assert done.code == 0
    (note,) = done.err.splitlines()
    assert note.startswith("note: n gpu 0: ")
    assert note.endswith("Follow the steps of mig plan for this one")


def test_a_saved_plan_with_slices_can_be_begun_with(spec, tmp_path):
    saved = tmp_path / "plan.json"
    unstrand("solve", spec, "--save", saved, "--workers", 1)

    done = unstrand("solve", spec, "--from", saved, "--workers", 1, "--output", "json")

    answer = json.loads(done.out)
    assert "2 of 2 jobs of plan.json stand as they were planned" in answer["notes"]
    assert answer["placements"] == json.loads(saved.read_text())["placements"]
    assert answer["placements"][0]["instances"] == [{"gpu": 0, "profile": "4g.40gb", "start": 0}]


def test_a_greedy_policy_can_cut_gpus_too(spec):
    gpus = json.loads(plan(spec, "--policy", "best-fit", "--output", "json"))["gpus"]

    assert [gpu["final"][0]["profile"] for gpu in gpus] == ["4g.40gb", "7g.80gb"]


def test_ahead_compares_with_static_fleets():
    done = unstrand("mig", "ahead", "specs/mig.yaml", "--output", "json", "--workers", 1)
    solver, *static = json.loads(done.out)["fleets"]

    assert [fleet["name"] for fleet in static] == ["all 1g", "balanced", "whole"]
    assert all(fleet["admitted_ratio"] <= solver["admitted_ratio"] for fleet in static)
    assert solver["admitted_ratio"] <= solver["bound_ratio"]


def test_ahead_says_how_many_gpus_of_a_model_are_cut_alike():
    done = unstrand("mig", "ahead", "specs/mig.yaml", "--workers", 1)

    assert "2 x a30-24gb: 2 x 1g.6gb + 2g.12gb; 7 x h100-80gb: 2 x 1g.10gb + 2g.20gb" in done.out


def test_ahead_without_demand_is_a_mistake(spec):
    done = unstrand("mig", "ahead", spec)

    assert done.code == 2
    assert "no demand under mig" in done.err


def test_advice_comes_with_what_it_isolates_and_what_to_apply():
    done = unstrand("advise", "specs/tenants.yaml", "--output", "json")
    tiers = {tier["name"]: tier for tier in json.loads(done.out)["tiers"]}

    assert {name: tier["mechanism"] for name, tier in tiers.items()} == {
        "customers": "mig",
        "chat": "mig",
        "embed": "mps",
        "nightly": "mps",
        "notebooks": "time-slicing",
        "pretrain": "whole",
    }
    assert tiers["customers"]["configuration"]["request"] == {"nvidia.com/mig-1g.10gb": 1}
    assert tiers["embed"]["isolation"]["faults"] == "no"
    sharing = tiers["notebooks"]["configuration"]["device-plugin"]["sharing"]
    assert sharing["timeSlicing"]["resources"] == [{"name": "nvidia.com/gpu", "replicas": 15}]
    assert tiers["pretrain"]["model"] == "H100-80GB"


def test_every_plugin_config_that_is_advised_is_a_valid_one(tmp_path):
    tiers = json.loads(unstrand("advise", "specs/tenants.yaml", "--output", "json").out)["tiers"]
    configs = [tier["configuration"].get("device-plugin") for tier in tiers]
    file = tmp_path / "config.yaml"

    for config in filter(None, configs):
        file.write_text(yaml.safe_dump(config))
        done = unstrand("plugin", "validate", file)

        assert done.code == 0, done.err


@pytest.mark.parametrize(
    ("tenant", "said"),
    [
        ("{name: t, gpu_memory: 200Gi}", "memory beyond the card"),
        ("{name: t, gpu_memory: 1Gi, busy: 1.5}", "above 0 and at most 1"),
        ("{name: t, work: lazy}", "one of latency, batch, interactive"),
    ],
)
def test_a_tier_that_cannot_be_is_refused(tmp_path, tenant, said):
    path = tmp_path / "tenants.yaml"
    path.write_text(f"cluster: {{pools: [{{name: a, preset: hgx-h100}}]}}\ntenants: [{tenant}]\n")

    done = unstrand("advise", path)

    assert done.code == 3
    assert said in done.err


def test_changing_a_gpu_has_a_limit_and_a_price_and_both_are_said(spec):
    spec.write_text(SPEC + "mig: {limit: 2, cost_gpu_s: 90}\n")

    answer = json.loads(plan(spec, "--output", "json"))

    assert answer["recut"] == {"gpus": 2, "limit": 2, "cost_gpu_s": 90}
    assert "2 to be changed (at most 2 may be, at 180 GPU-s)" in plan(spec)


PRICED = """\
cluster:
  nodes:
    - name: n
      gpus: 3
      gpu_model: A100-80GB
      mig:
        - {gpu: 0, instances: [{profile: 7g.80gb, start: 0}]}
running:
  - {job: dear, replicas: [{node: n, gpus: [1]}], gpus: 1, preemption: {cost_gpu_s: 100}}
  - {job: cheap, replicas: [{node: n, gpus: [2]}], gpus: 1, preemption: {cost_gpu_s: 70}}
jobs:
  - {name: urgent, priority: 9, gpus: 1}
  - {name: service, priority: 9, mig: {3g.40gb: 1}}
"""


@pytest.mark.parametrize(("price", "cost"), [(0, 70), (25, 95)])
def test_the_price_is_part_of_what_a_plan_costs(spec, price, cost):
    spec.write_text(PRICED + f"mig: {{cost_gpu_s: {price}}}\n")

    done = unstrand("solve", spec, "--workers", 1, "--output", "json")

    answer = json.loads(done.out)
    assert answer["status"] == "optimal"
    terms = {(t["name"], t["step"]): t["value"] for t in answer["objectives"]}
    assert terms["preemption_cost", "cost"] == cost
    assert [eviction["job"] for eviction in answer["evictions"]] == ["cheap"]


def test_one_slot_that_is_left_is_one_slot(spec):
    spec.write_text(
        "cluster: {nodes: [{name: n, gpus: 1, gpu_model: A30}]}\n"
        "jobs: [{name: most, priority: 1, gang: false, replicas: 3, mig: {1g.6gb: 1}},"
        " {name: half, mig: {2g.12gb: 1}}]\n"
    )

    (waits,) = json.loads(plan(spec, "--output", "json"))["pending"]

    assert waits["text"].endswith("1 memory slot is free, but not where such slices begin")


def test_a_slice_by_amounts_leaves_the_model_that_only_others_can_use(spec):
    """Both models serve ``9Gi+2g``, in profiles of their own; only one has a ``2g.20gb``."""
    spec.write_text(
        "cluster: {nodes: [{name: n, gpus: [{model: H100-80GB}, {model: A100-40GB}]}]}\n"
        "jobs:\n"
        "  - {name: any, mig: {9Gi+2g: 3}}\n"
        "  - {name: hopper, mig: {2g.20gb: 3}}\n"
    )

    first, second = json.loads(plan(spec, "--output", "json"))["gpus"]

    assert {(i["profile"], i["used_by"]) for i in first["final"]} == {("2g.20gb", "hopper")}
    assert {(i["profile"], i["used_by"]) for i in second["final"]} == {("2g.10gb", "any")}


def test_one_replica_with_slices_by_amounts_and_by_name_gets_both(spec):
    """A 4g would serve the wish for two compute slices, too."""
    spec.write_text(
        "cluster: {nodes: [{name: n, gpus: [{model: H100-80GB}, {model: A100-40GB}]}]}\n"
        "jobs: [{name: all, mig: {9Gi+2g: 4, 4g.40gb: 1}}]\n"
    )

    first, second = json.loads(plan(spec, "--output", "json"))["gpus"]

    assert [i["profile"] for i in first["final"]] == ["4g.40gb", "2g.20gb"]
    assert [i["profile"] for i in second["final"]] == ["2g.10gb"] * 3


def test_a_gpu_that_is_whole_again_has_no_place_for_instances(spec):
    spec.write_text(
        "cluster: {nodes: [{name: n, gpus: 1, gpu_model: A30, mig: [{gpu: 0}]}]}\n"
        "mig: {back_to_whole: true}\n"
        "jobs: [{name: whole, gpus: 1}]\n"
    )

    (gpu,) = json.loads(plan(spec, "--output", "json"))["gpus"]

    assert (gpu["mode"], gpu["still_possible"]) == ("off", [])
    assert "n gpu 0  whole" in plan(spec)


def test_export_says_what_mig_parted_cannot_change(spec, tmp_path):
    assert unstrand("solve", spec, "--save", tmp_path / "plan.json").code == 0

    done = unstrand("export", tmp_path / "plan.json", "--to", "mig-parted")

    assert "note: n gpu 0: an instance is in use, and mig-parted clears a GPU" in done.err


def test_work_that_gives_way_does_not_lift_the_limit_on_gpus_that_leave_mig_mode(spec):
    spec.write_text(
        "cluster: {nodes: [{name: n, gpus: [{model: T4}, {model: A30}], mig: [{gpu: 1}]}]}\n"
        "mig: {back_to_whole: true, limit: 0}\n"
        "running: [{job: old, gpus: 1, replicas: [{node: n, gpus: [0]}]}]\n"
        "jobs: [{name: two, priority: 1, gpus: 1, replicas: 2, gang: false}]\n"
    )

    answer = json.loads(plan(spec, "--output", "json"))

    assert answer["recut"]["gpus"] == 0
    assert [waiting["job"] for waiting in answer["pending"]] == ["two"]
