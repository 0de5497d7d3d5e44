import io
import os
import sys
import tracemalloc

import pytest

from specs.compile import compile_spec
from specs.errors import SpecErrors
from specs.loader import load_spec
from tests.specs.reading import fault_of, faults_of, message_of

CLUSTER = "cluster: {nodes: [{name: n, gpus: 8}]}\n"


def refusal(path, **options) -> str:
    with pytest.raises(SpecErrors) as caught:
        load_spec(path, **options)
    return str(caught.value)


class _Stdin:
    def __init__(self, content: bytes) -> None:
        self.buffer = io.BytesIO(content)


def test_a_missing_file_is_named_with_its_near_neighbour(tmp_path):
    (tmp_path / "cluster.yaml").write_text(CLUSTER)

    message = refusal(tmp_path / "clster.yaml")

    assert message == (
        f'{tmp_path}/clster.yaml:1:1: there is no such file. Did you mean "cluster.yaml"?'
    )


def test_a_folder_is_no_spec(tmp_path):
    assert refusal(tmp_path) == (
        f"{tmp_path}:1:1: this is a folder, not a file. Name the file inside it"
    )


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root reads anything")
def test_a_file_that_may_not_be_read_says_so(tmp_path):
    path = tmp_path / "secret.yaml"
    path.write_text(CLUSTER)
    path.chmod(0)

    assert "cannot be read: Permission denied" in refusal(path)


def test_a_file_of_100_mb_is_refused_before_it_is_read(tmp_path):
    path = tmp_path / "large.yaml"
    with path.open("wb") as stream:
        stream.truncate(100_000_000)

    tracemalloc.start()
    message = refusal(path)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert message == (
        f"{path}:1:1: 100000000 bytes: larger than 64 MiB. "
        "Is it the right file? --max-size allows larger ones"
    )
    assert peak_bytes < 2_000_000


def test_the_size_that_is_allowed_can_be_chosen(tmp_path):
    path = tmp_path / "cluster.yaml"
    path.write_text(CLUSTER)
    size = len(CLUSTER)

    assert load_spec(path, max_size_bytes=size).spec.cluster.nodes[0].name == "n"
    assert f"{size} bytes: larger than {size - 1} bytes" in refusal(path, max_size_bytes=size - 1)


def test_standard_input_is_read_and_bounded_too(monkeypatch):
    monkeypatch.setattr(sys, "stdin", _Stdin(CLUSTER.encode()))
    assert load_spec("-").file == "<stdin>"

    monkeypatch.setattr(sys, "stdin", _Stdin(b"#" * 200))
    assert refusal("-", max_size_bytes=100).startswith("<stdin>:1:1: larger than 100 bytes")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "1:1: the file is empty. A spec begins with cluster:"),
        (b"\n\n", "1:1: the file is empty. A spec begins with cluster:"),
        (
            b"cluster:\n  name: caf\xe9\n",
            "2:12: byte 0xe9: a spec is UTF-8 text, this is not. Save the file as UTF-8",
        ),
        (
            "cluster: {}\n".encode("utf-16"),
            "1:1: byte 0xff: a spec is UTF-8 text, this is not. "
            "It is UTF-16, as PowerShell writes it: save it as UTF-8",
        ),
        (
            b"\x7fELF\x02\x01\x01\x00",
            "1:1: character 0x7f: a spec is text, this is not. Is it the right file?",
        ),
        (
            b"\x1f\x8b\x08\x00\x00",
            "1:2: byte 0x8b: a spec is UTF-8 text, this is not. Unpack it first: gzip -dc FILE",
        ),
        (b"hello\n", '1:1: "hello": a mapping of keys is wanted here'),
        (b"- 1\n- 2\n", "1:1: a list of 2: a mapping of keys is wanted here"),
        (b"cluster: 12:30\n", "1:10: cluster: 12:30: a mapping of keys is wanted here"),
        (b"jobs: []\n", '1:1: the key "cluster" is missing. A spec begins with cluster:'),
    ],
)
def test_a_file_that_is_no_spec_says_why(tmp_path, content, message):
    path = tmp_path / "f.yaml"
    path.write_bytes(content)

    assert refusal(path) == f"{path}:{message}"


def test_objects_of_kubernetes_are_no_spec_and_the_way_to_one_is_said(tmp_path):
    path = tmp_path / "dump.json"
    path.write_text('{"apiVersion": "v1", "kind": "List", "items": []}')

    with pytest.raises(SpecErrors) as caught:
        load_spec(path)

    assert str(caught.value.faults[0]) == (
        f'{path}:1:1: the key "cluster" is missing. '
        "These are objects of Kubernetes: make a spec of them with import kubernetes"
    )


def test_a_byte_order_mark_does_not_matter(tmp_path):
    path = tmp_path / "f.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + CLUSTER.encode())

    assert load_spec(path).spec.cluster.name == "cluster"


def test_random_bytes_are_refused_in_one_line(tmp_path):
    path = tmp_path / "f.yaml"
    path.write_bytes(bytes(range(256)) * 40)

    assert "\n" not in refusal(path)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("nods: []", '2:3: cluster: "nods": unknown key. Did you mean "nodes"?'),
        (
            "wombat: 1",
            '2:3: cluster: "wombat": unknown key. Known keys: levels, name, nodes, pools',
        ),
        ("levels: rack", '2:11: cluster.levels: "rack": a list is wanted here'),
        ("levels: {a: b}", "2:11: cluster.levels: a mapping of 1: a list is wanted here"),
        ("name: [a]", "2:9: cluster.name: a list of 1: a name or a text is wanted here"),
        ('name: ""', '2:9: cluster.name: "": a name is not empty and has no blanks around it'),
        (
            'name: "a\\nb"',
            '2:9: cluster.name: "a\\nb": a name has no line breaks or control characters',
        ),
    ],
)
def test_a_wrong_key_or_type_is_said_with_its_place(line, message):
    text = f"cluster:\n  {line}\n  nodes: [{{name: n, gpus: 8}}]\n"

    assert message_of(text) == f"cluster.yaml:{message}"


@pytest.mark.parametrize(
    ("entry", "path", "value", "rule", "hint"),
    [
        ("gpus: @-1", "gpus", "-1", "an amount cannot be negative", ""),
        ("gpus: @1.5", "gpus", "1.5", "GPUs of a node are counted whole", ""),
        ("gpus: @257", "gpus", "257", "a node has at most 256 GPUs", ""),
        ("cpu: @.nan", "cpu", ".nan", "an amount is a finite number", ""),
        ("cpu: @.inf", "cpu", ".inf", "an amount is a finite number", ""),
        ("cpu: @-500m", "cpu", "-500m", "an amount cannot be negative", ""),
        ("cpu: @1e20", "cpu", "1e20", "larger than any cluster", ""),
        (
            "memory: @64GB",
            "memory",
            "64GB",
            "not a quantity",
            "Write 64Gi (1024s) or 64G",
        ),
        ("ready: @yes", "ready", '"yes"', "true or false is wanted here", "Write true"),
        ("cordoned: @off", "cordoned", '"off"', "true or false is wanted here", "Write false"),
        (
            "taints: [{key: k, effect: @NoSchedul}]",
            "taints[0].effect",
            '"NoSchedul"',
            "one of NoSchedule, PreferNoSchedule, NoExecute",
            'Did you mean "NoSchedule"?',
        ),
        (
            "gpus_unhealthy: [@010]",
            "gpus_unhealthy[0]",
            "010",
            "a whole number is wanted here",
            "Write 10",
        ),
        (
            'gpus_unhealthy: [@"3"]',
            "gpus_unhealthy[0]",
            '"3"',
            "a whole number is wanted here",
            "Remove the quotes",
        ),
        (
            "gpus: 2, links: [{a: 0, b: 1, kind: @NV}]",
            "links[0].kind",
            '"NV"',
            "a link as nvidia-smi prints it: NV1 to NV18, XGMI, PIX, PXB, PHB, NODE or SYS",
            "",
        ),
        ("@cpuu: 3", "", '"cpuu"', "unknown key", 'Did you mean "cpu"?'),
        ("labels: {zone: @}", "labels.zone", "", "this entry is empty", "Fill it in or remove it"),
    ],
)
def test_a_wrong_value_of_a_node_is_said_with_its_place(entry, path, value, rule, hint):
    line = f"    - {{name: n, {entry}}}"  # with @ where the fault is

    fault = fault_of(f"cluster:\n  nodes:\n{line.replace('@', '')}\n")

    where = "cluster.nodes[n]" + (f".{path}" if path else "")
    assert (fault.file, fault.line, fault.column) == ("cluster.yaml", 3, line.index("@") + 1)
    assert (fault.path, fault.value, fault.rule, fault.hint) == (where, value, rule, hint)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (
            "gpus: @1.5",
            "jobs[j].gpus: 1.5: whole GPUs, or one share below 1. A share is at most 0.999",
        ),
        ("gpus: @-1", "jobs[j].gpus: -1: an amount cannot be negative"),
        ("gpus: @.nan", "jobs[j].gpus: .nan: an amount is a finite number"),
        (
            "gpus: 1, link: @requird",
            'jobs[j].link: "requird": one of required, preferred. Did you mean "required"?',
        ),
        ("gpus: 1, replicas: @0", "jobs[j].replicas: 0: at least 1"),
        ("gpus: 1, replicas: @1.5", "jobs[j].replicas: 1.5: a whole number is wanted here"),
        ("gpus: 1, replicas: @1e3", "jobs[j].replicas: 1e3: a whole number is wanted here"),
        ("gpus: 1, priority: @high", 'jobs[j].priority: "high": a whole number is wanted here'),
        (
            "gpus: 1, duration: @30",
            "jobs[j].duration: 30: a duration needs its unit. Write 30s, 30m or 30h",
        ),
        (
            "gpus: 1, arrival: @12:30",
            "jobs[j].arrival: 12:30: not a duration. Write it as 30s, 15m, 2h or 1d",
        ),
        (
            "gpus: 1, @gpu_model: T4",
            'jobs[j]: "gpu_model": unknown key. Did you mean "gpu_models"?',
        ),
        ("gpus: 1, gpu_models: @T4", 'jobs[j].gpu_models: "T4": a list is wanted here'),
    ],
)
def test_a_wrong_value_of_a_job_is_said_with_its_place(entry, message):
    line = f"  - {{name: j, {entry}}}"  # with @ where the fault is

    assert (
        message_of(f"{CLUSTER}jobs:\n{line.replace('@', '')}\n")
        == f"cluster.yaml:3:{line.index('@') + 1}: {message}"
    )


def test_a_running_job_without_its_name_is_told_the_key():
    text = f"{CLUSTER}running:\n  - {{name: r, replicas: [{{node: n, gpus: 1}}]}}\n"

    messages = [str(fault) for fault in faults_of(text)]

    assert messages == [
        'cluster.yaml:3:5: running[r]: the key "job" is missing. '
        "Running work is named by job: instead of name:",
        'cluster.yaml:3:6: running[r]: "name": unknown key. Did you mean "job"?',
    ]


def test_empty_keys_count_as_left_out_and_empty_entries_do_not():
    assert message_of(f"{CLUSTER}queues:\nrunning: ~\njobs:\n  -\n") == (
        "cluster.yaml:5:4: jobs[0]: this entry is empty. Fill it in or remove it"
    )


def test_all_faults_of_a_file_are_reported_at_once_and_in_order():
    faults = faults_of(
        """
        cluster:
          levels: [rack]
          nodes:
            - {name: a, gpus: 1.5}
            - {name: b, gpus: 8, cpuu: 3}
            - {name: c, gpus: 8}
            - {name: c, gpus: 8}
        queues: [{name: research}]
        running:
          - {job: r1, queue: reserch, replicas: [{node: c, gpus: [9]}]}
        jobs:
          - {name: j1, queue: research, gpus: 1, gpus: 2}
          - {name: j2, queue: research, topology: {within: rak}, gpus: -1}
          - {name: j3, queue: research, gpus: 2, gpu_memory: 20Gi}
        """
    )

    assert [(fault.line, fault.rule) for fault in faults] == [
        (4, "GPUs of a node are counted whole"),
        (5, "unknown key"),
        (7, "the name of a node is used twice"),
        (10, "no queue has this name"),
        (10, "node c has GPUs 0 to 7"),
        (12, "this key is here twice"),
        (13, "no such level"),
        (13, "an amount cannot be negative"),
        (14, "beside gpu_memory, gpus is the part of the compute: above 0, at most 1"),
    ]
    assert all("\n" not in str(fault) for fault in faults)


def test_a_faulty_node_does_not_make_work_on_it_look_faulty():
    fault = fault_of(
        """
        cluster: {nodes: [{name: a, gpuz: 8}]}
        running: [{job: r, replicas: [{node: a, gpus: [7]}]}]
        """
    )

    assert fault.rule == "unknown key"


def test_where_a_name_is_lost_references_to_it_are_not_blamed():
    faults = faults_of(
        """
        cluster: {nodes: [{gpus: 8}]}
        queues: [{nam: research}]
        running: [{job: r, queue: research, replicas: [{node: a, gpus: [7]}]}]
        """
    )

    assert [fault.rule for fault in faults] == [
        'the key "name" is missing',
        'the key "name" is missing',
        "unknown key",
    ]


def test_places_stay_right_when_entries_before_are_left_out():
    faults = faults_of(
        f"""
        {CLUSTER.strip()}
        jobs:
          - {{name: ok, gpus: 1}}
          - {{gpus: 1}}
          - [1]
          - {{name: late, gpus: 1, queue: nowhere}}
        """
    )

    assert [(fault.line, fault.path) for fault in faults] == [
        (4, "jobs[1]"),
        (5, "jobs[2]"),
        (6, "jobs[late].queue"),
    ]


def test_names_may_look_like_numbers_or_flags():
    spec = load_text("cluster: {nodes: [{name: 103959, gpus: 1, labels: {on: yes, v: 1.50}}]}\n")

    node = spec.cluster.nodes[0]
    assert (node.name, node.labels) == ("103959", {"on": "yes", "v": "1.50"})


def load_text(text):
    from specs.loader import parse_spec

    return parse_spec(text).spec


def large_spec() -> str:
    devices = ", ".join(["{model: H100-80GB, memory: 80Gi}"] * 8)
    lines = ["cluster:", "  levels: [block, rack]", "  nodes:"]
    for i in range(1250):
        lines += [
            f"  - name: n{i}",
            "    cpu: 192",
            "    memory: 2Ti",
            f"    location: {{block: b0, rack: r{i // 4}}}",
            f"    gpus: [{devices}]",
        ]
    lines.append("running:")
    lines += [
        f"- {{job: j{i}-{gpu}, replicas: [{{node: n{i}, gpus: [{gpu}], cpu: 8, memory: 64Gi}}]}}"
        for i in range(1250)
        for gpu in range(8)
    ]
    return "\n".join(lines) + "\n"


def test_ten_thousand_gpus_with_running_work_load_and_share_one_topology(tmp_path):
    path = tmp_path / "large.yaml"
    path.write_text(large_spec())

    problem = compile_spec(load_spec(path)).problem

    assert (len(problem.nodes), len(problem.running)) == (1250, 10_000)
    assert len({id(node.topology) for node in problem.nodes}) == 1
