"""Who gives way for whom: stories, each with the answer an operator would expect."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import HealthCheck, given, settings

from solver.api import solve
from solver.cluster import HOSTNAME
from solver.options import SolveOptions
from solver.preemption.one_by_one import make_way
from solver.problem import Problem, RoleKey
from solver.solution import Plan
from solver.tiers import Ruler
from solver.verify import explain_violations, verify
from solver.workload import Job, Preemption, Role, RunningJob, RunningReplica
from tests.scenario import Outcome, Scenario
from tests.strategies import crowded_problems

OPTIONS = SolveOptions(workers=1, deterministic_limit=10, time_limit_s=20)


def victims(outcome: Outcome) -> dict[str, int]:
    """Evicted replicas by job."""
    return {e.job: len(e.replicas) for e in outcome.result.evictions}


def a_full_node(**running: object) -> Scenario:
    """Four GPUs, all held by one job of four replicas."""
    story = Scenario()
    places = [("n1", [gpu]) for gpu in range(4)]
    return story.node("n1", gpus=4).running("old", places, **running)


def test_more_urgent_work_takes_the_surplus_of_an_elastic_job_before_the_whole_of_it():
    for wanted, gone in ((1, 1), (2, 2), (3, 4), (4, 4)):
        story = a_full_node(min_replicas=2).job("urgent", gpus=wanted, priority=100)

        outcome = story.solve()

        outcome.expect("urgent").placed(1)
        assert victims(outcome) == {"old": gone}


def test_a_gang_goes_whole_or_not_at_all():
    outcome = a_full_node().job("urgent", gpus=1, priority=100).solve()

    assert victims(outcome) == {"old": 4}


def test_independent_replicas_go_one_by_one():
    outcome = a_full_node(min_replicas=0).job("urgent", gpus=3, priority=100).solve()

    assert victims(outcome) == {"old": 3}


def test_replicas_that_hold_the_same_and_asked_for_other_nodes_may_all_stay():
    story = Scenario().node("n1", gpus=4, cpu=8).running("old", [("n1", [])] * 2, cpu=1)
    story.running("low", "n1", [0, 1]).running("lowest", "n1", [2], priority=-1)
    problem = story.job("urgent", gpus=2, priority=9).job("more", gpus=1, priority=1).problem()
    old = problem.running[0]
    asked = (old.shapes[0], replace(old.shapes[1], node_selector=(("zone", "a"),)))
    problem = replace(problem, running=(replace(old, shapes=asked), *problem.running[1:]))

    result = solve(problem, OPTIONS, "cp-sat")

    assert {e.job for e in result.evictions} == {"low"}


def test_nobody_gives_way_to_work_that_is_no_more_urgent():
    outcome = a_full_node(priority=5).job("equal", gpus=1, priority=5).solve()

    assert victims(outcome) == {}
    outcome.expect("equal").waits("gpu-short")


def test_work_that_may_not_be_stopped_stays():
    protected = Preemption(allowed=False)

    outcome = a_full_node(preemption=protected).job("urgent", gpus=1, priority=100).solve()

    assert victims(outcome) == {}
    outcome.expect("urgent").waits("gpu-short")


def test_nothing_gives_way_where_no_reason_is_listed():
    outcome = a_full_node().preempt_for().job("urgent", gpus=1, priority=100).solve()

    assert victims(outcome) == {}


def test_without_priority_among_the_reasons_urgency_evicts_nobody():
    story = a_full_node().preempt_for("guarantee").job("urgent", gpus=1, priority=100)

    assert victims(story.solve()) == {}


def test_the_victim_is_the_one_that_loses_least():
    story = Scenario().node("n1", gpus=4).node("n2", gpus=4)
    story.running("fresh", "n1", range(4), preemption=Preemption(checkpoint_age_s=10))
    story.running("stale", "n2", range(4), preemption=Preemption(checkpoint_age_s=3600))

    outcome = story.job("urgent", gpus=4, priority=1).solve()

    assert victims(outcome) == {"fresh": 1}
    assert outcome.result.metrics.preemption_cost_gpu_s == 4 * (10 + 60)


def test_of_equal_costs_the_one_with_fewer_gpus_goes():
    story = Scenario().node("n1", gpus=2).node("n2", gpus=4)
    free = Preemption(cost_gpu_s=0)
    story.running("small", "n1", range(2), preemption=free)
    story.running("large", "n2", range(4), preemption=free)

    assert victims(story.job("urgent", gpus=2, priority=1).solve()) == {"small": 1}


def test_who_can_go_on_elsewhere_moves():
    story = Scenario().node("n1", gpus=2).node("n2", gpus=1)
    story.running("bound", "n1", [0]).running(
        "free", "n1", [1], preemption=Preemption(movable=True)
    )

    outcome = story.job("urgent", gpus=1, cpu=0, selector={HOSTNAME: "n1"}, priority=1).solve()

    assert victims(outcome) == {}
    (moved,) = outcome.result.moves
    assert (moved.job, moved.from_node, moved.to_node) == ("free", "n1", "n2")


def test_the_space_that_is_freed_is_in_one_rack_where_the_gang_has_to_be():
    story = Scenario(levels=["rack"])
    for node, rack in (("a1", "a"), ("a2", "a"), ("b1", "b"), ("b2", "b")):
        story.node(node, gpus=4, at={"rack": rack})
    cheap, dear = Preemption(cost_gpu_s=10), Preemption(cost_gpu_s=15)
    for node, cost in (
        ("a1", cheap),
        ("a2", dear),
        ("b1", cheap),
        ("b2", Preemption(cost_gpu_s=30)),
    ):
        story.running(f"on-{node}", node, range(4), preemption=cost)

    outcome = story.job("gang", replicas=2, gpus=4, within="rack", priority=1).solve()

    assert victims(outcome) == {"on-a1": 1, "on-a2": 1}
    outcome.expect("gang").on("a1", "a2")


def two_teams(quota: float) -> Scenario:
    """Four GPUs, all of them with the first of two teams; each is guaranteed some."""
    story = Scenario().node("n1", gpus=4).queue("first", quota=2).queue("second", quota=quota)
    for gpu in range(4):
        story.running(f"run-{gpu}", "n1", [gpu], queue="first", priority=9)
    return story


def test_a_queue_takes_back_what_it_is_guaranteed_even_from_more_urgent_work():
    outcome = two_teams(quota=2).job("mine", gpus=2, queue="second").solve()

    outcome.expect("mine").placed(1)
    assert sum(victims(outcome).values()) == 2


def test_a_gang_that_goes_beyond_the_guarantee_takes_nothing_back():
    outcome = two_teams(quota=2).job("mine", gpus=3, queue="second").solve()

    outcome.expect("mine").waits()
    assert victims(outcome) == {}


def test_shares_are_evened_out_only_where_that_is_a_listed_reason():
    for reasons, gone in ((("guarantee",), 0), (("guarantee", "fair_share"), 2)):
        story = Scenario().node("n1", gpus=4).queue("first").queue("second")
        story.preempt_for(*reasons)
        for gpu in range(4):
            story.running(f"run-{gpu}", "n1", [gpu], queue="first")

        outcome = story.job("new", gpus=2, queue="second").solve()

        assert len(victims(outcome)) == gone


def test_work_above_its_queue_limit_stays_until_something_is_added():
    story = Scenario().node("n1", gpus=4).node("n2", gpus=4).queue("q", limit=3)
    story.running("over", "n1", range(4), queue="q")

    assert victims(story.job("new", gpus=2, queue="q", priority=1).solve()) == {"over": 1}


def test_a_gpu_that_failed_under_its_work_frees_nothing():
    story = Scenario().node("n1", gpus=2, unhealthy=[0]).node("n2", gpus=1)
    story.running("on-the-dead", "n1", [0, 1]).running("whole", "n2", [0])

    outcome = story.job("urgent", gpus=1, priority=1).solve()

    assert victims(outcome) == {"whole": 1}


def requeued(job: RunningJob, replicas: tuple[int, ...], whole: bool) -> Job:
    """What was evicted, as a job that waits again: the gang, or its surplus."""
    shapes = [job.shapes[n] for n in replicas]
    roles = tuple(
        Role(
            name=f"role-{i}",
            shape=shape,
            replicas=shapes.count(shape),
            min_replicas=shapes.count(shape) if whole and job.min_replicas is None else 1,
        )
        for i, shape in enumerate(dict.fromkeys(shapes))
    )
    gang = whole and job.min_replicas != 0
    return Job(
        name=f"{job.name}-again", roles=roles, queue=job.queue, priority=job.priority, gang=gang
    )


def next_round(problem: Problem, plan: Plan) -> Problem:
    """The question as it is once the plan is carried out and what it evicted waits again."""
    running = {job.name: job for job in problem.running}
    left = []
    for job in problem.running:
        gone = {n for e in plan.evictions if e.job == job.name for n in e.replicas}
        moves = {m.replica: m for m in plan.moves if m.job == job.name}
        kept = [n for n in range(len(job.replicas)) if n not in gone]
        places = tuple(
            replace(
                job.replicas[n],
                node=moves[n].node,
                gpus=moves[n].gpus,
                share_milli=moves[n].share_milli,
            )
            if n in moves
            else job.replicas[n]
            for n in kept
        )
        if kept:
            shapes = tuple(job.shapes[n] for n in kept)
            left.append(replace(job, replicas=places, shapes=shapes))
    started = []
    for name, places in plan.by_job.items():
        job = problem.job_by_name[name]
        shapes = tuple(problem.role_by_key[RoleKey(p.job, p.role)].shape for p in places)
        started.append(
            RunningJob(
                name=name,
                replicas=tuple(
                    RunningReplica(
                        node=p.node,
                        gpus=p.gpus,
                        share_milli=p.share_milli if p.gpus else 1000,
                        cpu_milli=shape.cpu_milli,
                        memory_mib=shape.memory_mib,
                    )
                    for p, shape in zip(places, shapes, strict=True)
                ),
                shapes=shapes,
                queue=job.queue,
                priority=job.priority,
                min_replicas=None if job.gang else 0,
            )
        )
    again = [
        requeued(running[e.job], e.replicas, len(e.replicas) == len(running[e.job].replicas))
        for e in plan.evictions
    ]
    waiting = [job for job in problem.jobs if job.name not in plan.by_job]
    return replace(
        problem,
        running=(*left, *started),
        jobs=(*again, *waiting),
        reference_shapes=problem.reference,
    )


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=40)
@given(crowded_problems())
def test_what_was_evicted_does_not_come_back_by_evicting_what_took_its_place(problem):
    first = solve(problem, OPTIONS).plan
    if not first.evictions:
        return

    second = solve(next_round(problem, first), OPTIONS).plan

    back = {name for name in second.by_job if name.endswith("-again")}
    victims = {e.job for e in second.evictions} & set(first.by_job)
    assert not (back and victims), (first, second)


def test_victims_found_job_by_job_hold_gpus_that_others_can_use():
    story = Scenario().node("n1", gpus=2, unhealthy=[0]).node("n2", gpus=1)
    story.running("on-the-dead", "n1", [0], preemption=Preemption(cost_gpu_s=0))
    story.running("alive", "n2", [0]).running("other", "n1", [1], priority=9)
    problem = story.job("urgent", gpus=1, priority=1).problem()

    plan = make_way(problem, Ruler(problem), Plan())

    assert [eviction.job for eviction in plan.evictions] == ["alive"]


def test_a_cheap_victim_that_turns_out_not_to_be_needed_stays_on_its_gpu():
    """The cheap one is looked at first, but only the large one makes enough room, and alone."""
    story = Scenario().node("n1", gpus=8).running("cheap", "n1", [0])
    story.running("large", "n1", [1, 2, 3, 4, 5, 6, 7])
    problem = story.job("urgent", gpus=7, priority=1).problem()

    plan = make_way(problem, Ruler(problem), Plan())

    assert [eviction.job for eviction in plan.evictions] == ["large"]


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=40)
@given(crowded_problems())
def test_victims_found_job_by_job_make_a_valid_and_better_plan(problem):
    ruler = Ruler(problem)
    plan = make_way(problem, ruler, Plan())

    assert not verify(problem, plan), explain_violations(verify(problem, plan))
    assert ruler.key(plan) >= ruler.key(Plan())
