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


def on_gpu_0(name, request):
    return f"{{job: {name}, {request}, replicas: [{{node: n, gpus: [0]}}]}}"


@pytest.mark.parametrize(
    ("running", "said"),
    [
        (
            [on_gpu_0("a", "gpus: 0.6"), on_gpu_0("b", "gpus: 0.5")],
            "shares of GPU 0 of node n add up to 1.1, above one: 0.6 is held already, by a last",
        ),
        (
            [on_gpu_0("a", "gpu_memory: 100Gi")],
            "memory beyond the card: GPU 0 of node n has 81,559 MiB, the share wants 102,400 MiB",
        ),
        ([on_gpu_0("a", "gpus: 1"), on_gpu_0("b", "gpus: 0.5")], "is held by a already"),
    ],
)
def test_shares_above_one_and_memory_beyond_the_card_are_said_with_amounts(tmp_path, running, said):
    assert said in refusal(tmp_path, H100, f"running: [{', '.join(running)}]")


def test_a_tenth_and_nine_tenths_are_one_gpu(tmp_path):
    running = [on_gpu_0("a", "gpus: 0.1"), on_gpu_0("b", "gpus: 0.9")]

    jobs = compiled(tmp_path, H100, f"running: [{', '.join(running)}]").problem.running

    assert sum(replica.gpu_milli for job in jobs for replica in job.replicas) == 1000


@pytest.mark.parametrize(
    ("sharing", "groups"),
    [
        ("anybody", ["", "", "group mine"]),
        ("queue", ["queue a", "queue b", "group mine"]),
        ("trust", ["trust inside", "", "group mine"]),
    ],
)
def test_who_shares_with_whom_is_said_by_queue_by_trust_or_by_the_job(tmp_path, sharing, groups):
    rest = (
        f"sharing: {{among: {sharing}}}\n"
        "queues: [{name: top, trust: inside}, {name: a, parent: top}, {name: b}]\n"
        "jobs: [{name: x, queue: a, gpus: 0.5}, {name: y, queue: b, gpus: 0.5},"
        " {name: z, queue: b, gpus: 0.5, share_group: mine}, {name: w, queue: a, gpus: 1}]\n"
    )

    *shares, whole = compiled(tmp_path, H100, rest).problem.jobs

    assert [job.roles[0].shape.share_group for job in shares] == groups
    assert whole.roles[0].shape.share_group == ""
