"""Objects that contradict themselves or each other: every fault with its place and a way out."""

import pytest

from tests.specs.reading import SPECS, compiled, fault_of, faults_of, message_of

NODES = "cluster: {levels: [block, rack], nodes: [{name: a, gpus: 8}, {name: b, gpus: 2}]}\n"


def place_of(text: str) -> tuple[str, int, int]:
    """The text without its mark @, and where that was: the place of the fault."""
    before = text[: text.index("@")]
    line = before.count("\n") + 1
    return text.replace("@", ""), line, len(before) - before.rfind("\n")


def check(text: str, path: str, value: str, rule: str, hint: str) -> None:
    clean, line, column = place_of(text)

    fault = fault_of(clean)

    assert (fault.file, fault.line, fault.column) == ("cluster.yaml", line, column)
    assert (fault.path, fault.value, fault.rule, fault.hint) == (path, value, rule, hint)


@pytest.mark.parametrize(
    ("text", "path", "value", "rule", "hint"),
    [
        pytest.param(
            "cluster:\n  nodes:\n    - {name: a, gpus: 8}\n    - {name: @a, gpus: 2}\n",
            "cluster.nodes[a].name",
            '"a"',
            "the name of a node is used twice",
            "Line 3 has it already",
            id="node twice",
        ),
        pytest.param(
            "cluster:\n  pools: [{name: @a, count: 3, gpus: 1}]\n  nodes: [{name: b, gpus: 1}]\n"
            "running: []\n".replace("@", "")
            + "jobs: [{name: x, gpus: 1}, {name: @x, gpus: 1}]\n",
            "jobs[x].name",
            '"x"',
            "the name of a job is used twice",
            "Line 5 has it already",
            id="job twice",
        ),
        pytest.param(
            NODES
            + "running: [{job: x, replicas: [{node: a, gpus: [0]}]}]\n"
            + "jobs: [{name: @x, gpus: 1}]\n",
            "jobs[x].name",
            '"x"',
            "the name of a job is used twice",
            "Line 2 has it already",
            id="job with the name of running work",
        ),
        pytest.param(
            NODES + "queues: [{name: q}, {name: @q}]\n",
            "queues[q].name",
            '"q"',
            "the name of a queue is used twice",
            "Line 2 has it already",
            id="queue twice",
        ),
        pytest.param(
            NODES + "jobs:\n  - {name: j, roles: [{name: r, gpus: 1}, {name: @r, gpus: 1}]}\n",
            "jobs[j].roles[r].name",
            '"r"',
            "the name of a role is used twice in its job",
            "",
            id="role twice",
        ),
        pytest.param(
            "cluster:\n  levels: [rack, @rack]\n  nodes: [{name: a}]\n",
            "cluster.levels[1]",
            '"rack"',
            "the name of a level is used twice",
            "Remove one of them",
            id="level twice",
        ),
        pytest.param(
            "cluster:\n  levels: [rack, @node]\n  nodes: [{name: a}]\n",
            "cluster.levels[1]",
            '"node"',
            "this level is built in",
            "Remove it; it is there by itself",
            id="level that is built in",
        ),
        pytest.param(
            NODES + "queues: [{name: research}]\njobs: [{name: j, gpus: 1, queue: @reserch}]\n",
            "jobs[j].queue",
            '"reserch"',
            "no queue has this name",
            'Did you mean "research"?',
            id="unknown queue",
        ),
        pytest.param(
            NODES + "queues: [{name: research}]\njobs:\n  - @{name: j, gpus: 1}\n",
            "jobs[j]",
            "",
            'no queue is named "default", where work without a queue goes',
            "Say queue: research, or declare default",
            id="no queue, and none is the default",
        ),
        pytest.param(
            NODES + "queues: [{name: q, parent: @w}]\n",
            "queues[q].parent",
            '"w"',
            "no queue has this name",
            "Known queues: q",
            id="unknown parent",
        ),
        pytest.param(
            NODES + "queues:\n"
            "  - {name: x, parent: @y}\n  - {name: y, parent: z}\n  - {name: z, parent: x}\n"
            "  - {name: below, parent: x}\n",
            "queues[x].parent",
            '"y"',
            "queues cannot be their own parents: x → y → z → x",
            "Remove one of the parents",
            id="circular parents",
        ),
        pytest.param(
            NODES + "queues: [{name: q, parent: @q}]\n",
            "queues[q].parent",
            '"q"',
            "queues cannot be their own parents: q → q",
            "Remove one of the parents",
            id="a queue is its own parent",
        ),
        pytest.param(
            NODES + "queues: [{name: q, quota: {gpus: @8}, limit: {gpus: 4}}]\n",
            "queues[q].quota.gpus",
            "8",
            "the quota is above the limit",
            "Lower the quota or raise the limit",
            id="quota above limit",
        ),
        pytest.param(
            NODES + "jobs: [{name: j, gpus: 1, topology: {within: @rak}}]\n",
            "jobs[j].topology.within",
            '"rak"',
            "no such level",
            'Did you mean "rack"?',
            id="unknown level",
        ),
        pytest.param(
            NODES + "jobs: [{name: j, gpus: 1, spread: {over: @zone}}]\n",
            "jobs[j].spread.over",
            '"zone"',
            "no such level",
            "Known levels: block, domain, node, rack",
            id="unknown level to spread over",
        ),
        pytest.param(
            NODES + "jobs: [{name: j, gpus: 1, spread: {over: @island}}]\n",
            "jobs[j].spread.over",
            '"island"',
            "islands are inside a node",
            "Spread over node",
            id="spread over islands",
        ),
        pytest.param(
            "cluster:\n  levels: [rack]\n  nodes: [{name: a, location: {@rak: r0}}]\n",
            "cluster.nodes[a].location.rak",
            '"rak"',
            "no such level in cluster.levels",
            'Did you mean "rack"?',
            id="unknown level of a place",
        ),
        pytest.param(
            "cluster:\n  nodes: [{name: a, location: {@node: x}}]\n",
            "cluster.nodes[a].location.node",
            '"x"',
            "node is built in and needs no place",
            "Name one of your own levels, or domain",
            id="place in a level that is built in",
        ),
        pytest.param(
            "cluster:\n  levels: [rack]\n"
            "  pools: [{name: p, location: {rack: r}, nodes_per: {@rack: 2}}]\n",
            "cluster.pools[p].nodes_per.rack",
            '"rack"',
            "location gives this level already",
            "Keep one of them",
            id="group given twice",
        ),
        pytest.param(
            "cluster:\n  pools: [{name: p, preset: @hgx-h10}]\n",
            "cluster.pools[p].preset",
            '"hgx-h10"',
            "no preset has this name",
            'Did you mean "hgx-h100"?',
            id="unknown preset",
        ),
        pytest.param(
            "cluster:\n  nodes: [{name: a, topology: {preset: @hgx-h20}}]\n",
            "cluster.nodes[a].topology.preset",
            '"hgx-h20"',
            "no preset has this name",
            'Did you mean "hgx-h200"?',
            id="unknown preset of a topology",
        ),
        pytest.param(
            "cluster:\n  nodes: [{name: a, preset: hgx-h100, gpus: @4}]\n",
            "cluster.nodes[a].gpus",
            "4",
            "hgx-h100 has 8 GPUs",
            "Remove gpus, or describe the node by gpus and links",
            id="count against preset",
        ),
        pytest.param(
            "cluster:\n  nodes: [{name: a, preset: hgx-h100, topology: @{preset: dgx-2}}]\n",
            "cluster.nodes[a].topology",
            "a mapping of 1",
            "two sources for the same GPUs",
            "Keep preset or topology",
            id="preset and topology",
        ),
        pytest.param(
            "cluster:\n  nodes: [{name: a, topology: @{}}]\n",
            "cluster.nodes[a].topology",
            "a mapping of 0",
            "topology has a file or a preset, one of them",
            "",
            id="topology of nothing",
        ),
        pytest.param(
            "cluster:\n  nodes: [{name: a, gpu_model: @T4}]\n",
            "cluster.nodes[a].gpu_model",
            '"T4"',
            "a model without GPUs",
            "Add gpus, the number of them",
            id="model without GPUs",
        ),
        pytest.param(
            "cluster:\n  nodes: [{name: a, gpu_model: @T4, gpus: [{model: L4}]}]\n",
            "cluster.nodes[a].gpu_model",
            '"T4"',
            "the list of gpus names the models already",
            "Keep one of them",
            id="model twice",
        ),
        pytest.param(
            "cluster:\n  nodes: [{name: a, gpus: 2, links: [{a: 0, b: @2, kind: NV4}]}]\n",
            "cluster.nodes[a].links[0].b",
            "2",
            "the node has GPUs 0 to 1",
            "",
            id="link to a GPU that is not there",
        ),
        pytest.param(
            "cluster:\n  nodes: [{name: a, gpus: 2, links: [@{a: 1, b: 1, kind: NV4}]}]\n",
            "cluster.nodes[a].links[0]",
            "1",
            "a link joins two GPUs",
            "",
            id="link of a GPU with itself",
        ),
        pytest.param(
            "cluster:\n  nodes:\n    - name: a\n      gpus: 2\n      links:\n"
            "        - {a: 0, b: 1, kind: NV4}\n        - {a: 1, b: 0, kind: @SYS}\n",
            "cluster.nodes[a].links[1].kind",
            '"SYS"',
            "GPUs 0 and 1 have a link already: NV4",
            "Keep one of them",
            id="two links of one pair",
        ),
        pytest.param(
            "cluster:\n  nodes: [{name: a, gpus: 2, gpus_unhealthy: [@2]}]\n",
            "cluster.nodes[a].gpus_unhealthy[0]",
            "2",
            "the node has GPUs 0 to 1",
            "",
            id="unhealthy GPU that is not there",
        ),
        pytest.param(
            "cluster:\n  nodes: [{name: a, gpus: 2, mig: [{gpu: 1}, {gpu: @1}]}]\n",
            "cluster.nodes[a].mig[1].gpu",
            "1",
            "this GPU is listed twice",
            "Join its instances",
            id="GPU cut twice",
        ),
        pytest.param(
            "cluster:\n  nodes: [{name: a, cpu: 4, reserved: {cpu: @5}}]\n",
            "cluster.nodes[a].reserved.cpu",
            "5",
            "more than the node has",
            "Lower it",
            id="more reserved than there is",
        ),
        pytest.param(
            "cluster:\n  pools: [{name: p, count: @200000}]\n",
            "cluster.pools[p].count",
            "200000",
            "more than 100000 nodes",
            "",
            id="too many nodes",
        ),
        pytest.param(
            "cluster: @{name: x}\n",
            "cluster",
            "",
            "a cluster has nodes",
            "Add pools or nodes",
            id="no nodes",
        ),
    ],
)
def test_a_contradiction_is_said_with_its_place(text, path, value, rule, hint):
    check(text, path, value, rule, hint)


@pytest.mark.parametrize(
    ("job", "path", "value", "rule", "hint"),
    [
        pytest.param(
            "gpus: @2, gpu_memory: 20Gi",
            ".gpus",
            "2",
            "beside gpu_memory, gpus is the part of the compute: above 0, at most 1",
            "For whole GPUs use gpus and gpu_models, without gpu_memory",
            id="gpus and gpu_memory",
        ),
        pytest.param(
            "gpu_memory: @0",
            ".gpu_memory",
            "0",
            "a share is more than nothing",
            "",
            id="no share",
        ),
        pytest.param(
            "gpus: 1, replicas: 2, min: @3",
            ".min",
            "3",
            "min is above the 2 replicas that the job has",
            "Lower min or raise replicas",
            id="min above replicas",
        ),
        pytest.param(
            "gpus: 1, min: @0",
            ".min",
            "0",
            "at least one replica starts",
            "Write min: 1",
            id="min of nothing",
        ),
        pytest.param(
            "gpus: 1, replicas: 2, min: @1, gang: false",
            ".min",
            "1",
            "independent replicas have no minimum",
            "Remove min, or gang: false",
            id="min of independent replicas",
        ),
        pytest.param(
            "gpus: 1, gang: false, start_group: @g",
            ".start_group",
            '"g"',
            "only gangs start together, and this job has gang: false",
            "Remove gang: false or start_group",
            id="start group with a job that is no gang",
        ),
        pytest.param(
            "replicas: @2, roles: [{name: r, gpus: 1}]",
            ".replicas",
            "2",
            "replicas belongs to the roles of this job",
            "Give it to each role",
            id="replicas and roles",
        ),
        pytest.param(
            "roles: [{name: r, gpus: 1, replicas: 2, min: @3}]",
            ".roles[r].min",
            "3",
            "min is above the 2 replicas that the role has",
            "Lower min or raise replicas",
            id="min of a role above replicas",
        ),
        pytest.param(
            "roles: @[{name: r, gpus: 1, min: 0}]",
            ".roles",
            "a list of 1",
            "at least one replica starts",
            "Give one role a min of 1 or more",
            id="roles that want nothing",
        ),
        pytest.param(
            "gpus: 1, tolerations: [{key: k, operator: Exists, value: @v}]",
            ".tolerations[0].value",
            '"v"',
            "Exists compares no value",
            "Remove the value, or use operator: Equal",
            id="Exists with a value",
        ),
        pytest.param(
            "gpus: 1, tolerations: [@{value: v}]",
            ".tolerations[0]",
            "a mapping of 1",
            "Equal needs a key",
            "Name the key, or use operator: Exists for every taint",
            id="Equal without a key",
        ),
    ],
)
def test_a_job_that_contradicts_itself_is_said_with_its_place(job, path, value, rule, hint):
    check(f"{NODES}jobs:\n  - {{name: j, {job}}}\n", f"jobs[j]{path}", value, rule, hint)


def test_a_job_that_asks_for_nothing_is_told_what_to_add():
    assert message_of(f"{NODES}jobs:\n  - name: j\n    priority: 3\n") == (
        "cluster.yaml:3:5: jobs[j]: a job asks for something. Add gpus, cpu or roles"
    )


@pytest.mark.parametrize(
    ("running", "path", "value", "rule", "hint"),
    [
        pytest.param(
            "{job: r, replicas: [{node: @c, gpus: [0]}]}",
            "running[r].replicas[0].node",
            '"c"',
            "no node has this name",
            "Known nodes: a, b",
            id="unknown node",
        ),
        pytest.param(
            "{job: r, replicas: [{node: b, gpus: [0, @2]}]}",
            "running[r].replicas[0].gpus[1]",
            "2",
            "node b has GPUs 0 to 1",
            "",
            id="GPU that the node does not have",
        ),
        pytest.param(
            "{job: r, replicas: [{node: b, gpus: [0]}]}, "
            "{job: s, replicas: [{node: b, gpus: [1, @0]}]}",
            "running[s].replicas[0].gpus[1]",
            "0",
            "GPU 0 of node b is held by r already",
            "Give each its own GPU",
            id="GPU that another one holds",
        ),
        pytest.param(
            "{job: r, replicas: [{node: b, gpus: [1, @1]}]}",
            "running[r].replicas[0].gpus[1]",
            "1",
            "this GPU is listed twice",
            "",
            id="GPU listed twice",
        ),
        pytest.param(
            "{job: r, gpus: 0.5, replicas: [{node: b, gpus: [1]}]}, "
            "{job: s, gpus: 0.6, replicas: [{node: b, gpus: [@1]}]}",
            "running[s].replicas[0].gpus[0]",
            "1",
            "shares of GPU 1 of node b add up to 1.1, above one: 0.5 is held already, by r last",
            "Lower a share, or list another GPU",
            id="shares that are more than a GPU",
        ),
        pytest.param(
            "{job: r, replicas: [{node: b, gpus: [0]}]}, {job: s, replicas: [{node: b, gpus: @2}]}",
            "running[s].replicas[0].gpus",
            "2",
            "node b has room for 1 of these GPUs, 2 are held",
            "Correct the count, or the other work on the node",
            id="count that does not fit",
        ),
        pytest.param(
            "{job: r, gpus: 0.5, replicas: [{node: b, gpus: @[0, 1]}]}",
            "running[r].replicas[0].gpus",
            "a list of 2",
            "a share is held of one GPU",
            "List one index",
            id="share of two GPUs",
        ),
        pytest.param(
            "{job: r, gpus: 2, replicas: [{node: a, gpus: @[0, 1, 2]}]}",
            "running[r].replicas[0].gpus",
            "a list of 3",
            "the job's replicas take 2 GPUs",
            "List as many indices, or change gpus of the job",
            id="more GPUs than the job says",
        ),
        pytest.param(
            "{job: r, gpu_memory: 8Gi, replicas: [{node: b, gpus: [@0]}]}",
            "running[r].replicas[0].gpus[0]",
            "0",
            "memory beyond the card: GPU 0 of node b has unknown memory, the share wants 8,192 MiB",
            "",
            id="memory of a GPU that is not known",
        ),
        pytest.param(
            "{job: r, replicas: @[]}",
            "running[r].replicas",
            "a list of 0",
            "running work has replicas",
            "Move it to jobs if it waits",
            id="no replicas",
        ),
        pytest.param(
            "{job: r, wanted: @1, replicas: [{node: a, gpus: 1}, {node: b, gpus: 1}]}",
            "running[r].wanted",
            "1",
            "wanted is below the 2 replicas that run",
            "Raise wanted",
            id="less wanted than runs",
        ),
        pytest.param(
            "{job: r, roles: [{name: x, gpus: 1}], replicas: [{node: a, role: @y}]}",
            "running[r].replicas[0].role",
            '"y"',
            "the job has no such role",
            "Known roles: x",
            id="unknown role",
        ),
    ],
)
def test_running_work_that_cannot_be_is_said_with_its_place(running, path, value, rule, hint):
    check(f"{NODES}running: [{running}]\n", path, value, rule, hint)


def test_a_gpu_cut_into_mig_instances_cannot_be_held_whole():
    text = (
        "cluster: {nodes: [{name: a, gpus: 2, mig: [{gpu: 1}]}]}\n"
        "running: [{job: r, replicas: [{node: a, gpus: [@1]}]}]\n"
    )

    rule = "GPU 1 of node a is cut into MIG instances"
    check(text, "running[r].replicas[0].gpus[0]", "1", rule, "")


@pytest.mark.parametrize(
    ("entry", "place", "message"),
    [
        (
            "objectives: [priority, @priorty]",
            "objectives[1]",
            '"priorty": one of guarantee, priority, fairness, preemption_cost, topology, stranded.'
            ' Did you mean "priority"?',
        ),
        (
            "objectives: [priority, @priority]",
            "objectives[1]",
            '"priority": listed twice. Remove one of them',
        ),
        (
            "objectives: @[]",
            "objectives",
            "a list of 0: a plan has an objective. Remove the key for the default order",
        ),
        (
            "reference: [@{cpu: 3}]",
            "reference[0]",
            "a mapping of 1: stranded GPUs are relative to work with GPUs. Add gpus or gpu_memory",
        ),
        (
            "solve: {time_limit: @0s}",
            "solve.time_limit",
            "0s: a search needs time. Write 1s or more",
        ),
        ("solve: {workers: @atuo}", "solve.workers", '"atuo": one of auto. Did you mean "auto"?'),
        ("solve: {gap: @-1}", "solve.gap", "-1: a finite number, not negative, is wanted here"),
        ("solve: {gap: @.nan}", "solve.gap", ".nan: a finite number, not negative, is wanted here"),
    ],
)
def test_settings_that_cannot_be_are_said_with_their_place(entry, place, message):
    clean, line, column = place_of(f"{NODES}{entry}\n")

    assert message_of(clean) == f"cluster.yaml:{line}:{column}: {place}: {message}"


def test_a_truncated_capture_names_its_own_line_and_who_uses_it(tmp_path):
    whole = (SPECS / "topo" / "a100-pairs.txt").read_text().splitlines()
    (tmp_path / "cut.txt").write_text("\n".join(whole[:3]) + "\n")
    text = "cluster:\n  nodes:\n    - {name: a, topology: {file: cut.txt}}\n"

    fault = fault_of(text, tmp_path)

    assert (fault.file, fault.line) == (str(tmp_path / "cut.txt"), 1)
    assert fault.path == "cluster.nodes[a].topology.file"
    assert "GPU2" in fault.value
    assert "no row" in fault.rule
    assert fault.hint.endswith("It is named in cluster.yaml:3")


def test_a_damaged_row_of_a_capture_is_blamed_by_its_line(tmp_path):
    whole = (SPECS / "topo" / "a100-pairs.txt").read_text()
    (tmp_path / "bad.txt").write_text(whole.replace("GPU2\tSYS", "GPU2\tQQQ"))

    fault = fault_of("cluster: {nodes: [{name: a, topology: {file: bad.txt}}]}\n", tmp_path)

    assert (fault.file, fault.line) == (str(tmp_path / "bad.txt"), 4)


def test_a_capture_used_twice_is_blamed_for_itself_once(tmp_path):
    (tmp_path / "bad.txt").write_text("nothing of the kind\n")
    nodes = "".join(f"    - {{name: n{i}, topology: {{file: bad.txt}}}}\n" for i in range(3))

    faults = faults_of(f"cluster:\n  nodes:\n{nodes}", tmp_path)

    assert [fault.file == "cluster.yaml" for fault in faults] == [False, True, True]


def test_a_capture_that_is_not_there_is_blamed_on_the_spec(tmp_path):
    message = message_of("cluster: {nodes: [{name: a, topology: {file: x/y.txt}}]}\n", tmp_path)

    assert message == (
        'cluster.yaml:1:46: cluster.nodes[a].topology.file: "x/y.txt": '
        f"there is no such file ({tmp_path}/x/y.txt). "
        "Topology files are relative to the spec's folder"
    )


def test_a_shared_gpu_may_be_filled_to_the_last_thousandth():
    problem = compiled(
        f"""
        {NODES.strip()}
        running:
          - {{job: r, gpus: 0.1, replicas: [{{node: b, gpus: [0]}}]}}
          - {{job: s, gpus: 0.9, replicas: [{{node: b, gpus: [0]}}]}}
        """
    ).problem

    assert [job.replicas[0].share_milli for job in problem.running] == [100, 900]
