"""Whatever the problem, what a greedy policy makes passes the independent check."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from solver.cluster import Node, Taint, Toleration
from solver.fit import fit, hosts
from solver.greedy import ORDERS, PLACEMENTS, POLICIES, parse_policy, place
from solver.problem import Problem, RoleKey
from solver.state import empty_state, states_after
from solver.verify import verify
from solver.workload import (
    Job,
    LinkRule,
    Queue,
    Role,
    RunningJob,
    RunningReplica,
    Shape,
    SpreadRule,
    TopologyRule,
)
from tests.scenario import machine

PAIRS = {(0, 1): "NV4", (2, 3): "NV4", (0, 2): "PIX"}
MESH = {(0, 1): "NV2", (1, 2): "NV1", (2, 3): "NV2", (0, 3): "NV1"}
MACHINES = [
    machine(4, "NV12", 80),
    machine(4, PAIRS, 40),
    machine(4, MESH, 32),
    machine(["A100", "A100", "V100"], {(0, 1): "NV12"}, 40),
    machine(1, "", None),
    machine(0),
]
LEVELS = ("block", "rack")
DEDICATED = Taint(key="dedicated", value="x")


@st.composite
def shapes(draw: st.DrawFn) -> Shape:
    request = draw(
        st.sampled_from(
            [
                {"gpus": 1},
                {"gpus": 2},
                {"gpus": 3},
                {"gpus": 4},
                {"share_milli": 300},
                {"share_milli": 700},
                {"share_memory_mib": 20 * 1024},
                {},
            ]
        )
    )
    return Shape(
        **request,
        cpu_milli=draw(st.sampled_from([0, 0, 1000, 5000])),
        memory_mib=draw(st.sampled_from([0, 0, 1024])),
        gpu_models=draw(st.sampled_from([(), (), ("A100",), ("A100", "V100")])),
        node_selector=draw(st.sampled_from([(), (), (("zone", "a"),)])),
        tolerations=draw(st.sampled_from([(), (Toleration(operator="Exists"),)])),
        link=draw(st.sampled_from(LinkRule)) if request.get("gpus") else LinkRule.NONE,
    )


@st.composite
def nodes(draw: st.DrawFn, number: int) -> Node:
    topology = draw(st.sampled_from(MACHINES))
    levels = {"block": ["b0", "b1"], "rack": ["r0", "r1"], "domain": ["d0", "d1"]}
    location = {name: draw(st.sampled_from(groups)) for name, groups in levels.items()}
    if draw(st.booleans()):
        del location["domain"]
    out = frozenset(draw(st.sets(st.integers(0, 3), max_size=1)))
    return Node(
        name=f"n{number}",
        topology=topology,
        cpu_milli=draw(st.sampled_from([None, 4000, 16000])),
        memory_mib=draw(st.sampled_from([None, 2048, 8192])),
        location=location,
        labels=draw(st.sampled_from([{}, {"zone": "a"}])),
        taints=draw(st.sampled_from([(), (), (DEDICATED,)])),
        ready=draw(st.integers(0, 9)) > 0,
        cordoned=draw(st.integers(0, 9)) == 0,
        unhealthy_gpus=frozenset(gpu for gpu in out if gpu < topology.n_gpus),
    )


@st.composite
def jobs(draw: st.DrawFn, number: int) -> Job:
    count = draw(st.integers(1, 2))
    gang = draw(st.integers(0, 3)) > 0
    roles = []
    for place_ in range(count):
        replicas = draw(st.integers(1, 4))
        least = draw(st.integers(0, replicas)) if gang else replicas
        shape = draw(shapes())
        roles.append(Role(name=f"r{place_}", shape=shape, replicas=replicas, min_replicas=least))
    within = draw(st.sampled_from([None, None, "island", "node", "domain", "rack", "block"]))
    over = draw(st.sampled_from([None, None, "node", "domain", "rack"]))
    return Job(
        name=f"j{number}",
        roles=tuple(roles),
        queue=draw(st.sampled_from(["top", "left", "right"])),
        priority=draw(st.integers(0, 2)),
        gang=gang,
        topology=TopologyRule(within=within, required=draw(st.booleans())) if within else None,
        spread=SpreadRule(over=over, max_per=draw(st.integers(1, 2))) if over else None,
        start_group=draw(st.sampled_from([None, None, "g"])) if gang else None,
    )


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    machines = [draw(nodes(n)) for n in range(draw(st.integers(1, 5)))]
    running = []
    for node in machines:
        free = [gpu for gpu, left in enumerate(empty_state(node).gpu_left) if left]
        if free and draw(st.booleans()):
            share = draw(st.sampled_from([400, 1000]))
            replica = RunningReplica(
                node=node.name, gpus=(free[0],), share_milli=share, cpu_milli=1000
            )
            request = Shape(share_milli=400) if share == 400 else Shape(gpus=1)
            running.append(
                RunningJob(
                    name=f"run-{node.name}", replicas=(replica,), shapes=(request,), queue="left"
                )
            )
    limit = draw(st.sampled_from([{}, {"gpu_milli": 3000}, {"gpu_milli": 500, "cpu_milli": 4000}]))
    return Problem(
        levels=LEVELS,
        nodes=tuple(machines),
        queues=(
            Queue(name="top", limit=draw(st.sampled_from([{}, {"gpu_milli": 5000}]))),
            Queue(name="left", parent="top", limit=limit),
            Queue(name="right", parent="top", weight=draw(st.integers(0, 2))),
        ),
        running=tuple(running),
        jobs=tuple(draw(jobs(n)) for n in range(draw(st.integers(1, 5)))),
    )


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(problem=problems(), seed=st.integers(0, 3))
def test_no_policy_breaks_a_rule(problem: Problem, seed: int) -> None:
    for name in POLICIES:
        plan = place(problem, name, seed)

        assert verify(problem, plan) == [], name


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    problem=problems(),
    order=st.sampled_from(sorted(ORDERS)),
    placement=st.sampled_from(sorted(PLACEMENTS)),
)
def test_no_order_with_any_placement_breaks_a_rule(
    problem: Problem, order: str, placement: str
) -> None:
    policy = parse_policy(f"{order}+{placement}")

    plan = policy.place(problem)

    assert verify(problem, plan) == []
    assert policy.place(problem) == plan


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(problem=problems(), name=st.sampled_from(sorted(POLICIES)))
def test_an_independent_replica_waits_only_where_no_node_has_room(
    problem: Problem, name: str
) -> None:
    problem = replace(problem, queues=tuple(replace(q, limit={}) for q in problem.queues))

    plan = place(problem, name)

    after = states_after(problem, plan)
    for job, role in problem.roles():
        free_to_go = not job.gang and job.spread is None and job.topology is None
        if free_to_go and plan.started.get(RoleKey(job.name, role.name), 0) < role.replicas:
            for node in problem.nodes:
                room = hosts(node, role.shape) and fit(node, role.shape, after[node.name])
                assert not room, f"{job.name}/{role.name} waits, and {node.name} has room"
