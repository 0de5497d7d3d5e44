"""MIG in a spec: what is asked for, what exists, and what is said of what cannot be."""

import pytest

from solver.workload import Slice
from specs.compile import compile_spec
from specs.errors import SpecErrors
from specs.loader import load_spec
from specs.slices import slice_of


def compiled(tmp_path, gpus, rest=""):
    path = tmp_path / "cluster.yaml"
    path.write_text(f"cluster: {{nodes: [{{name: n, {gpus}}}]}}\n{rest}\n")
    return compile_spec(load_spec(str(path)))


def refusal(tmp_path, gpus, rest=""):
    with pytest.raises(SpecErrors) as caught:
        compiled(tmp_path, gpus, rest)
    return str(caught.value)


H100 = "gpus: 1, gpu_model: H100-80GB"


@pytest.mark.parametrize(
    ("text", "wish"),
    [
        ("3g.40gb", Slice("3g.40gb")),
        ("1g.5gb+me", Slice("1g.5gb+me")),
        ("20Gi", Slice(memory_mib=20480)),
        ("20Gi+2g", Slice(memory_mib=20480, compute=2)),
        ("2g", Slice(compute=2)),
    ],
)
def test_a_slice_is_a_profile_or_amounts(text, wish):
    assert slice_of(text) == wish
    assert slice_of(str(wish)) == wish


def test_instances_in_use_and_others_are_told_apart(tmp_path):
    gpus = f"{H100}, mig: [{{gpu: 0, instances: [{{profile: 3g.40gb, start: 4, used_by: x}}, {{profile: 1g.10gb, start: 0}}]}}]"  # noqa: E501
    (node,) = compiled(tmp_path, gpus).problem.nodes

    assert [str(i) for i in node.used_layouts[0]] == ["3g.40gb@4"]
    assert [str(i) for i in node.idle_layouts[0]] == ["1g.10gb@0"]
    assert node.mig_gpus == {0}


def test_a_gpu_in_mig_mode_comes_back_only_where_the_spec_allows_it_and_nobody_uses_it(tmp_path):
    idle = f"{H100}, mig: [{{gpu: 0, instances: [{{profile: 1g.10gb, start: 0}}]}}]"
    used = f"{H100}, mig: [{{gpu: 0, instances: [{{profile: 1g.10gb, start: 0, used_by: x}}]}}]"
    rest = "mig: {back_to_whole: true}"

    assert compiled(tmp_path, idle).problem.nodes[0].usable_gpus == ()
    assert compiled(tmp_path, idle, rest).problem.nodes[0].usable_gpus == (0,)
    assert compiled(tmp_path, used, rest).problem.nodes[0].usable_gpus == ()


@pytest.mark.parametrize(
    ("gpus", "rest", "said"),
    [
        (H100, "jobs: [{name: j, mig: {1g.5gb: 1}}]", "on A100-40GB and others it is the 1g"),
        (H100, "jobs: [{name: j, mig: {1g.5gb: 1}}]", "Did you mean 1g.10gb"),
        (H100, "jobs: [{name: j, mig: {90Gi: 1}}]", "is as large"),
        ("gpus: 1, gpu_model: V100-16GB", "jobs: [{name: j, mig: {1g.5gb: 1}}]", "can be cut"),
        (H100, "jobs: [{name: j, replicas: 2, mig: {1g.10gb: 1}}]", "does not span MIG instances"),
        (H100, "jobs: [{name: j, link: required, mig: {1g.10gb: 1}}]", "have no NVLink"),
        (H100, "jobs: [{name: j, gpus: 1, mig: {1g.10gb: 1}}]", "two ways to ask"),
        ("gpus: 1, gpu_model: V100-16GB, mig: [{gpu: 0}]", "", "V100-16GB: it cannot be cut"),
        (
            f"{H100}, mig: [{{gpu: 0, instances: [{{profile: 2g.20gb, start: 4}}, {{profile: 3g.40gb, start: 4}}]}}]",  # noqa: E501
            "",
            "2g.20gb@4 and 3g.40gb@4: both take slots 4, 5",
        ),
        (
            f"{H100}, mig: [{{gpu: 0, instances: [{{profile: 3g.40gb, start: 2, used_by: x}}]}}]",
            "",
            "slot 2 is no start of it on h100-80gb; starts: 0, 4",
        ),
        (
            f"{H100}, mig: [{{gpu: 0, instances: [{{profile: 3g.40gb, used_by: x}}]}}]",
            "",
            "the start of an instance is not its number",
        ),
        (
            f"{H100}, mig: [{{gpu: 0, instances: [{{profile: 3g.20gb, start: 0}}]}}]",
            "",
            "on A100-40GB and others it is the 3g, 4 of 8 memory slots",
        ),
    ],
)
def test_what_cannot_be_is_said_with_the_way_out(tmp_path, gpus, rest, said):
    assert said in refusal(tmp_path, gpus, rest)


def test_a_gang_may_say_that_it_spans_instances(tmp_path):
    rest = "jobs: [{name: j, replicas: 2, across_instances: true, mig: {1g.10gb: 1}}]"

    assert compiled(tmp_path, H100, rest).problem.jobs[0].min_replicas == 2
