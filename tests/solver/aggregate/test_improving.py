"""What improves a packing: neighbourhoods, exchanges, and bounds that know where to stop."""

from __future__ import annotations

import time

import pytest

from solver.aggregate.blocks import BlockProgram
from solver.aggregate.packer import Move, Packer
from solver.aggregate.regroup import Regrouper
from solver.aggregate.relaxation import ADMISSION, Relaxation
from solver.aggregate.ruin import Ruin
from solver.aggregate.wish import Wish
from solver.lp import LinearProgram
from solver.problem import Problem
from solver.solution import Plan
from solver.stock import Seat, Stock
from solver.tiers import Ruler
from solver.verify import verify
from tests.scenario import Scenario, place, plan


def packed(problem: Problem, start: Plan) -> Packer:
    packer = Packer(problem)
    number = {node.name: n for n, node in enumerate(problem.nodes)}
    for name, places in start.by_job.items():
        job = problem.job_by_name[name]
        seats = {job.roles[0].name: [Seat(number[p.node], p.gpus, p.share_milli) for p in places]}
        packer.restore(job, seats)
    return packer


def tangled() -> tuple[Problem, Plan]:
    """Three gangs, each split over two nodes that each would have held one whole."""
    story = Scenario(shuffle=False)
    for n in range(3):
        story.node(f"n{n}", gpus=4)
    for job in ("a", "b", "c"):
        story.job(job, replicas=2, gpus=2)
    split = [
        *(place("a", f"n{n}", [0, 1], replica=i) for i, n in enumerate((0, 1))),
        place("b", "n1", [2, 3]),
        place("b", "n2", [0, 1], replica=1),
        place("c", "n2", [2, 3]),
        place("c", "n0", [2, 3], replica=1),
    ]
    return story.problem(), plan(*split)


def test_gangs_that_are_split_over_each_other_are_brought_together():
    problem, split = tangled()
    packer = packed(problem, split)

    saved = Regrouper(packer, seed=1).run(time.monotonic() + 10, rounds=200)

    after = packer.plan()
    ruler = Ruler(problem)
    nodes = next(s for s in ruler.steps if s.kind == "groups" and s.detail == "node")
    assert not verify(problem, after)
    assert after.started == split.started
    assert (ruler.value(nodes, split), ruler.value(nodes, after), saved) == (3, 0, 3)


def test_a_move_without_room_changes_nothing():
    problem, split = tangled()
    packer = packed(problem, split)
    job = problem.job_by_name["a"]

    moved = packer.move([Move(job, job.roles[0], frozenset({0}), (2,))])

    assert not moved
    assert packer.plan() == split


def test_the_older_job_takes_the_place_of_the_younger_ones():
    story = Scenario(shuffle=False).node("n", gpus=4)
    story.job("old", gpus=4).job("young", gpus=2).job("youngest", gpus=2)
    problem = story.problem()
    packer = packed(problem, plan(place("young", "n", [0, 1]), place("youngest", "n", [2, 3])))
    ruler = Ruler(problem)
    wished = tuple(
        ruler.value(step, plan(place("old", "n", [0, 1, 2, 3])))
        for step in ruler.steps
        if step.kind in ADMISSION
    )
    worth = tuple(
        ruler.value(step, packer.plan()) for step in ruler.steps if step.kind in ADMISSION
    )

    parts = {job.name: float(job.name == "old") for job in problem.jobs}
    found = Ruin(packer, 1, Wish(parts, wished)).run(worth, time.monotonic() + 10, rounds=50)

    assert found == wished
    assert set(packer.plan().by_job) == {"old"}


def test_what_is_worse_is_taken_back_to_the_very_seats():
    problem, split = tangled()
    packer = packed(problem, split)
    worth = tuple(
        Ruler(problem).value(step, split) for step in Ruler(problem).steps if step.kind in ADMISSION
    )
    more = tuple(value + 1 for value in worth)

    found = Ruin(packer, 1, Wish({}, more)).run(worth, time.monotonic() + 10, rounds=30)

    assert found == worth
    assert packer.plan().started == split.started
    assert not verify(problem, packer.plan())


@pytest.mark.parametrize(("idle", "fewest_too_many"), [((3, 3), 1), ((2, 4), 0), ((4, 2), 0)])
def test_the_bound_of_nodes_spanned_knows_how_gangs_can_be_cut(idle, fewest_too_many):
    """Gangs of 4 and of 2 single GPUs: two nodes with three idle GPUs split one of them."""
    story = Scenario(shuffle=False)
    for n, free in enumerate(idle):
        story.node(f"n{n}", gpus=4)
        if free < 4:
            story.running(f"on-{n}", f"n{n}", list(range(4 - free)))
    story.job("four", replicas=4, gpus=1).job("two", replicas=2, gpus=1)
    problem = story.problem()
    ruler = Ruler(problem)
    program = Relaxation(ruler, Stock(problem))
    for step in ruler.steps:
        if step.kind in ADMISSION:
            program.keep(step, ruler.limit(step))
    nodes = next(s for s in ruler.steps if s.kind == "groups" and s.detail == "node")

    assert BlockProgram(program, Stock(problem)).bound(nodes, 10.0) == fewest_too_many


def test_a_bound_from_duals_holds_and_is_tight():
    lp = LinearProgram()
    x, y = lp.column(4.0), lp.column(4.0)
    lp.row([(x, 1.0), (y, 2.0)], upper=6.0)

    found = lp.optimise({x: 1.0, y: 1.0}, 10.0, sense="max")

    assert found is not None
    assert found.bound == pytest.approx(5.0)
    assert found.bound >= found.value - 1e-9
