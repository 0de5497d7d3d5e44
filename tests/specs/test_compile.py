"""What a spec says to the solver, object by object."""

import pytest

from solver.options import SolveOptions
from solver.workload import LinkRule
from tests.specs.reading import SPECS, compiled

ONE_NODE = "cluster: {nodes: [{name: n, gpus: 8, cpu: 64, memory: 512Gi}]}\n"


def problem_of(text, folder=None):
    return compiled(text, folder).problem


def job_of(entry: str):
    return problem_of(f"{ONE_NODE}jobs:\n  - {{name: j, {entry}}}\n").jobs[0]


def shape_of(entry: str):
    return job_of(entry).roles[0].shape


def running_of(entry: str, nodes: str = ONE_NODE):
    return compiled(f"{nodes.rstrip()}\nrunning:\n  - {{job: r, {entry}}}\n")


def test_everything_but_names_and_requests_has_a_default():
    result = compiled("cluster: {nodes: [{name: n}]}\njobs: [{name: j, cpu: 1}]\n")

    problem = result.problem
    node, job, (queue,) = problem.nodes[0], problem.jobs[0], problem.queues
    assert (node.n_gpus, node.cpu_milli, node.memory_mib) == (0, None, None)
    assert node.schedulable
    assert queue.name == job.queue == "default"
    assert (job.priority, job.gang, job.kind, job.must) == (0, True, "training", False)
    assert [(role.name, role.replicas, role.min_replicas) for role in job.roles] == [
        ("replica", 1, 1)
    ]
    assert problem.objectives[0] == "guarantee"
    assert result.options == SolveOptions()
    assert result.notes == ()


def test_a_pool_expands_to_numbered_nodes_in_numbered_groups():
    problem = problem_of(
        """
        cluster:
          levels: [block, rack]
          pools:
            - {name: h100, count: 5, preset: hgx-h100, location: {block: b0}, nodes_per: {rack: 2}}
        """
    )

    assert [node.name for node in problem.nodes] == [f"h100-{i}" for i in range(5)]
    assert [node.location["rack"] for node in problem.nodes] == [
        "h100-rack-0",
        "h100-rack-0",
        "h100-rack-1",
        "h100-rack-1",
        "h100-rack-2",
    ]
    assert {node.location["block"] for node in problem.nodes} == {"b0"}
    assert len({id(node.topology) for node in problem.nodes}) == 1


def test_a_preset_brings_gpus_cpu_and_memory_and_the_spec_may_overrule_them():
    a, b = problem_of(
        "cluster: {nodes: [{name: a, preset: hgx-h100}, {name: b, preset: hgx-h100, cpu: 10}]}\n"
    ).nodes

    assert set(a.topology.gpu_models) == {"H100-80GB"}
    assert (a.cpu_milli, a.memory_mib) == (224_000, 2048 * 1024)
    assert (b.cpu_milli, b.memory_mib) == (10_000, 2048 * 1024)
    assert a.topology is b.topology


def test_a_preset_of_many_nodes_to_a_domain_makes_domains():
    pool = "{name: t, count: 20, preset: gb200-nvl72%s}"

    by_itself = problem_of(f"cluster: {{pools: [{pool % ''}]}}\n").nodes
    smaller = problem_of(f"cluster: {{pools: [{pool % ', nodes_per: {domain: 5}'}]}}\n").nodes
    one = problem_of(f"cluster: {{pools: [{pool % ', location: {domain: d}'}]}}\n").nodes

    domains = [node.location["domain"] for node in by_itself]
    assert domains == ["t-domain-0"] * 18 + ["t-domain-1"] * 2
    assert len({node.location["domain"] for node in smaller}) == 4
    assert {node.location["domain"] for node in one} == {"d"}


def test_allocatable_is_capacity_less_what_is_reserved_rounded_down_at_the_end():
    node = problem_of(
        """
        cluster:
          nodes:
            - name: n
              cpu: 10.0005
              memory: 1048577Ki
              reserved: {cpu: 500u, memory: 1Ki}
        """
    ).nodes[0]

    assert (node.cpu_milli, node.memory_mib) == (10_000, 1024)


def test_a_capture_gives_the_links_and_the_spec_the_model():
    node = problem_of(
        "cluster: {nodes: [{name: n, topology: {file: topo/a100-pairs.txt}, "
        "gpu_model: A100-PCIE-80GB}]}\n",
        SPECS,
    ).nodes[0]

    assert node.topology.islands == ((0, 1), (2, 3))
    assert set(node.topology.gpu_models) == {"A100-PCIE-80GB"}
    assert min(node.topology.gpu_memory_mib) > 80_000


def test_links_stand_instead_of_a_topology_or_over_it():
    alone, over = problem_of(
        """
        cluster:
          nodes:
            - {name: a, gpus: 3, links: [{a: 2, b: 0, kind: NV12}]}
            - {name: b, preset: a100-pcie-pairs, links: [{a: 0, b: 1, kind: SYS}]}
        """
    ).nodes

    assert alone.topology.islands == ((0, 2),)
    assert over.topology.islands == ((2, 3),)


def test_devices_that_differ_have_their_own_model_and_memory():
    node = problem_of(
        "cluster: {nodes: [{name: n, gpus: [{model: NVIDIA A100-SXM4-80GB}, "
        "{model: mine, memory: 10Gi}, {model: mine}]}]}\n"
    ).nodes[0]

    assert node.topology.gpu_models == ("A100-80GB", "mine", "mine")
    assert node.topology.gpu_memory_mib[1:] == (10 * 1024, None)


def test_nodes_that_are_alike_share_one_topology_however_they_are_written():
    problem = problem_of(
        """
        cluster:
          nodes:
            - {name: a, gpus: 2, gpu_model: V100-32GB}
            - {name: b, gpus: [{model: V100-32GB}, {model: V100-32GB}]}
            - {name: c, gpus: 2, gpu_model: T4}
        """
    )

    a, b, c = (node.topology for node in problem.nodes)
    assert a is b
    assert a is not c


def test_state_labels_and_taints_of_a_node_arrive():
    node = problem_of(
        """
        cluster:
          nodes:
            - name: n
              gpus: 4
              labels: {zone: a}
              taints: [{key: dedicated, value: infra, effect: NoExecute}]
              ready: false
              cordoned: true
              gpus_unhealthy: [3]
              mig: [{gpu: 0, instances: [{profile: 3g.40gb, start: 4, used_by: x}]}]
        """
    ).nodes[0]

    assert node.all_labels == {"kubernetes.io/hostname": "n", "zone": "a"}
    assert (node.taints[0].key, node.taints[0].value, node.taints[0].effect) == (
        "dedicated",
        "infra",
        "NoExecute",
    )
    assert (node.ready, node.cordoned) == (False, True)
    assert node.usable_gpus == (1, 2)


@pytest.mark.parametrize(
    ("entry", "gpus", "share_milli", "share_memory_mib"),
    [
        ("gpus: 8", 8, 0, 0),
        ("gpus: 3000m", 3, 0, 0),
        ("gpus: '2'", 2, 0, 0),
        ("gpus: 0.46", 0, 460, 0),
        ("gpus: 460m", 0, 460, 0),
        ("gpus: 0.4605", 0, 461, 0),
        ("gpus: 0.999", 0, 999, 0),
        ("gpu_memory: 20Gi", 0, 0, 20 * 1024),
        ("gpu_memory: 1025Ki", 0, 0, 2),
        ("gpus: 0, cpu: 1", 0, 0, 0),
        ("cpu: 1", 0, 0, 0),
    ],
)
def test_a_job_asks_for_whole_gpus_or_for_one_share(entry, gpus, share_milli, share_memory_mib):
    shape = shape_of(entry)

    assert (shape.gpus, shape.share_milli, shape.share_memory_mib) == (
        gpus,
        share_milli,
        share_memory_mib,
    )


def test_requests_are_rounded_up_and_models_are_canonical_and_sorted():
    shape = shape_of(
        "gpus: 2, cpu: 100500u, memory: 1025Ki, gpu_models: [h100, L40S, NVIDIA-L40S],"
        " link: required, node_selector: {z: 1, a: on}"
    )

    assert (shape.cpu_milli, shape.memory_mib) == (101, 2)
    assert "L40S-48GB" in shape.gpu_models
    assert list(shape.gpu_models) == sorted(set(shape.gpu_models))
    assert shape.link is LinkRule.REQUIRED
    assert shape.node_selector == (("a", "on"), ("z", "1"))


def test_what_cannot_matter_does_not_make_shapes_different():
    assert shape_of("gpus: 1, link: required") == shape_of("gpus: 1")
    assert shape_of("cpu: 1, gpu_models: [T4]") == shape_of("cpu: 1")


def test_rules_of_a_job_arrive():
    job = job_of(
        "gpus: 1, replicas: 8, min: 6, priority: -5, kind: inference, must: true, start_group: g,"
        " topology: {within: node, mode: preferred}, spread: {over: node, max_per: 2},"
        " tolerations: [{key: k, operator: Exists, effect: NoSchedule}]"
    )

    assert (job.replicas, job.min_replicas, job.priority) == (8, 6, -5)
    assert (job.kind, job.must, job.start_group) == ("inference", True, "g")
    assert (job.topology.within, job.topology.required) == ("node", False)
    assert (job.spread.over, job.spread.max_per) == ("node", 2)
    toleration = job.roles[0].shape.tolerations[0]
    assert (toleration.key, toleration.operator, toleration.effect) == ("k", "Exists", "NoSchedule")


def test_roles_take_from_their_job_what_they_leave_out():
    job = job_of(
        "gpus: 8, cpu: 64, memory: 1Gi, gpu_models: [T4], roles: ["
        "{name: leader, gpus: 0.5, cpu: 8}, {name: worker, replicas: 4, min: 2},"
        "{name: env, gpus: 0}]"
    )

    leader, worker, env = job.roles
    assert (leader.shape.share_milli, leader.shape.cpu_milli, leader.shape.memory_mib) == (
        500,
        8000,
        1024,
    )
    assert (worker.shape.gpus, worker.shape.cpu_milli, worker.shape.gpu_models) == (
        8,
        64_000,
        ("T4-16GB",),
    )
    assert (worker.replicas, worker.min_replicas) == (4, 2)
    assert not env.shape.wants_gpu
    assert job.min_replicas == 4


def test_running_work_names_its_gpus_or_the_lowest_are_assumed_and_said():
    result = compiled(
        """
        cluster: {nodes: [{name: n, gpus: 8, gpus_unhealthy: [2]}]}
        running:
          - {job: counted, replicas: [{node: n, gpus: 3}]}
          - {job: named, replicas: [{node: n, gpus: [0, 3], cpu: 500m, memory: 1Gi}]}
          - {job: many, replicas: [{node: n, gpus: 2}]}
        """
    )

    counted, named, many = result.problem.running
    assert named.replicas[0].gpus == (0, 3)
    assert (named.replicas[0].cpu_milli, named.replicas[0].memory_mib) == (500, 1024)
    assert counted.replicas[0].gpus == (1, 4, 5)
    assert many.replicas[0].gpus == (6, 7)
    assert result.notes == (
        "counted: assumed GPUs 1, 4-5 of node n",
        "many: assumed GPUs 6-7 of node n",
    )


def test_work_keeps_its_gpus_when_one_of_them_has_failed():
    result = running_of(
        "replicas: [{node: n, gpus: 4}]",
        "cluster: {nodes: [{name: n, gpus: 4, gpus_unhealthy: [1]}]}\n",
    )

    assert result.problem.running[0].replicas[0].gpus == (0, 2, 3, 1)


def test_running_shares_are_said_by_the_job_or_the_replica():
    by_job = running_of("gpus: 0.25, replicas: [{node: n, gpus: [3]}]").problem.running[0]
    by_replica = running_of("replicas: [{node: n, gpus: 0.5}]").problem.running[0]
    by_memory = running_of(
        "replicas: [{node: n, gpus: [1], gpu_memory: 5Gi}]",
        "cluster: {nodes: [{name: n, gpus: [{model: x, memory: 10Gi}, {model: x, memory: 10Gi}]}]}",
    ).problem.running[0]

    assert (by_job.replicas[0].gpus, by_job.replicas[0].share_milli) == ((3,), 250)
    assert (by_replica.replicas[0].gpus, by_replica.replicas[0].share_milli) == ((0,), 500)
    assert (by_memory.replicas[0].gpus, by_memory.replicas[0].share_milli) == ((1,), 500)
    assert by_job.shapes[0].share_milli == 250


def test_running_work_takes_the_keys_of_its_job_or_its_role():
    job = running_of(
        "queue: default, priority: 7, cpu: 4, memory: 2Gi, gpus: 2, "
        "roles: [{name: leader, gpus: 1, cpu: 1}, {name: worker}],"
        "replicas: [{node: n, role: leader}, {node: n, role: worker, cpu: 9},"
        "{node: n, gpus: [7, 6]}]"
    ).problem.running[0]

    assert [replica.gpus for replica in job.replicas] == [(0,), (1, 2), (7, 6)]
    assert [replica.cpu_milli for replica in job.replicas] == [1000, 9000, 4000]
    assert [shape.gpus for shape in job.shapes] == [1, 2, 2]
    assert job.priority == 7


def test_running_work_without_gpus_holds_none():
    job = running_of("cpu: 4, replicas: [{node: n}]").problem.running[0]

    assert (job.replicas[0].gpus, job.replicas[0].gpu_milli) == ((), 0)


def test_what_stopping_running_work_means_arrives():
    job = running_of(
        "min: 1, ends_in: 40m, replicas: [{node: n, gpus: 1}, {node: n, gpus: 1}],"
        "preemption: {allowed: false, movable: true, checkpoint_age: 25m, restart: 5m,"
        "cost_gpu_s: 900}"
    ).problem.running[0]
    plain = running_of("replicas: [{node: n, gpus: 1}]").problem.running[0]

    stop = job.preemption
    assert (job.min_replicas, job.ends_in_s) == (1, 2400)
    assert (stop.allowed, stop.movable) == (False, True)
    assert (stop.checkpoint_age_s, stop.restart_s, stop.cost_gpu_s) == (1500, 300, 900)
    assert (plain.min_replicas, plain.preemption.restart_s) == (None, 60)


@pytest.mark.parametrize(
    ("rule", "replicas", "moves"),
    [
        ("topology: {within: domain}", "{node: n, gpus: 1}, {node: n, gpus: 1}", False),
        ("topology: {within: island}", "{node: n, gpus: 1}", True),
        ("topology: {within: island}", "{node: n, gpus: 2}", False),
        ("topology: {within: domain}", "{node: n, gpus: 1}", True),
        ("topology: {within: node, mode: preferred}", "{node: n, gpus: 1}, {node: n}", True),
        ("spread: {over: node, max_per: 2}", "{node: n, gpus: 1}, {node: n, gpus: 1}", False),
        ("spread: {over: node}", "{node: n, gpus: 1}", True),
    ],
)
def test_running_work_that_has_to_be_together_or_apart_does_not_move(rule, replicas, moves):
    result = running_of(f"{rule}, preemption: {{movable: true}}, replicas: [{replicas}]")

    assert result.problem.running[0].preemption.movable is moves
    key = rule.split(":")[0]
    assert [note for note in result.notes if "does not move" in note] == (
        [] if moves else [f"r: does not move, its {key} would have to hold there"]
    )


def test_queues_arrive_with_their_amounts():
    queue = problem_of(
        f"""
        {ONE_NODE.strip()}
        queues:
          - name: q
            priority: 2
            weight: 0
            quota: {{gpus: 1.5, cpu: 100m, memory: 1Gi}}
            limit: {{gpus: 4}}
            demand: {{gpus: 3}}
        """
    ).queues[0]

    assert (queue.priority, queue.weight) == (2, 0)
    assert queue.quota == {"gpu_milli": 1500, "cpu_milli": 100, "memory_mib": 1024}
    assert queue.limit == {"gpu_milli": 4000}
    assert queue.demand == {"gpu_milli": 3000}


def test_objectives_reference_and_options_arrive():
    result = compiled(
        f"""
        {ONE_NODE.strip()}
        objectives: [stranded, priority]
        reference:
          - {{gpus: 8, weight: 1}}
          - {{gpus: 1, cpu: 2, weight: 3}}
          - {{gpus: 8, weight: 2}}
        solve: {{time_limit: 1500ms, deterministic_limit: 6.5, workers: 2, seed: 7, gap: 0.01}}
        """
    )

    assert result.problem.objectives == ("stranded", "priority")
    assert [(shape.gpus, weight) for shape, weight in result.problem.reference] == [(8, 3), (1, 3)]
    assert result.options == SolveOptions(
        time_limit_s=1.5, deterministic_limit=6.5, workers=2, seed=7, gap=0.01
    )


@pytest.mark.parametrize(
    ("entries", "note"),
    [
        (
            "running: [{job: r, min: 1, wanted: 6, replicas: [{node: n, gpus: [0]}]}]",
            "r: growth to 6 replicas (wanted) is not planned yet",
        ),
        (
            "running: [{job: r, min: 2, replicas: [{node: n, gpus: [0]}]}]",
            "r: runs 1 of at least 2 replicas (min)",
        ),
        (
            "jobs: [{name: j, gpus: 1, gpu_models: [H1000]}]",
            "no node has a GPU of model H1000",
        ),
    ],
)
def test_what_this_version_does_not_act_on_is_said(entries, note):
    assert compiled(f"{ONE_NODE}{entries}\n").notes == (note,)


def test_a_model_that_no_node_has_is_answered_with_a_near_one():
    notes = compiled(
        "cluster: {nodes: [{name: n, preset: hgx-h100}]}\n"
        "jobs: [{name: j, gpus: 1, gpu_models: [H100-800GB]}]\n"
    ).notes

    assert notes == ('no node has a GPU of model H100-800GB. Did you mean "H100-80GB"?',)


def test_running_work_that_asks_for_more_than_its_node_has_is_said():
    result = running_of("replicas: [{node: n, gpus: [0], cpu: 65, memory: 513Gi}]")

    assert result.notes == ("n: running work asks for 1 cores and 1,024 MiB more than there is",)


def test_many_assumed_gpus_are_summed_up_in_one_note():
    running = "\n".join(f"  - {{job: r{i}, replicas: [{{node: n, gpus: 1}}]}}" for i in range(12))

    notes = compiled(f"cluster: {{nodes: [{{name: n, gpus: 16}}]}}\nrunning:\n{running}\n").notes

    assert len(notes) == 8
    assert notes[0] == "r0: assumed GPU 0 of node n"
    assert notes[-1] == "assumed the GPUs of 5 further running replicas, likewise"


def test_two_kinds_of_instance_in_one_replica_are_said():
    nodes = ONE_NODE.replace("gpus: 8", "gpus: 8, gpu_model: A100-80GB")
    two, one = "mig: {1g.10gb: 1, 3g.40gb: 1}", "mig: {1g.10gb: 2}"

    (note,) = compiled(f"{nodes}jobs:\n  - {{name: a, {two}}}\n  - {{name: b, {one}}}\n").notes

    assert note.startswith("several kinds of MIG instance in one replica: a; ")
    assert "cdi-cri" in note
