"""Slurm's own words for nodes, jobs and topology, as a spec."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specs.compile import compile_spec
from specs.errors import SpecErrors
from specs.importers.report import ImportReport
from specs.importers.slurm.hostlist import HostlistError, hosts
from specs.importers.slurm.importer import slurm_spec
from specs.importers.slurm.jobs import read_jobs
from specs.importers.slurm.nodes import read_nodes
from specs.importers.slurm.topology import read_topology
from specs.loader import parse_spec
from tests.commands.running import unstrand
from tests.damage import damaged

DATA = Path(__file__).resolve().parents[1] / "data" / "slurm"


@pytest.fixture(scope="module")
def cluster():
    report = ImportReport()
    lines = slurm_spec(
        read_nodes((DATA / "nodes.txt").read_text(), "nodes"),
        read_jobs((DATA / "squeue.json").read_text(), "jobs"),
        report,
        read_topology((DATA / "topology.conf").read_text(), "topology"),
    )
    text = "\n".join(lines)
    return compile_spec(parse_spec(text)).problem, list(report.lines())


def job(cluster, name):
    return next(job for job in cluster[0].jobs if job.name == name)


def says(cluster, *words):
    return any(all(word in line for word in words) for line in cluster[1])


def test_nodes_have_gpus_cpus_memory_and_what_is_specialised_for_the_system(cluster):
    node = cluster[0].node_by_name["dgx01"]

    assert (node.n_gpus, node.cpu_milli, node.memory_mib) == (8, 220_000, 2_063_000 - 8192)
    assert set(node.topology.gpu_models) == {"h100"}


def test_states_tell_who_takes_work(cluster):
    state = {node.name: (node.ready, node.cordoned) for node in cluster[0].nodes}

    assert state["dgx01"] == (True, False)
    assert state["dgx02"] == (True, True)
    assert state["old01"] == (False, True)


def test_switches_are_levels(cluster):
    assert cluster[0].levels == ("spine", "leaf")
    assert cluster[0].node_by_name["dgx02"].location == {"spine": "spine1", "leaf": "leaf1"}


def test_running_jobs_hold_the_very_gpus_that_slurm_gave_them(cluster):
    (running,) = cluster[0].running

    assert running.name == "101-pre-train"
    assert running.replicas[0].gpus == (0, 1, 2, 5)
    assert running.replicas[0].memory_mib == 512_000
    assert running.ends_in_s == 7200


def test_waiting_jobs_stand_in_the_order_of_their_priority(cluster):
    assert [job.name for job in cluster[0].jobs] == ["103-sweep", "104-tasks", "102-big"]
    assert {job.priority for job in cluster[0].jobs} == {0}
    assert says(cluster, "assumed", "priorities")


def test_nodes_of_a_job_are_a_gang_of_one_part_each(cluster):
    big = job(cluster, "102-big")

    assert big.gang
    assert (big.roles[0].replicas, big.roles[0].shape.gpus) == (2, 8)
    assert big.roles[0].shape.cpu_milli == 64_000
    assert (big.spread.over, big.spread.max_per) == ("node", 1)
    assert big.roles[0].shape.gpu_models == ("h100",)


def test_partition_and_features_say_where_a_job_may_run(cluster):
    def nodes(name):
        wanted = job(cluster, name).roles[0].shape.node_selector
        return {
            node.name
            for node in cluster[0].nodes
            if all(node.labels.get(key) == value for key, value in wanted)
        }

    assert nodes("102-big") == {"dgx01", "dgx02"}
    assert nodes("103-sweep") == {"dgx01", "dgx02", "dgx03", "old01"}
    assert nodes("104-tasks") == {"dgx01", "dgx02", "old01"}


def test_tasks_of_an_array_start_each_for_itself(cluster):
    sweep = job(cluster, "103-sweep")

    assert not sweep.gang
    assert sweep.roles[0].replicas == 5
    assert says(cluster, "ignored", "at once (%)", "103")


def test_gpus_per_task_make_a_part_of_every_task(cluster):
    tasks = job(cluster, "104-tasks")

    assert (tasks.roles[0].replicas, tasks.roles[0].shape.gpus) == (4, 2)
    assert tasks.spread is None


def test_held_jobs_and_other_gres_are_listed(cluster):
    assert says(cluster, "ignored", "held", "105")
    assert says(cluster, "ignored", "gres nic")


def test_the_verb_writes_the_spec_and_says_the_rest(tmp_path):
    words = ["import", "slurm", "--nodes", DATA / "nodes.txt", "--jobs", DATA / "squeue.json"]

    done = unstrand(*words, "--topology", DATA / "topology.conf", "--save", tmp_path / "s.yaml")

    assert done.code == 0
    assert "read: nodes (5)" in done.err
    assert unstrand("validate", tmp_path / "s.yaml").code == 0


def test_one_of_the_files_may_be_standard_input(tmp_path):
    text, rest = (DATA / "nodes.txt").read_text(), ["--jobs", DATA / "squeue.json"]

    done = unstrand("import", "slurm", "--nodes", "-", *rest, stdin=text)
    twice = unstrand("import", "slurm", "--nodes", "-", "--jobs", "-", stdin=text)
    wrong = unstrand("import", "slurm", "--nodes", "-", stdin="hello")

    assert (done.code, done.out) == (
        0,
        unstrand("import", "slurm", "--nodes", DATA / "nodes.txt", *rest).out,
    )
    assert (twice.code, "standard input can be read once" in twice.err) == (2, True)
    assert (wrong.code, wrong.err.startswith("<stdin>:1:1:")) == (3, True)


def test_import_without_a_source_names_them():
    done = unstrand("import")

    assert (done.code, "kubernetes, slurm or openb" in done.err) == (2, True)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n1", ("n1",)),
        ("n[1-3],m", ("n1", "n2", "n3", "m")),
        ("n[08-11]", ("n08", "n09", "n10", "n11")),
        ("a[1,3]b[2]", ("a1b2", "a3b2")),
        ("", ()),
    ],
)
def test_host_lists(text, names):
    assert hosts(text) == names


@pytest.mark.parametrize("text", ["n[1-", "n]", "n[a]", "n[3-1]", "n[1-999999999]", "n[[1]]"])
def test_what_is_no_host_list_is_refused(text):
    with pytest.raises(HostlistError):
        hosts(text)


@given(st.text("n[]1-9,0 a", max_size=12))
def test_host_lists_are_read_or_refused(text):
    try:
        names = hosts(text)
    except HostlistError:
        return
    assert all(names)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SwitchName=a Switches=b", "no switch has this name"),
        ("SwitchName=a Switches=b\nSwitchName=b Switches=a", "above themselves"),
        ("SwitchName=a Nodes=n[1-", "f:1:1: .*brackets"),
        ("Nonsense", "SwitchName="),
        ("SwitchName=a Nodes=n1\nSwitchName=a Nodes=n2", 'f:2:1: "a": it is defined twice'),
        ("BlockName=a Nodes=n1\nBlockName=a Nodes=n2", 'f:2:1: "a": it is defined twice'),
        ("BlockName=a Nodes=n1\nBlockSizes=x", "no sizes of blocks"),
        ("SwitchName=a \\\n  Nodes=n[1-", "f:1:1: .*brackets"),
    ],
)
def test_damage_of_a_topology_is_told(text, said):
    with pytest.raises(SpecErrors, match=said):
        read_topology(text, "f")


def test_what_topology_and_nodes_do_not_have_in_common_is_said():
    report = ImportReport()
    text = "SwitchName=s1 Nodes=n[1-2]\nBlockName=b1 Nodes=n[1-2]\n"
    nodes = read_nodes(box("n1", "gpu:8") + box("n3", "gpu:8"), "f")

    list(slurm_spec(nodes, (), report, read_topology(text, "f")))

    said = "\n".join(report.lines())
    assert "nodes of the topology that are not in the input (1: n2)" in said
    assert "nodes that the topology does not name are in no group (1: n3)" in said
    assert "blocks beside switches" in said


def test_blocks_are_a_level_too():
    places = read_topology("BlockName=b1 Nodes=n[1-2]\nBlockName=b2\nBlockSizes=2\n", "f")

    assert places.levels == ("block",)
    assert places.of == {"n1": {"block": "b1"}, "n2": {"block": "b1"}}


BLOCKS = """
BlockName=b1 Nodes="n[1-2]"  # quoted
BlockName=b2 \\
  Nodes=n[3-4]
BlockName=b3 Nodes=n[5-6]
BlockSizes=2,4
"""


def test_larger_blocks_are_of_blocks_that_follow_each_other():
    places = read_topology(BLOCKS, "f")
    as_yaml = """
- topology: t
  block:
    block_sizes: [2, 4]
    blocks:
      - {block: b1, nodes: "n[1-2]"}
      - {block: b2, nodes: "n[3-4]"}
      - {block: b3, nodes: "n[5-6]"}
"""

    assert places.levels == ("block-4", "block")
    assert places.of["n1"] == {"block-4": "b1..b2", "block": "b1"}
    assert places.of["n4"] == {"block-4": "b1..b2", "block": "b2"}
    assert places.of["n5"] == {"block-4": "b3..b3", "block": "b3"}
    assert read_topology(as_yaml, "f") == places


NETWORKS = """
---
- topology: flat
  flat: true
- topology: blocks
  block: {block_sizes: [2], blocks: [{block: b1, nodes: "n[1-2]"}, {block: b2}]}
- topology: fabric
  cluster_default: true   # what partitions have that do not say
  tree:
    switches:
      - {switch: s1, nodes: "n[1-2]"}
      - {switch: s2, nodes: n3}
      - {switch: root, children: "s[1-2]"}
"""


def test_the_default_network_of_a_yaml_file_is_what_counts():
    places = read_topology(NETWORKS, "f")

    assert places.levels == ("spine", "leaf")
    assert places.of["n3"] == {"leaf": "s2", "spine": "root"}
    assert places.others == ("flat", "blocks")


def test_without_a_default_the_first_network_counts_and_a_flat_one_has_no_levels():
    unsaid = NETWORKS.replace("cluster_default: true", "")

    places = read_topology(unsaid, "f")

    assert places.levels == ()
    assert places.others == ("blocks", "fabric", "flat")


def test_both_forms_say_the_same():
    conf = "SwitchName=s1 Nodes=n[1-2]\nSwitchName=s2 Nodes=n3\nSwitchName=root Switches=s[1-2]"

    told, as_yaml = read_topology(conf, "f"), read_topology(NETWORKS, "f")

    assert (told.levels, told.of) == (as_yaml.levels, as_yaml.of)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- topology: [", "not YAML"),
        ("- 5", "a mapping is wanted here"),
        ("---\ntopology: x", "a list of topologies"),
        ("---\n[]", "a list of topologies"),
        (
            "-\n- tree: {switches: [{nodes: n1}]}\n  cluster_default: true",
            r"f:2:1: .*it has a name",
        ),
        ("- tree: {switches: [{switch: a, children: b}]}", "no switch has this name"),
        ("- tree: {switches: [{switch: a, nodes: 'n['}]}", "brackets"),
    ],
)
def test_damage_of_a_topology_in_yaml_is_told(text, said):
    with pytest.raises(SpecErrors, match=said):
        read_topology(text, "f")


@pytest.mark.parametrize(
    ("state", "ready", "cordoned"),
    [
        ("IDLE+CLOUD+POWERED_DOWN", True, False),
        ("IDLE~", True, False),
        ("MIXED+PLANNED", True, False),
        ("COMPLETING", True, False),
        ("IDLE+REBOOT_REQUESTED", True, False),
        ("IDLE+POWERING_DOWN", False, False),
        ("IDLE%", False, False),
        ("IDLE+INVALID_REG", False, False),
        ("INVAL", False, False),
        ("MIXED+REBOOT_ISSUED", False, False),
        ("ALLOCATED*", False, False),
        ("MIXED+POWER_DOWN", True, True),
        ("IDLE$", True, True),
        ("DOWN*+DRAIN", False, True),
    ],
)
def test_every_word_of_a_state_counts(state, ready, cordoned):
    (node,) = read_nodes(f"NodeName=a CPUTot=8 RealMemory=9000 State={state}", "f")

    assert (node.ready, node.cordoned, node.strange_states) == (ready, cordoned, ())


def told(nodes, *jobs, topology=None):
    """The problem of a cluster, and what was said of it."""
    report = ImportReport()
    places = read_topology(topology, "topology") if topology else None
    text = json.dumps({"jobs": jobs})
    lines = slurm_spec(read_nodes(nodes, "nodes"), read_jobs(text, "jobs"), report, places)
    return compile_spec(parse_spec("\n".join(lines))).problem, list(report.lines())


def test_a_state_that_nobody_knows_is_said():
    found = told("NodeName=a CPUTot=8 RealMemory=9000 State=IDLE+BRAND_NEW")

    assert says(found, "ignored", "BRAND_NEW", "a")


BOX = "NodeName={} CPUTot=64 RealMemory=512000 Gres={} State={}"


def box(name, gres, state="MIXED", **more):
    rest = "".join(f" {key}={value}" for key, value in more.items())
    return BOX.format(name, gres, state) + rest + "\n"


def pending(job_id, **more):
    return {"job_id": job_id, "job_state": ["PENDING"], "node_count": 1, **more}


def running(job_id, nodes, tres, **more):
    common = {"job_state": ["RUNNING"], "nodes": nodes, "node_count": 1}
    return {"job_id": job_id, **common, "tres_alloc_str": tres, **more}


def held(found):
    """GPUs that each running job holds."""
    return {job.name: [r.gpus for r in job.replicas] for job in found[0].running}


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("AssocGrpGRES", "at a limit"),
        ("QOSMaxGRESPerUser", "at a limit"),
        ("PartitionTimeLimit", "not let in by their partition"),
        ("JobArrayTaskLimit", "at the limit of their array"),
        ("Licenses", "waiting for licenses"),
    ],
)
def test_jobs_that_slurm_would_not_start_whatever_is_free_are_left_out(reason, said):
    found = told(box("n1", "gpu:8"), pending(1, state_reason=reason, tres_req_str="gres/gpu=1"))

    assert found[0].jobs == ()
    assert says(found, "ignored", "waiting jobs that are", said, "1")


@pytest.mark.parametrize(
    ("wish", "said"),
    [
        ({"state_reason": "ReqNodeNotAvail, UnavailableNodes:n9"}, "ReqNodeNotAvail"),
        ({"required_switches": 1}, "how many switches"),
        ({"minimum_switches": 1}, "how many switches"),
        ({"resv_name": "course"}, "reservation"),
        ({"contiguous": True}, "nodes next to each other"),
        ({"tres_per_socket": "gres/gpu:2"}, "GPUs by socket"),
        ({"array_max_tasks": 2, "array_task_string": "1-4"}, "at once (%)"),
        ({"array_task_string": "1-4,..."}, "beyond those that its list names"),
        ({"het_job_id": 1, "het_job_offset": 0}, "other parts of its heterogeneous job"),
    ],
)
def test_wishes_that_a_spec_has_no_word_for_are_said(wish, said):
    found = told(box("n1", "gpu:8"), pending(1, tres_req_str="cpu=1,gres/gpu=1", **wish))

    assert len(found[0].jobs) == 1
    assert says(found, "ignored", said, "of waiting jobs", "1")


def test_a_job_may_have_any_name():
    found = told(box("n1", "gpu:8"), pending(1, tres_req_str="cpu=1", name=" a\n\x00{b}: c"))

    assert [job.name for job in found[0].jobs] == ["1-a-b-c"]


def test_tasks_of_an_array_that_a_cut_list_names_are_planned():
    wish = {"array_task_string": "1-4,7,...", "array_job_id": 1}
    found = told(box("n1", "gpu:8"), pending(1, tres_req_str="cpu=1", **wish))

    assert found[0].jobs[0].roles[0].replicas == 5


def test_usual_jobs_have_nothing_to_be_said_of():
    common = {"state_reason": "Priority", "het_job_id": {"set": True, "number": 0}}
    found = told(box("n1", "gpu:8"), pending(1, tres_req_str="cpu=1,gres/gpu=1", **common))

    assert not says(found, "ignored")


def test_gpus_of_a_job_in_all_are_on_as_many_nodes_as_they_need():
    found = told(
        box("n1", "gpu:8") + box("n2", "gpu:8"),
        pending(1, tres_per_job="gres/gpu:16", tres_req_str="cpu=32,mem=64G,gres/gpu=16"),
        pending(2, tres_per_job="gres/gpu:4", tres_req_str="cpu=8,gres/gpu=4"),
    )

    big, small = (job(found, name).roles[0] for name in "12")
    assert (big.replicas, big.shape.gpus, big.shape.cpu_milli) == (2, 8, 16_000)
    assert big.shape.memory_mib == 32 * 1024
    assert (small.replicas, small.shape.gpus) == (1, 4)
    assert says(found, "assumed", "(--gpus)", "(2: 1, 2)")


SHARDS = "gpu:h100:2,shard:h100:16"


def test_a_gpu_whose_shards_are_in_use_is_nobody_elses():
    """Which GPU they are of is told by some versions only; else as many as they are at least."""
    found = told(
        box("n1", SHARDS) + box("n2", SHARDS),
        running(1, "n1", "cpu=1,gres/shard=4", gres_detail=["shard:h100:4(0/8,4/8)"]),
        running(2, "n1", "cpu=1,gres/shard=2", gres_detail=["shard:h100:2(0/8,2/8)"]),
        running(3, "n2", "cpu=1,gres/shard=12"),
        pending(4, tres_per_node="gres/gpu:2", tres_req_str="cpu=1,gres/gpu=2"),
    )

    assert held(found) == {"1": [(1,)], "2": [()], "3": [(0, 1)]}
    assert says(found, "assumed", "parts of GPUs", "hold them whole", "3")


def test_waiting_jobs_with_shards_want_a_share_of_a_gpu_that_has_some():
    found = told(
        box("n1", SHARDS) + box("n2", "gpu:h100:8"),
        pending(1, tres_req_str="cpu=1,gres/shard=4"),
        pending(2, tres_req_str="cpu=1,gres/shard=9"),
    )

    (role,) = job(found, "1").roles
    assert role.shape.share_milli == 500
    wanted = dict(role.shape.node_selector).items()
    assert [n.name for n in found[0].nodes if wanted <= n.labels.items()] == ["n1"]
    assert [one.name for one in found[0].jobs] == ["1"]
    assert says(found, "ignored", "parts of GPUs", "2")


@pytest.mark.parametrize("gres", ["gpu:1g.10gb:7", "gpu:a100_1g.5gb:7"])
def test_mig_instances_are_no_gpus(gres):
    kind = gres.split(":")[1]
    found = told(
        box("cut", gres) + box("whole", "gpu:a100:2"),
        running(1, "cut", f"cpu=1,gres/gpu=1,gres/gpu:{kind}=1"),
        pending(2, tres_per_node=f"gres/gpu:{kind}:1", tres_req_str="cpu=1,gres/gpu=1"),
        pending(3, tres_per_node="gres/gpu:1", tres_req_str="cpu=1,gres/gpu=1"),
    )

    assert found[0].node_by_name["cut"].n_gpus == 0
    assert held(found) == {"1": [()]}
    assert [one.name for one in found[0].jobs] == ["3"]
    assert says(found, "ignored", "MIG instances of nodes", kind, "(7: cut, …)")
    assert says(found, "ignored", "waiting jobs that ask for MIG instances", "2")


def test_what_nodes_have_allocated_is_held_also_without_the_jobs():
    found = told(
        box("full", "gpu:h100:8", "ALLOCATED", AllocTRES="cpu=64,mem=500G,gres/gpu=8")
        + box("half", "gpu:h100:8", AllocTRES="cpu=32,mem=100G,gres/gpu=4")
        + box("free", "gpu:h100:8", "IDLE", AllocTRES="", CPUAlloc="0"),
        running(1, "half", "cpu=8,mem=20G,gres/gpu=1"),
    )

    gpus = {name: len(replicas[0]) for name, replicas in held(found).items()}
    assert gpus == {"1": 1, "allocated on full": 8, "allocated on half": 3}
    (rest,) = [one for one in found[0].running if one.name == "allocated on half"]
    assert (rest.replicas[0].cpu_milli, rest.replicas[0].memory_mib) == (24_000, 80 * 1024)
    assert not rest.preemption.allowed
    assert says(found, "assumed", "beyond the jobs of the input", "(2: full, half)")


NODE = "NodeName=a CPUTot=8 RealMemory=9000 Gres"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "there is no node"),
        ("hello", "NodeName="),
        ("NodeName=a CPUTot=x", "CPUTot is no whole"),
        ("hello\n\n" * 60, r'f:1:1: "hello": is no node.*; nor are 59 more lines. Write it with'),
        (f"{NODE}=gpu:h100", 'a number of GPUs is wanted in Gres: "gpu:h100"'),
        (f"{NODE}=nic:2,gpu", 'a number of GPUs is wanted in Gres: "gpu"'),
        (f"{NODE}=gpu:h100:-1(S:0)", 'a number of GPUs is wanted in Gres: "gpu:h100:-1"'),
        ("NodeName=a CPUTot=8 RealMemory=999999999999999", "RealMemory is larger than any"),
    ],
)
def test_damage_of_a_node_list_is_told(text, said):
    with pytest.raises(SpecErrors, match=said):
        read_nodes(text, "f")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "no JSON"),
        ("{}", "no list of jobs"),
        (
            '{"jobs": [], "errors": [{"description": "No controller"}]}',
            '"No controller": there is no',
        ),
        ('{"jobs": [{"job_state": 5}]}', "job_state"),
        ('{"jobs": [{"job_state": ["PENDING"], "job_id": null}]}', "a job has an id"),
        (
            '{"jobs": [{"job_state": ["PENDING"], "job_id": 7}, '
            '{"job_state": ["RUNNING"], "job_id": 7}]}',
            r"jobs\[1\].job_id.*used twice",
        ),
        (
            '{"jobs": [{"job_id": 7, "job_state": ["PENDING"], "node_count": 1000001}]}',
            "node_count.*at most",
        ),
        (
            '{"jobs": [{"job_id": 7, "job_state": ["PENDING"], "tres_req_str": "cpu=x"}]}',
            "not a quantity",
        ),
        (
            '{"jobs": [{"job_id": 7, "job_state": ["PENDING"], "tres_req_str": "mem=99E"}]}',
            "larger than any cluster",
        ),
        ('{"jobs": [{"job_id": 7, "job_state": ["RUNNING"], "nodes": "n["}]}', "brackets"),
    ],
)
def test_damage_of_a_job_list_is_told(text, said):
    with pytest.raises(SpecErrors, match=said):
        read_jobs(text, "f")


def test_what_two_running_jobs_hold_of_one_node_is_held_once():
    """GPUs with shards, oversubscribed CPUs, lists of two moments: in a spec one holds it."""
    nodes = read_nodes("NodeName=n CPUTot=8 RealMemory=1000 Gres=gpu:4 State=IDLE", "nodes")
    common = {"job_state": ["RUNNING"], "nodes": "n", "node_count": 1}
    entries = [
        {"job_id": 1, **common, "tres_alloc_str": "cpu=6,gres/gpu=2"},
        {"job_id": 2, **common, "gres_detail": ["gpu:2(IDX:0-1)"], "tres_alloc_str": "gres/gpu=2"},
        {"job_id": 3, **common, "gres_detail": ["gpu:2(IDX:1-2)"], "tres_alloc_str": "cpu=6"},
    ]
    report = ImportReport()

    lines = slurm_spec(nodes, read_jobs(json.dumps({"jobs": entries}), "jobs"), report)

    problem = compile_spec(parse_spec("\n".join(lines))).problem
    held = {job.name: job.replicas[0] for job in problem.running}
    assert {name: replica.gpus for name, replica in held.items()} == {
        "1": (3,),
        "2": (0, 1),
        "3": (2,),
    }
    assert sum(replica.cpu_milli for replica in held.values()) == 8000
    assert any("hold no more of a node than it has left" in line for line in report.lines())


@settings(max_examples=100)
@given(damaged(json.loads((DATA / "squeue.json").read_text())))
def test_a_damaged_job_list_is_a_sound_spec_or_a_clear_error(document):
    nodes = read_nodes((DATA / "nodes.txt").read_text(), "nodes")
    try:
        jobs = read_jobs(json.dumps(document), "jobs")
    except SpecErrors:
        return

    problem = compile_spec(parse_spec("\n".join(slurm_spec(nodes, jobs, ImportReport())))).problem

    held = [(r.node, gpu) for job in problem.running for r in job.replicas for gpu in r.gpus]
    assert len(held) == len(set(held))


@settings(max_examples=60)
@given(st.data())
def test_a_damaged_node_list_is_a_sound_spec_or_a_clear_error(data):
    text = (DATA / "nodes.txt").read_text()
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text) - 1))
        text = text[:at] + data.draw(st.text("=:+*,()09aN \n", max_size=3)) + text[at + 1 :]
    try:
        nodes = read_nodes(text, "nodes")
    except SpecErrors:
        return

    compile_spec(parse_spec("\n".join(slurm_spec(nodes, (), ImportReport()))))
