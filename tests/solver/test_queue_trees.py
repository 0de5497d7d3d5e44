"""Guarantees, fairness and drf go level by level of the tree of queues; past use moves weights."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from solver.fair_share import Claim, Division, entitlements, water_fill
from solver.lending import loans
from solver.metrics import usage
from solver.queues import QueueTree, decayed_gpu_s, weights_now
from solver.solution import Plan
from solver.workload import Preemption, Queue
from tests.scenario import Scenario


def two_departments(web: dict[str, Any] | None = None, science: float = 0) -> Scenario:
    """Eight GPUs; science has two queues, web none below it."""
    story = Scenario().node("n", gpus=8)
    story.queue("science", quota=science).queue("web", **(web or {}))
    story.queue("physics", parent="science").queue("biology", parent="science")
    return story


def started(outcome: Any, *jobs: str) -> list[int]:
    return [len(outcome.result.plan.by_job.get(job, ())) for job in jobs]


def test_departments_share_alike_however_many_queues_they_have():
    story = two_departments()
    for queue in ("physics", "biology", "web"):
        story.job(queue[0], queue=queue, replicas=8, gang=False, gpus=1)

    assert started(story.solve(), "p", "b", "w") == [2, 2, 4]


def test_drf_goes_down_the_tree_too():
    story = two_departments()
    for queue in ("physics", "biology", "web"):
        for number in range(8):
            story.job(f"{queue[0]}{number}", queue=queue, gpus=1)

    plan = story.solve(policy="drf").result.plan

    assert [sum(name[0] == q for name in plan.by_job) for q in "pbw"] == [2, 2, 4]


def test_a_parents_quota_is_filled_by_whoever_is_below_it():
    story = Scenario().node("n", gpus=8).queue("science", quota=6).queue("web", weight=9)
    story.queue("physics", parent="science")
    story.job("p", queue="physics", replicas=8, gang=False, gpus=1)
    story.job("w", queue="web", replicas=8, gang=False, gpus=1, priority=5)

    assert started(story.solve(), "p", "w") == [6, 2]


def test_a_childs_guarantee_comes_before_what_its_sibling_wants_of_the_parents():
    story = Scenario().node("n", gpus=4).queue("science", quota=4)
    story.queue("physics", parent="science", quota=3).queue("biology", parent="science")
    story.job("b", queue="biology", replicas=4, gang=False, gpus=1, priority=9)
    story.job("p", queue="physics", replicas=4, gang=False, gpus=1)

    assert started(story.solve(), "p", "b") == [3, 1]


def a_full_house(science: float = 0, **web: Any) -> Scenario:
    """Eight GPUs, all held by `web`, work of one GPU each; science has nothing."""
    story = two_departments(web, science)
    for gpu in range(8):
        story.running(f"run-{gpu}", "n", [gpu], queue="web", priority=9)
    return story


def test_what_a_parent_is_guaranteed_is_taken_back_by_whoever_is_below_it():
    """Neither queue of science has a quota of its own."""
    for wanted, gone in ((4, 4), (5, 0)):
        story = a_full_house(quota=2, science=4)

        outcome = story.job("p", queue="physics", gpus=wanted).solve()

        assert len(outcome.result.evictions) == gone


def test_a_child_within_its_quota_takes_nothing_that_its_family_has_used_up():
    """Biology has borrowed what physics is guaranteed: that is where it comes back from."""
    story = Scenario().node("n", gpus=8).queue("science").queue("web")
    story.queue("physics", parent="science", quota=2).queue("biology", parent="science")
    for gpu in range(8):
        queue = "biology" if gpu < 2 else "web"
        preemption = Preemption(cost_gpu_s=900 if queue == "biology" else 1)
        story.running(f"{queue}-{gpu}", "n", [gpu], queue=queue, preemption=preemption)

    outcome = story.job("p", queue="physics", gpus=2).solve()

    assert sorted(e.job for e in outcome.result.evictions) == ["biology-0", "biology-1"]


def test_shares_are_compared_where_the_queues_part():
    """Science and web are peers; that web is one queue and science two makes no difference."""
    for wanted, gone in ((4, 4), (5, 0)):
        story = a_full_house().preempt_for("fair_share")

        outcome = story.job("p", queue="physics", gpus=wanted).solve()

        assert len(outcome.result.evictions) == gone


def test_past_use_moves_the_surplus_and_no_quota():
    queues = [
        Queue(name="a", weight=1, quota={"gpu_milli": 2}, past_gpu_s=100.0),
        Queue(name="b", weight=1),
    ]
    division = Division(QueueTree(queues), "gpu_milli", 1)

    # Two are guaranteed; of the other 8 (18), a has a fifth, since its weight is 1/4 to 1 now.
    assert division.divide({"a": 10, "b": 10}, 10) == {"a": 2 + 2, "b": 6}
    assert division.divide({"a": 20, "b": 20}, 20) == {"a": 2 + 4, "b": 14}


def test_the_plan_gives_more_to_who_has_used_less():
    def plan(past: float) -> list[int]:
        story = Scenario().node("n", gpus=10).queue("a", past_gpu_s=past).queue("b")
        story.job("x", queue="a", replicas=10, gang=False, gpus=1)
        story.job("y", queue="b", replicas=10, gang=False, gpus=1)
        return started(story.solve(), "x", "y")

    assert plan(0) == [5, 5]
    assert plan(3600) == [2, 8]


def test_past_use_halves_with_every_half_life():
    assert decayed_gpu_s(80, 0, 10) == 80
    assert decayed_gpu_s(80, 30, 10) == 10
    assert decayed_gpu_s(80, 1e9, 10) == 0


def test_who_has_weight_0_keeps_it_whatever_was_used():
    assert weights_now({"a": (0, 5.0), "b": (2, 0.0)}) == {"a": 0, "b": 2}


def test_where_all_have_used_their_due_nothing_changes():
    assert weights_now({"a": (1, 10.0), "b": (3, 30.0)}) == {"a": 0.5, "b": 1.5}


def test_what_an_elastic_job_may_grow_to_is_wanted():
    story = Scenario().node("n", gpus=8).queue("a").queue("b", demand=8)
    story.running("e", [("n", [0]), ("n", [1])], queue="a", min_replicas=1, wanted_replicas=6)
    table = entitlements(story.problem())

    assert table["a"]["gpu_milli"] == 4000


def test_a_family_lends_to_its_own_first():
    story = two_departments_with_quota()
    problem = story.problem()

    book = loans(problem, usage(problem, Plan()))

    assert book["physics"] == {"biology": 1000, "web": 2000}


def two_departments_with_quota() -> Scenario:
    story = Scenario().node("n", gpus=8).queue("science", quota=4).queue("web", quota=3)
    story.queue("physics", parent="science", quota=2).queue("biology", parent="science", quota=2)
    story.running("p", "n", [0, 1, 2, 3, 4], queue="physics")
    return story.running("b", "n", [5], queue="biology")


# Properties of dividing one resource in a random tree


@st.composite
def trees(draw: Any) -> tuple[list[Queue], dict[str, int], int]:
    """Queues, what each wants itself, and how much there is."""
    queues: list[Queue] = []
    for number in range(draw(st.integers(1, 7))):
        parent = draw(st.sampled_from([None, *(queue.name for queue in queues)]))
        quota = draw(st.sampled_from([None, 0, 1, 3, 6]))
        queues.append(
            Queue(
                name=f"q{number}",
                parent=parent,
                priority=draw(st.sampled_from([0, 0, 1])),
                weight=draw(st.sampled_from([0, 1, 1, 2, 5])),
                quota={} if quota is None else {"gpu_milli": quota},
                past_gpu_s=draw(st.sampled_from([0.0, 0.0, 1.0, 7.5])),
            )
        )
    wanted = {queue.name: draw(st.integers(0, 12)) for queue in queues}
    return queues, wanted, draw(st.integers(0, 30))


def pour_drop_by_drop(claims: list[Claim], amount: int) -> dict[str, Fraction]:
    """The same division from its definition, with exact fractions and no sorting by need.

    Round after round everybody who is not full is raised at a speed of his weight until the next
    one is full or nothing is left.
    """
    given = {claim.name: Fraction(0) for claim in claims}
    left = Fraction(amount)
    rounds = [
        [(c, min(c.quota, c.cap), c.quota) for c in claims if c.quota],
        [(c, c.cap, c.weight) for c in claims if c.weight],
        [(c, c.cap, 1) for c in claims if not c.weight],
    ]
    for stage in rounds:
        for priority in sorted({c.priority for c, _, _ in stage}, reverse=True):
            peers = [entry for entry in stage if entry[0].priority == priority]
            while left:
                thirsty = [(c, cap, w) for c, cap, w in peers if given[c.name] < cap]
                if not thirsty:
                    break
                speed = sum(w for _, _, w in thirsty)
                span = min(
                    left / speed, *(Fraction(cap - given[c.name]) / w for c, cap, w in thirsty)
                )
                for c, _, w in thirsty:
                    given[c.name] += span * w
                left -= span * speed
    return given


def claims_of(tree: QueueTree, head: str | None, caps: dict[str, int]) -> list[Claim]:
    return [
        Claim(
            name=m.name,
            priority=m.priority,
            weight=m.weight,
            quota=m.quota.get("gpu_milli", 0),
            cap=caps[m.name],
        )
        for m in tree.families[head]
    ]


def caps_of(tree: QueueTree, wanted: dict[str, int]) -> dict[str, int]:
    return {m.name: sum(wanted[q] for q in m.queues) for m in tree.by_name.values()}


@given(trees())
def test_every_family_divides_what_it_got_as_the_definition_says(drawn):
    queues, wanted, capacity = drawn
    tree = QueueTree(queues)
    given_ = Division(tree, "gpu_milli", 1).divide(wanted, capacity)
    caps = caps_of(tree, wanted)

    for head in tree.families:
        amount = capacity if head is None else given_[head]
        claims = claims_of(tree, head, caps)
        exact = pour_drop_by_drop(claims, amount)
        assert sum(given_[c.name] for c in claims) == min(amount, sum(c.cap for c in claims))
        # Three stages round once each: never further than whole units can be.
        assert all(abs(given_[c.name] - exact[c.name]) < 3 for c in claims)
        assert all(given_[c.name] <= c.cap for c in claims)


@given(trees())
def test_guarantees_are_honoured_at_every_level(drawn):
    queues, wanted, capacity = drawn
    tree = QueueTree(queues)
    given_ = Division(tree, "gpu_milli", 1).divide(wanted, capacity)
    caps = caps_of(tree, wanted)

    for head, members in tree.families.items():
        amount = capacity if head is None else given_[head]
        due = {m.name: min(m.quota.get("gpu_milli", 0), caps[m.name]) for m in members}
        if sum(due.values()) <= amount:
            assert all(given_[name] >= most for name, most in due.items())


@given(trees())
def test_nobody_could_get_more_without_one_with_less_getting_less(drawn):
    """Max-min of the surplus: who is not full has no less by weight, up to one unit, than peers."""
    queues, wanted, capacity = drawn
    tree = QueueTree(queues)
    given_ = Division(tree, "gpu_milli", 1).divide(wanted, capacity)
    caps = caps_of(tree, wanted)

    for members in tree.families.values():
        surplus = {
            m.name: given_[m.name] - min(m.quota.get("gpu_milli", 0), caps[m.name]) for m in members
        }
        for poor in members:
            if given_[poor.name] >= caps[poor.name] or not poor.weight:
                continue
            for rich in members:
                if rich is poor or rich.priority > poor.priority or surplus[rich.name] <= 0:
                    continue
                # The rich one has something beyond its quota, so it could give a unit of it.
                assert rich.weight
                less_one = Fraction(surplus[rich.name] - 1, rich.weight)
                assert less_one <= Fraction(surplus[poor.name] + 1, poor.weight)


@given(trees())
def test_the_top_queues_get_no_more_than_there_is(drawn):
    queues, wanted, capacity = drawn
    given_ = Division(QueueTree(queues), "gpu_milli", 1).divide(wanted, capacity)

    assert sum(given_[q.name] for q in queues if q.parent is None) <= capacity


def test_one_unit_more_or_less_is_all_that_whole_numbers_cost():
    claims = [Claim(name=n, priority=0, weight=1, quota=0, cap=9) for n in "abc"]

    assert water_fill(claims, 10) == {"a": 4, "b": 3, "c": 3}
    assert pour_drop_by_drop(claims, 10) == dict.fromkeys("abc", Fraction(10, 3))
