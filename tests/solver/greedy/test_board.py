"""The board: what it remembers never changes what it answers."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from solver.fit import hosts, takes
from solver.greedy import PLACEMENTS
from solver.greedy.draft import Draft
from solver.greedy.random_fit import TRIES
from solver.greedy.scoring import ANYWHERE, PlacementPolicy, work_kind
from solver.problem import Problem
from solver.workload import Job, Role, Shape
from tests.scenario import Scenario, shape
from tests.strategies import shapes, tiny_problems

RANKED = ("first-fit", "best-fit", "worst-fit", "gpu-clustering", "fgd", "topology-aware")

STEPS = st.tuples(st.sampled_from(["place", "place", "leave", "undo", "settle"]), st.integers(0, 9))


class ByHand:
    """A draft, and the best node of it found by looking at each node by itself."""

    def __init__(self, problem: Problem, policy: PlacementPolicy) -> None:
        self.problem, self.policy = problem, policy
        self.draft = Draft(problem, policy)
        self.jobs: list[Job] = []

    def step(self, what: str, which: int, wanted: list[Shape]) -> None:
        """Let one job come or go, undo all since the last settling, or settle."""
        here = [job for job in self.jobs if self.draft.seats(job.name)]
        if what == "place":
            role = Role(name="r", shape=wanted[which % len(wanted)])
            name, queue = f"extra-{len(self.jobs)}", self.problem.queues[0].name
            self.jobs.append(Job(name=name, queue=queue, roles=(role,)))
            self.draft.start([self.jobs[-1]])
        elif what == "leave" and here:
            self.draft.release(here[which % len(here)])
        elif what == "undo":
            self.draft.roll_back(0)
        elif what == "settle":
            self.draft.settle()

    def kinds(self, n: int) -> frozenset[str]:
        """Kinds of work on a node, for the policy that looks at them."""
        if not self.policy.watches_kinds:
            return frozenset()
        name = self.problem.nodes[n].name
        there = [
            shape
            for job in self.problem.running
            for replica, shape in zip(job.replicas, job.shapes, strict=False)
            if replica.node == name
        ]
        seats = [seat for job in self.jobs for seat in self.draft.seats(job.name)]
        there += [role.shape for role, seat in seats if seat.node == n]
        return frozenset(kind for shape in there if (kind := work_kind(shape)))

    def best(self, wanted: Shape) -> int | None:
        """The node of the highest score, the first of them."""
        scores = {}
        for n, node in enumerate(self.problem.nodes):
            state = self.draft.board.state(n)
            if hosts(node, wanted) and takes(node, wanted, state):
                scores[n] = self.policy.score(node, state, wanted, self.kinds(n))
        return max(scores, key=lambda n: (scores[n], -n), default=None)


@given(
    problem=tiny_problems(),
    name=st.sampled_from(RANKED),
    others=st.lists(shapes(), min_size=1, max_size=3),
    steps=st.lists(STEPS, min_size=1, max_size=12),
)
def test_the_best_node_is_the_best_whatever_came_and_went(
    problem: Problem, name: str, others: list[Shape], steps: list[tuple[str, int]]
) -> None:
    hand = ByHand(problem, PLACEMENTS[name](problem, 1))
    wanted = list(dict.fromkeys([*(role.shape for _, role in problem.roles()), *others]))

    for what, which in steps:
        hand.step(what, which, wanted)
        # Only some are asked for now, so that the others have much to catch up with.
        for one in wanted[which % 2 :: 2]:
            assert hand.draft.board.best(one) == hand.best(one)


def test_random_gives_each_node_with_room_the_same_chance() -> None:
    story = Scenario(shuffle=False)
    for number in range(60):
        story.node(f"n{number}", gpus=2)
        if number % 20:  # Three nodes of sixty have room: most draws end in the list of those.
            story.running(f"busy-{number}", f"n{number}", [0])
    problem = story.job("new", gpus=2).problem()
    draft = Draft(problem, PLACEMENTS["random"](problem, 1))

    drawn = Counter(
        seat.node for _ in range(3000) if (seat := draft.board.find(shape(2), ANYWHERE))
    )

    assert set(drawn) == {0, 20, 40}
    assert sum(drawn.values()) == 3000
    # Four standard deviations of a binomial draw: sqrt(3000 * 1/3 * 2/3) is 25.8.
    assert all(abs(count - 1000) < 104 for count in drawn.values())


def test_random_finds_the_only_node_with_room_and_none_where_none_has() -> None:
    story = Scenario(shuffle=False)
    for number in range(10 * TRIES):
        story.node(f"n{number}", gpus=1)
        if number != 7:
            story.running(f"busy-{number}", f"n{number}", [0])
    problem = story.job("new", gpus=1).problem()
    draft = Draft(problem, PLACEMENTS["random"](problem, 1))

    first = draft.board.find(shape(1), ANYWHERE)
    assert first is not None
    draft.put(problem.jobs[0], problem.jobs[0].roles[0], first)

    assert first.node == 7
    assert draft.board.find(shape(1), ANYWHERE) is None
