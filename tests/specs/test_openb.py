"""The openb trace to a spec: what its columns mean, and rows that break naive importers."""

import gzip

import pytest

from specs.compile import compile_spec
from specs.errors import SpecErrors
from specs.importers.openb import dropped, openb_spec, read_nodes, read_pods
from specs.loader import parse_spec
from tests.paths import SHARED, needs_shared

OPENB = SHARED / "data" / "traces" / "openb"
NODE_HEAD = "sn,cpu_milli,memory_mib,gpu,model\n"
POD_HEAD = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,"
    "creation_time,deletion_time,scheduled_time\n"
)
SHORT_HEAD = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\n"
LATER = ",LS,Running,0,10,0"


def written(path, text: str):
    path.write_text(text)
    return path


def pods_of(tmp_path, rows: str, head: str = POD_HEAD):
    return read_pods(written(tmp_path / "pods.csv", head + rows))


def problem_of(nodes, pods=()):
    text = "\n".join(openb_spec(nodes, pods)) + "\n"
    return compile_spec(parse_spec(text)).problem


def faults_of(read, *arguments) -> list[str]:
    with pytest.raises(SpecErrors) as caught:
        read(*arguments)
    return [str(fault) for fault in caught.value.faults]


def test_nodes_keep_their_names_and_opaque_models(tmp_path):
    path = written(tmp_path / "nodes.csv", NODE_HEAD + "n-1,64000,262144,2,G2\nn-0,32500,1000,0,\n")

    gpu_node, cpu_node = problem_of(read_nodes(path)).nodes

    assert (gpu_node.name, gpu_node.topology.gpu_models) == ("n-1", ("G2", "G2"))
    assert (gpu_node.cpu_milli, gpu_node.memory_mib) == (64_000, 262_144)
    assert (cpu_node.name, cpu_node.n_gpus) == ("n-0", 0)
    assert (cpu_node.cpu_milli, cpu_node.memory_mib) == (32_500, 1000)


@pytest.mark.parametrize(
    ("row", "gpus", "share_milli"),
    [
        ("p,3152,8,1,460,", 0, 460),
        ("p,3152,8,1,1000,", 1, 0),
        ("p,3152,8,8,1000,", 8, 0),
        ("p,3152,8,0,0,", 0, 0),
        ("p,3152,8,1,5,", 0, 5),
    ],
)
def test_gpu_milli_is_per_device(tmp_path, row, gpus, share_milli):
    nodes = read_nodes(written(tmp_path / "nodes.csv", NODE_HEAD + "n,64000,262144,8,T4\n"))

    shape = problem_of(nodes, pods_of(tmp_path, row + LATER)).jobs[0].roles[0].shape

    assert (shape.gpus, shape.share_milli) == (gpus, share_milli)
    assert (shape.cpu_milli, shape.memory_mib) == (3152, 8)


def test_repeated_models_count_once_and_in_their_order(tmp_path):
    (pod,) = pods_of(tmp_path, f"p,1,1,1,1000,V100M32|V100M16|V100M32{LATER}\n")

    assert pod.models == ("V100M32", "V100M16")


def test_a_pod_without_memory_and_lists_without_later_columns_are_read(tmp_path):
    pods = pods_of(tmp_path, "p,0,0,0,0\nq,1000,2048,1,1000\n", SHORT_HEAD)
    nodes = read_nodes(written(tmp_path / "nodes.csv", NODE_HEAD + "n,64000,262144,8,T4\n"))

    empty, plain = (job.roles[0].shape for job in problem_of(nodes, pods).jobs)

    assert (empty.cpu_milli, empty.memory_mib, empty.wants_gpu) == (0, 0, False)
    assert (plain.memory_mib, plain.gpu_models) == (2048, ())
    assert dropped(pods) == {}


def test_what_is_dropped_is_counted(tmp_path):
    pods = pods_of(tmp_path, "p,1,1,1,1000,,LS,Pending,0,10,\nq,1,1,1,1000,,LS,Running,0,10,0\n")

    assert dropped(pods) == {
        "qos": 2,
        "pod_phase": 2,
        "creation_time": 2,
        "deletion_time": 2,
        "scheduled_time": 1,
    }


def test_compressed_lists_are_read_and_a_limit_takes_the_first(tmp_path):
    path = tmp_path / "pods.csv.gz"
    rows = "".join(f"p{i},1,1,1,1000\n" for i in range(10))
    path.write_bytes(gzip.compress((SHORT_HEAD + rows).encode()))

    assert [pod.name for pod in read_pods(path, limit=2)] == ["p0", "p1"]
    assert len(read_pods(path)) == 10


def test_windows_line_ends_a_blank_last_line_and_quotes_do_not_matter(tmp_path):
    path = tmp_path / "pods.csv"
    path.write_bytes(b'name,cpu_milli,memory_mib,num_gpu,gpu_milli\r\n"p, 1",1,1,1,1000\r\n\r\n')

    assert [pod.name for pod in read_pods(path)] == ["p, 1"]


def test_names_that_yaml_would_misread_come_back_as_they_were(tmp_path):
    names = ["103959", "6214e9", "null", "on", "a: b", "~", "- x", "#c", "{d}", "é", "x/y"]
    rows = "".join(f"{name},64000,262144,1,T4\n" for name in names)
    path = written(tmp_path / "nodes.csv", NODE_HEAD + rows)

    assert [node.name for node in problem_of(read_nodes(path)).nodes] == names


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("p,-1,1,1,1000", '2:3: cpu_milli: "-1": a whole number from 0 to 9007199254740992'),
        ("p,1,1.5,1,1000", '2:5: memory_mib: "1.5": a whole number from 0 to 9007199254740992'),
        ("p,1,1,999,1000", '2:7: num_gpu: "999": a whole number from 0 to 256'),
        ("p,1,1,1,1001", '2:9: gpu_milli: "1001": a whole number from 0 to 1000'),
        ("p,1,1,1,nan", '2:9: gpu_milli: "nan": a whole number from 0 to 1000'),
        ("p,1,1,0,500", '2:9: gpu_milli: "500": 0 for a pod without GPUs'),
        ("p,1,1,1,0", '2:9: gpu_milli: "0": 1 to 1000 for a pod with a GPU'),
        ("p,1,1,2,500", '2:9: gpu_milli: "500": 1000 for a pod with several GPUs'),
        (",1,1,1,1000", '2:1: name: "": a name'),
        ("p,1,1", "2:1: 3 cells: 5 cells, as in the header. Is the file cut off?"),
    ],
)
def test_a_bad_row_is_said_with_its_line_value_and_rule(tmp_path, row, message):
    path = written(tmp_path / "pods.csv", f"{SHORT_HEAD}{row}\n")

    assert faults_of(read_pods, path) == [f"{path}:{message}"]


def test_all_bad_cells_are_reported_at_once(tmp_path):
    path = written(tmp_path / "nodes.csv", NODE_HEAD + "n,x,1,1,T4\nn,1,1,2,\n")

    assert faults_of(read_nodes, path) == [
        f'{path}:2:3: cpu_milli: "x": a whole number from 0 to 9007199254740992',
        f'{path}:3:1: sn: "n": the name is used twice. Line 2 has it already',
        f'{path}:3:9: model: "": a node with GPUs has a model',
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "1:1: the file is empty. Is it the pod list?"),
        (
            NODE_HEAD.encode(),
            '1:1: "sn": the pod list has a column name. Is it the pod list?',
        ),
        (b"\x1f\x8b\x08\x00cut", "1:1: cannot be unpacked. Is the file cut off?"),
        (b"name\xff\n", "1:1: a table is UTF-8 text, this is not"),
    ],
)
def test_another_file_is_refused(tmp_path, content, message):
    path = tmp_path / "pods.csv"
    path.write_bytes(content)

    assert faults_of(read_pods, path) == [f"{path}:{message}"]


def test_a_missing_file_is_refused(tmp_path):
    (message,) = faults_of(read_nodes, tmp_path / "nodes.csv")

    assert message.startswith(f"{tmp_path}/nodes.csv:1:1: there is no such file")


@needs_shared
def test_the_published_cluster_has_its_published_size():
    nodes = read_nodes(OPENB / "openb_node_list_gpu_node.csv")

    problem = problem_of(nodes)

    assert len(problem.nodes) == 1213
    assert problem.capacity == {
        "gpu_milli": 6_212_000,
        "cpu_milli": 107_018_000,
        "memory_mib": 503_828_480,
    }
    assert len({id(node.topology) for node in problem.nodes}) < 30


@needs_shared
def test_the_published_pods_ask_for_what_they_ask_for():
    nodes = read_nodes(OPENB / "openb_node_list_all_node.csv")
    pods = read_pods(OPENB / "openb_pod_list_default.csv")

    problem = problem_of(nodes, pods)

    assert (len(problem.nodes), len(problem.jobs)) == (1523, 8152)
    demand_milli = sum(problem.gpu_milli(role.shape) for _, role in problem.roles())
    assert demand_milli == 6_086_800
    assert dropped(pods)["scheduled_time"] == 8152 - 897


@needs_shared
@pytest.mark.parametrize("name", ["multigpu50", "gpuspec33", "cpu300", "gpushare100"])
def test_every_kind_of_published_list_is_read(name):
    pods = read_pods(OPENB / f"openb_pod_list_{name}.csv.gz")

    assert len(pods) > 7000
    assert all(len(set(pod.models)) == len(pod.models) for pod in pods)
