"""Prices are made anew when what comes is not what they were made for, and only then."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from solver.cluster import Node
from solver.fragmentation import TargetWorkload
from solver.greedy.bid_price import BidPrice, bid_price_policy
from solver.greedy.board import Board
from solver.greedy.scoring import ANYWHERE, PlacementPolicy, Score
from solver.prices.observed import FEWEST, Observed
from solver.state import NodeState, initial_states
from solver.workload import Job, Role, Shape
from tests.scenario import Scenario as Story


def gpu_milli(shape: Shape) -> int:
    return shape.share_milli or 1000 * shape.gpus


SMALL, HALF, WHOLE = Shape(share_milli=100), Shape(share_milli=500), Shape(gpus=1)


def test_what_was_expected_is_no_drift() -> None:
    seen = Observed(1000, [(SMALL, 3), (WHOLE, 1)], gpu_milli)

    heard = [
        seen.hear(shape, 1, n) for n in range(FEWEST) for shape in (SMALL, SMALL, SMALL, WHOLE)
    ]

    assert not any(heard)
    assert seen.drift < 0.01


def test_another_mix_is_noticed_as_soon_as_enough_of_it_has_come() -> None:
    seen = Observed(10_000, [(SMALL, 1)], gpu_milli)

    heard = [seen.hear(HALF, 1, n) for n in range(2 * FEWEST)]

    assert heard.index(True) == FEWEST - 1
    assert seen.renew() == ((HALF, heard.index(True) + 1 + FEWEST),)
    assert seen.drift == 0


def test_what_came_before_the_window_is_forgotten() -> None:
    seen = Observed(1000, [(SMALL, 1)], gpu_milli)
    for n in range(FEWEST):
        seen.hear(HALF, 1, n)
    for n in range(1000):
        seen.hear(SMALL, 1, 5000 + n)

    assert seen.renew() == ((SMALL, 1000),)


@given(
    st.lists(st.sampled_from([SMALL, HALF, WHOLE]), min_size=1),
    st.lists(st.sampled_from([SMALL, HALF, WHOLE]), min_size=1),
)
def test_drift_is_the_part_of_the_gpus_that_others_would_have_to_ask_for(
    expected: list[Shape], come: list[Shape]
) -> None:
    seen = Observed(10, [(shape, 1) for shape in expected], gpu_milli)
    for shape in come:
        seen.hear(shape, 1, 0)

    def part(shape: Shape, of: list[Shape]) -> float:
        return of.count(shape) * gpu_milli(shape) / sum(map(gpu_milli, of))

    kept = sum(min(part(shape, expected), part(shape, come)) for shape in (SMALL, HALF, WHOLE))
    assert abs(seen.drift - (1 - kept)) < 1e-9


def test_prices_of_what_comes_now_take_the_place_of_the_old_ones() -> None:
    story = Story().node("large", gpus=8, cpu=64).node("small", gpus=8, cpu=16)
    problem = story.job("j", gpus=1).problem()
    expected, comes = [(Shape(gpus=8, cpu_milli=8000), 1)], Shape(gpus=1, cpu_milli=4000)
    policy = bid_price_policy(
        problem, expected, TargetWorkload(expected), "bid-price-cheap", window_ms=10_000
    )
    job = Job(name="j", roles=(Role(name="w", shape=comes),))
    states = initial_states(problem)

    def scores(judge: BidPrice) -> list[Score]:
        none: frozenset[str] = frozenset()
        return [judge.score(n, states[n.name], comes, none) for n in problem.nodes]

    before = scores(policy)
    for n in range(FEWEST):
        policy.hear(job, n)

    coming = [(comes, FEWEST)]
    fresh = bid_price_policy(problem, coming, TargetWorkload(coming), "bid-price-cheap")
    assert policy.edition == 1
    assert scores(policy) == scores(fresh) != before


class Fickle(PlacementPolicy):
    """Likes the first node best, or the last one."""

    likes_last = False

    def score(self, node: Node, state: NodeState, shape: Shape, kinds: frozenset[str]) -> Score:
        """By name."""
        number = float(node.name[1:])
        return (number if self.likes_last else -number,)


def test_a_board_asks_again_when_its_policy_has_changed_its_mind() -> None:
    story = Story().node("n1", gpus=4, cpu=8).node("n2", gpus=4, cpu=9)
    policy = Fickle()
    board = Board(story.job("j", gpus=1).problem(), policy)
    names = [node.name for node in board.nodes]

    def choice() -> str:
        seat = board.find(WHOLE, ANYWHERE)
        assert seat is not None
        return names[seat.node]

    assert choice() == "n1"
    policy.likes_last = True
    assert choice() == "n1"
    policy.edition += 1
    assert choice() == "n2"
