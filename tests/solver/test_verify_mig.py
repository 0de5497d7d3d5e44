"""verify and slices: each rule broken alone."""

from dataclasses import replace

import pytest

from solver.api import solve
from solver.cluster import GPU_MILLI, MigInstance, Node
from solver.problem import Problem
from solver.solution import PlacedInstance, Placement, Plan
from solver.verify import Rule, verify
from solver.workload import Job, Queue, Role, RunningJob, RunningReplica, Shape, Slice
from tests.scenario import machine
from topology.mig.layouts import Instance

HELD = MigInstance(gpu=1, instance=Instance(4, "3g.40gb"), used_by="chat")


def problem(limit=None, running=(), **wish):
    node = Node(
        name="n",
        topology=machine(["H100-80GB"] * 3),
        mig_gpus=frozenset([1]),
        mig_mode=frozenset([1]),
        cuttable_gpus=frozenset([0]),
        instances=(HELD,),
    )
    shape = Shape(slices=((Slice(wish.pop("profile", "2g.20gb"), **wish), 1),))
    jobs = tuple(Job(name=name, roles=(Role(name="r", shape=shape),)) for name in ("a", "b"))
    return Problem(nodes=(node,), jobs=jobs, most_recut_gpus=limit, running=running)


def at(job, gpu, start, profile="2g.20gb"):
    made = (PlacedInstance(gpu, Instance(start, profile)),)
    return Placement(job, "r", 0, "n", (), 0, made)


def said(question, *placements):
    return [(v.rule, v.text) for v in verify(question, Plan.of(placements))]


def test_slices_beside_each_other_and_beside_what_is_in_use_are_right():
    assert said(problem(), at("a", 1, 0), at("b", 1, 2)) == []
    assert said(problem(), at("a", 0, 4)) == []


def test_a_large_instance_is_for_the_slice_that_only_it_serves():
    """A 4g serves a wish for two compute slices as well, which comes first."""
    wishes = ((Slice(compute=2), 1), (Slice("4g.40gb"), 1))
    job = Job(name="a", roles=(Role(name="r", shape=Shape(slices=wishes)),))
    question = replace(problem(), jobs=(job,))
    four, two = (
        PlacedInstance(0, Instance(0, "4g.40gb")),
        PlacedInstance(0, Instance(4, "2g.20gb")),
    )

    assert said(question, Placement("a", "r", 0, "n", (), 0, (four, two))) == []
    ((_, text),) = said(question, Placement("a", "r", 0, "n", (), 0, (four,)))
    assert "has no instance for a slice" in text


@pytest.mark.parametrize(
    ("placements", "text"),
    [
        ([at("a", 1, 4)], 'slot 4 is given to "chat" and "a"'),
        ([at("a", 0, 0), at("b", 0, 0)], 'slot 0 is given to "a" and "b"'),
        ([at("a", 0, 1)], "begins at no legal slot"),
        ([at("a", 2, 0)], "may not be cut"),
        ([at("a", 0, 0, "3g.40gb")], "has no instance for a slice 2g.20gb"),
        ([at("a", 0, 0, "2g.10gb")], "has no profile 2g.10gb"),
        ([Placement("a", "r", 0, "n", (), 0)], "has no instance for a slice"),
    ],
)
def test_a_slice_in_a_wrong_place_is_found(placements, text):
    found = said(problem(), *placements)

    assert any(rule is Rule.MIG and text in line for rule, line in found), found


def test_instances_in_use_count_on_the_limit_of_their_queue():
    """`chat` holds 3g.40gb, half a GPU; a 2g.20gb is a quarter."""
    chat = RunningJob(
        name="chat", queue="q", replicas=(RunningReplica(node="n"),), shapes=(Shape(),)
    )
    for limit, breaches, starts in ((1000, [], 2), (750, [Rule.QUEUE_LIMIT], 1)):
        question = problem()
        question = replace(
            question,
            running=(chat,),
            queues=(Queue(name="q", limit={"gpu_milli": limit}),),
            jobs=tuple(replace(job, queue="q") for job in question.jobs),
        )
        both = Plan.of([at("a", 1, 0), at("b", 1, 2)])

        assert [violation.rule for violation in verify(question, both)] == breaches
        assert len(solve(question).plan.placements) == starts


def test_one_gpu_has_media_engines_for_one_instance():
    media = [at("a", 0, 0, "1g.10gb+me"), at("b", 0, 1, "1g.10gb+me")]

    assert any("media engines" in line for _, line in said(problem(profile="1g.10gb+me"), *media))


def test_an_instance_that_is_too_small_for_the_amounts_is_found():
    question = problem(profile="", memory_mib=15_000)

    assert said(question, at("a", 0, 0, "1g.20gb")) == []
    assert said(question, at("a", 0, 0, "1g.10gb"))


def test_a_gpu_that_somebody_has_whole_is_not_cut():
    job = RunningJob(
        name="run",
        replicas=(RunningReplica(node="n", gpus=(0,), share_milli=GPU_MILLI),),
        shapes=(Shape(gpus=1),),
    )

    found = said(problem(running=(job,)), at("a", 0, 0))

    assert any("somebody has it whole" in line for _, line in found)


def test_a_plan_changes_no_more_gpus_than_it_may():
    both = [at("a", 0, 0), at("b", 1, 0)]

    assert said(problem(limit=2), *both) == []
    assert [rule for rule, _ in said(problem(limit=1), *both)] == [Rule.RECUT]
