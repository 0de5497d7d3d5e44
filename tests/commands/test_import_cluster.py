import pytest

from specs.loader import load_spec, parse_spec
from tests.commands.running import unstrand
from tests.paths import SHARED, needs_shared

OPENB = SHARED / "data" / "traces" / "openb"


@pytest.fixture
def nodes(tmp_path):
    path = tmp_path / "nodes.csv"
    path.write_text("sn,cpu_milli,memory_mib,gpu,model\nn0,64000,262144,2,V100M32\n")
    return path


@pytest.fixture
def pods(tmp_path):
    path = tmp_path / "pods.csv"
    path.write_text(
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos\n"
        "p0,6000,12288,1,460,V100M32|V100M32,LS\np1,1000,0,0,0,,BE\n"
    )
    return path


def test_a_trace_becomes_a_spec_on_stdout_and_what_is_dropped_is_said(nodes, pods):
    done = unstrand("import", "openb", "--nodes", nodes, "--pods", pods)

    assert done.code == 0
    assert done.out == (
        "# The openb trace: 1 nodes with 2 GPUs, 2 pods as jobs.\n"
        "# From nodes.csv, pods.csv.\n"
        "cluster:\n"
        "  name: openb\n"
        "  nodes:\n"
        "    - {name: n0, gpus: 2, gpu_model: V100M32, cpu: 64, memory: 256Gi}\n"
        "jobs:\n"
        "  - {name: p0, gpus: 0.46, cpu: 6, memory: 12Gi, gpu_models: [V100M32]}\n"
        "  - {name: p1, cpu: 1}\n"
    )
    assert done.err == "note: qos of 2 pods dropped: a spec has no such key\n"
    assert len(parse_spec(done.out).spec.jobs) == 2


def test_nodes_may_be_limited(nodes, pods):
    nodes.write_text(nodes.read_text() + "n1,64000,262144,2,T4\n")

    done = unstrand("import", "openb", "--nodes", nodes, "--pods", pods, "--node-limit", 1)

    assert [node.name for node in parse_spec(done.out).spec.cluster.nodes] == ["n0"]


def test_pods_may_be_left_out_or_limited(nodes, pods):
    assert "jobs:" not in unstrand("import", "openb", "--nodes", nodes).out

    done = unstrand("import", "openb", "--nodes", nodes, "--pods", pods, "--limit", 1)
    assert "p0" in done.out
    assert "p1" not in done.out


def test_a_spec_can_be_saved(nodes, pods, tmp_path):
    target = tmp_path / "out.yaml"

    done = unstrand("import", "openb", "--nodes", nodes, "--pods", pods, "--save", target)

    assert (done.code, done.out) == (0, "")
    assert len(load_spec(target).spec.jobs) == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["nodes.csv", "out.yaml", "pods.csv"]


def test_a_bad_row_leaves_what_was_saved_before_alone(nodes, pods, tmp_path):
    target = tmp_path / "out.yaml"
    target.write_text("before")
    pods.write_text("name,cpu_milli,memory_mib,num_gpu,gpu_milli\np0,1,1,1,2000\n")

    done = unstrand("import", "openb", "--nodes", nodes, "--pods", pods, "--save", target)

    assert done.code == 3
    assert done.err == (f'{pods}:2:10: gpu_milli: "2000": a whole number from 0 to 1000\n')
    assert target.read_text() == "before"


def test_the_lists_the_wrong_way_round_are_noticed(nodes, pods):
    done = unstrand("import", "openb", "--nodes", pods, "--pods", nodes)

    assert done.code == 3
    assert done.err == (
        f'{pods}:1:1: "name": the node list has a column sn. Is it the node list?\n'
    )


def test_a_missing_option_is_a_usage_error():
    assert unstrand("import", "openb").code == 2


@needs_shared
def test_the_published_cluster_becomes_a_compact_spec():
    done = unstrand(
        "import",
        "openb",
        "--nodes",
        OPENB / "openb_node_list_gpu_node.csv",
        "--pods",
        OPENB / "openb_pod_list_default.csv",
    )

    assert done.code == 0
    assert len(done.out) < 1_000_000
    assert len(done.out.splitlines()) == 1213 + 8152 + 6
    assert "scheduled_time of 7255 pods dropped" in done.err
