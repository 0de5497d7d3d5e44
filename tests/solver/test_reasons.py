"""What is said of a job that waits is true: lifting the named rule would make room for it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, assume, given, settings

from solver.aftermath import settled
from solver.api import solve
from solver.options import SolveOptions
from solver.problem import Problem
from solver.result import SolveStatus
from solver.room import Lift, lifted
from solver.slices import unused
from solver.workload import Job, Preemption, Queue, RunningJob, RunningReplica
from tests.scenario import Scenario, role
from tests.strategies import small_problems

if TYPE_CHECKING:
    from collections.abc import Iterable

    from solver.solution import Placement, Plan

OPTIONS = SolveOptions(seed=1, workers=1, time_limit_s=20)
EVERYWHERE = (Lift.TAINT, Lift.LABEL, Lift.LINK, Lift.TOPOLOGY, Lift.SPREAD, Lift.MODEL)

pytestmark = pytest.mark.timeout(240)


# Stories


def test_of_independent_roles_the_one_that_is_short_is_explained():
    story = Scenario().node("n1", gpus=["A100", "A100"]).node("n2", gpus=["V100"])
    story.running("r", "n2", [0])
    roles = [role("small", gpus=1), role("other", gpus=1, models=["V100"])]

    outcome = story.job("j", roles=roles, gang=False).solve()

    (told,) = outcome.result.pending
    assert told.reason == "model-mismatch"
    assert told.text.startswith("1 of 2 replicas start; the next one: wants V100")
    assert told.facts["needs"] == 1


def test_replicas_in_place_count_for_the_spread_of_the_next_one():
    story = Scenario().node("n1", gpus=4).node("n2", gpus=4)

    outcome = story.job("web", replicas=3, gang=False, gpus=1, spread_over="node").solve()

    (told,) = outcome.result.pending
    assert told.reason == "gpu-fragmented"
    assert "may have 1 replica(s) per node" in told.text


def test_what_a_gang_can_do_without_does_not_keep_it_waiting():
    story = Scenario().node("n1", gpus=4).running("r", "n1", [0, 1, 2])
    roles = [role("leader", gpus=2), role("workers", 2, minimum=0, gpus=8)]

    outcome = story.job("j", roles=roles).solve()

    outcome.expect("j").waits("gpu-short", needs=2, free=1, short=1)


def test_a_job_beyond_the_limit_by_itself_waits_for_that_whatever_room_there_is():
    story = Scenario().queue("red", limit=8).node("n1", gpus=8).node("n2", gpus=8)
    story.job("wide", queue="red", replicas=2, gpus=8).job("other", queue="red", gpus=8, priority=1)

    outcome = story.solve()

    outcome.expect("wide").waits("queue-limit")
    (told,) = outcome.result.pending
    assert told.text == "queue red is limited to 8 GPUs; the job alone wants 16 GPUs"


def test_a_partner_at_the_limit_of_its_queue_is_waited_for():
    story = Scenario().queue("red", limit=1).queue("blue").node("n1", gpus=4)
    story.job("a", gpus=2, queue="red", start_group="g")
    story.job("b", gpus=1, queue="blue", start_group="g")

    outcome = story.solve()

    outcome.expect("a").waits("queue-limit")
    outcome.expect("b").waits("waits-for-a")


def test_partners_that_fit_only_one_by_one_wait_for_each_other():
    story = Scenario().node("n1", gpus=3)
    story.job("a", gpus=2, start_group="g").job("b", gpus=2, start_group="g")

    outcome = story.solve()

    outcome.expect("a").waits("waits-for-b")
    outcome.expect("b").waits("waits-for-a")


def test_room_that_was_left_for_a_guarantee_is_not_for_what_goes_beyond_it():
    """Two of what `red` runs would fit where `old` was, one of them is guaranteed."""
    story = Scenario().node("n1", gpus=2).queue("red", quota=1).queue("blue")
    story.running("old", [("n1", [0]), ("n1", [1])], queue="blue")
    story.job("a", gpus=1, queue="red").job("b", gpus=1, queue="red")

    outcome = story.solve()

    outcome.expect("a").placed(1)
    outcome.expect("b").waits("fair-share")


def test_a_queue_that_is_due_no_more_is_told_so_where_others_start_instead():
    story = Scenario().node("n1", gpus=4).queue("web").queue("scraps", weight=0)
    for name in "abcd":
        story.job(name, gpus=1, queue="web")
    story.job("left", gpus=1, queue="scraps").job("wide", gpus=8, queue="scraps")

    outcome = story.solve()

    outcome.expect("left").waits("fair-share", entitled=0, held=0)
    outcome.expect("wide").waits("impossible")


def test_a_guarantee_that_keeps_less_urgent_work_in_place_is_named():
    story = Scenario().node("n1", gpus=4).node("n2", gpus=4)
    story.queue("prod", quota=4).queue("lab", quota=4)
    story.running("old", "n1", range(4), queue="lab")
    story.running("vip", "n2", range(4), queue="prod", preemption=Preemption(allowed=False))

    outcome = story.job("urgent", gpus=4, queue="prod", priority=9).solve()

    outcome.expect("urgent").waits("gpu-short")
    (told,) = outcome.result.pending
    assert told.text == (
        "wants 4 GPUs; 0 free; old is less urgent, but within what queue lab is guaranteed"
    )


def test_what_one_rack_could_not_take_even_empty_is_not_called_a_shortage_of_gpus():
    story = Scenario(levels=("rack",))
    for at in range(4):
        story.node(f"n{at}", gpus=8, at={"rack": f"r{at % 2}"})
    story.running("all", [(f"n{at}", range(8)) for at in range(4)])

    outcome = story.job("wide", replicas=3, gpus=8, within="rack").solve()

    outcome.expect("wide").waits("no-domain-big-enough", needs_nodes=3, largest_domain_nodes=2)
    (told,) = outcome.result.pending
    assert told.text.startswith("even if nothing ran: wants 24 GPUs (3 nodes) within one rack")
    assert told.facts["free"] == 0


def test_where_two_rules_keep_every_node_out_each_kind_of_node_says_its_own():
    story = Scenario().node("n1", gpus=["A100"] * 2, ready=False).node("n2", gpus=["V100"] * 2)
    story.node("n3", gpus=["V100"] * 2)

    outcome = story.job("j", gpus=1, models=["A100"], selector={"zone": "b"}).solve()

    (told,) = outcome.result.pending
    assert told.reason == "label"
    assert told.text == (
        "no node would take it, even empty (2 nodes labelled otherwise and of other models,"
        " 1 node not ready and labelled otherwise)"
    )


# Any problem


def has_room(problem: Problem, job: Job, placements: Iterable[Placement]) -> bool:
    """Whether the job would start beside the running work and these placements, by a solve.

    Queues and start groups are left out.
    """
    shapes = {(j.name, r.name): r.shape for j, r in problem.roles()}
    placed = [
        RunningJob(
            name=f"placed-{number}",
            replicas=(
                RunningReplica.seated(
                    shapes[at.job, at.role], at.node, at.gpus, at.share_milli or 1000
                ),
            ),
            shapes=(shapes[at.job, at.role],),
        )
        for number, at in enumerate(placements)
    ]
    alone = replace(
        problem,
        queues=(Queue(name="default"),),
        running=(*(replace(r, queue="default") for r in problem.running), *placed),
        jobs=(replace(job, queue="default", start_group=None),),
        objectives=("priority",),
    )
    return bool(solve(alone, OPTIONS).plan.placements)


def opened(problem: Problem) -> Problem:
    """The cluster with nothing on it and every node in service."""
    nodes = tuple(
        replace(n, ready=True, cordoned=False, taints=(), unhealthy_gpus=frozenset())
        for n in problem.nodes
    )
    return replace(problem, nodes=nodes, running=())


def idle(problem: Problem) -> Problem:
    """The cluster as it is, with nothing on it."""
    return replace(problem, nodes=tuple(map(unused, problem.nodes)), running=())


def before(problem: Problem, job: Job, plan: Plan) -> list[Placement]:
    """What had started when the job's turn came: higher priorities, then older ones."""

    def rank(other: Job) -> tuple[int, int]:
        members = problem.start_groups.get(other.start_group or "", (other,))
        oldest = min(problem.position[member.name] for member in members)
        return (-max(member.priority for member in members), oldest)

    return [p for p in plan.placements if rank(problem.job_by_name[p.job]) <= rank(job)]


def what_waits(job: Job, plan: Plan) -> Job | None:
    """The job, or a replica of it that is left over; None where more than one role competes."""
    if job.gang:
        roles = tuple(r for r in job.roles if r.min_replicas)
        return replace(job, roles=roles) if len(roles) == 1 else None
    if job.spread is not None:
        return None  # replicas in place count, and a solve would not know
    started = Counter(p.role for p in plan.by_job.get(job.name, ()))
    short = next(r for r in job.roles if started[r.name] < r.replicas)
    return replace(job, roles=(replace(short, replicas=1, min_replicas=1),))


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(small_problems())
def test_the_rule_that_is_named_is_the_one_in_the_way(problem):
    result = solve(problem, OPTIONS)
    assume(result.status is SolveStatus.OPTIMAL)
    # What gave way is gone before anybody asks why a job still waits.
    problem, _ = settled(problem, result.plan)
    after = result.plan.placements

    for told in result.pending:
        job = what_waits(problem.job_by_name[told.job], result.plan)
        if job is None or "no node would take it" in told.text:
            continue
        turn = before(problem, job, result.plan)
        fits = has_room(problem, job, after)
        if told.reason == "impossible":
            assert not has_room(opened(problem), lifted(job, EVERYWHERE), ()), told
        elif told.reason == "queue-limit":
            assert fits or told.facts["wanted"] > told.facts["limit"], told
            assert told.facts.get("held", 0) + told.facts["wanted"] > told.facts["limit"]
        elif told.reason.startswith("waits-for-"):
            assert fits, told
            partner = problem.job_by_name[told.reason.removeprefix("waits-for-")]
            assert partner.start_group == job.start_group
        elif told.reason == "fair-share":
            assert fits == ("once others start" not in told.text)
            if not fits:
                jobs = problem.job_by_name
                own = [
                    p
                    for p in after
                    if jobs[p.job].queue == job.queue or jobs[p.job].priority > job.priority
                ]
                assert has_room(problem, job, own), told
        else:
            assert not fits, told
        if told.reason in {lift.value for lift in EVERYWHERE}:
            without = lifted(job, [Lift(told.reason)])
            if "even if nothing ran" in told.text:
                assert not has_room(idle(problem), job, ()), told
                assert has_room(idle(problem), without, ()), told
            else:
                assert has_room(problem, without, after) or has_room(problem, without, turn), told
        if told.reason.startswith("gpu-") and "may have" not in told.text:
            for lift in (*EVERYWHERE, Lift.CPU, Lift.MEMORY):
                assert not has_room(problem, lifted(job, [lift]), after), (told, lift)
        if told.reason == "gpu-short":
            facts = told.facts
            assert facts["short"] == pytest.approx(facts["needs"] - facts["free"])
            assert facts["short"] > 0
