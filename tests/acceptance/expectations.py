"""Compare an answer with what a case expects of it. Only what the case lists is checked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from solver.cluster import GPU_MILLI
from specs.models.quantity import QuantityError, cpu_milli, gpu_count, memory_bytes
from tests.acceptance.answers import Answer, answer
from tests.acceptance.effective import differences_of_requests
from tests.acceptance.explaining import (
    check_cheapest_fix,
    check_fair_share,
    check_parsed,
    per_node,
)
from tests.acceptance.geometry import differences as differences_of_geometry
from tests.acceptance.giving_way import check_final_gpus, check_victims, pods_left
from tests.acceptance.numbers import UnknownNumberError, number
from tests.acceptance.over_time import differences as differences_over_time

if TYPE_CHECKING:
    from tests.acceptance.neutral import Case

LATER = {}
"""Kinds of questions that the planner does not take yet, and what they are about."""

REASONS = {"taint-not-tolerated": "taint", "label-missing": "label"}
"""Words of cases for the planner's."""


class MismatchError(AssertionError):
    """The answer is not the one that the case expects; one line for each difference."""


class UnknownExpectationError(LookupError):
    """The case expects something whose meaning is not coded."""


def check(case: Case) -> None:
    """Ask what the case asks and compare.

    Raises
    ------
    MismatchError
        The answer differs.
    LookupError
        The case asks or expects something that is not known.
    """
    if case["ask"] == "parse":
        differences = _differences_of_parse(case)
    elif case["ask"] in ("place", "plan-preemption", "explain", "fair-share"):
        differences = _differences_of_place(case)
    elif case["ask"] == "effective-request":
        differences = differences_of_requests(case)
    elif case["ask"] == "plan-mig":
        differences = differences_of_geometry(case)
    elif case["ask"] == "simulate":
        differences = differences_over_time(case)
    else:
        raise UnknownExpectationError(f'nobody has said what to do with "ask: {case["ask"]}"')
    if differences:
        raise MismatchError("\n".join([str(case["id"]), *differences]))


# Quantities


def _differences_of_parse(case: Case) -> list[str]:
    expected = case["expect"]["values"]
    unknown = set(case["expect"]) - {"values"}
    if unknown:
        raise UnknownExpectationError(f"expect: {', '.join(sorted(unknown))}")
    return [
        f"{entry['kind']} {entry['text']!r}: is {parsed}, expected {value}"
        for entry, value in zip(case["quantities"], expected, strict=True)
        if str(parsed := parsed_quantity(entry["kind"], str(entry["text"]))) != str(value)
    ]


def parsed_quantity(kind: str, text: str) -> int | str:
    """A quantity as cases write its value: GPUs, milli-CPU with its m, bytes, or ``invalid``."""
    try:
        match kind:
            case "gpu":
                return gpu_count(text)
            case "cpu":
                return f"{cpu_milli(text)}m"
            case "mem":
                return memory_bytes(text)
    except QuantityError as error:
        return "invalid" if error.rule else "refused without a reason"
    raise UnknownExpectationError(f'nobody has said what a quantity of kind "{kind}" is')


# Plans


def _differences_of_place(case: Case) -> list[str]:
    told = answer(case)
    found: list[str] = []
    for key, expected in case["expect"].items():
        if key.startswith("left_of_"):
            left = pods_left(told, key.removeprefix("left_of_"))
            found += [] if left == expected else [f"{key}: is {left}, expected {expected}"]
        elif key in CHECKS:
            found += CHECKS[key](told, expected)
        else:
            try:
                found += _check_numbers(told, {key: expected})
            except UnknownNumberError as error:
                text = f'nobody has said what "expect: {key}" means'
                raise UnknownExpectationError(text) from error
    return found


def _check_place(told: Answer, expected: Mapping[str, list[str]]) -> list[str]:
    """Exactly these nodes if there are as many as pods, else any of them."""
    found = []
    running = {pod for pod, _, _ in told.running_pods}
    for job, nodes in expected.items():
        if job in running:
            if (node := told.goes_on(job)) not in nodes:
                found.append(f"place: {job} goes on {node or 'nowhere'}, expected {nodes}")
            continue
        on = sorted(at.node for at in told.placements(job))
        counted = job in told.case["expect"].get("placed_pods", {})
        exact = len(nodes) == told.members[job].pods
        right = on == sorted(nodes) if exact else bool(on) and set(on) <= set(nodes)
        if not exact and not counted:
            right = right and len(on) == told.members[job].pods
        if not right:
            found.append(f"place: {job} is on {on or 'no node'}, expected {nodes}")
    return found


def _check_placed_pods(told: Answer, expected: Mapping[str, int]) -> list[str]:
    return [
        f"placed_pods: {placed} of {job} start, expected {count}"
        for job, count in expected.items()
        if (placed := len(told.placements(job))) != count
    ]


def _check_devices(told: Answer, expected: Mapping[str, list[list[int]]]) -> list[str]:
    found = []
    for job, acceptable in expected.items():
        sets = [sorted(at.gpus) for at in told.placements(job)]
        if not sets:
            found.append(f"devices: {job} does not start")
        found += [
            f"devices: {job} has {gpus}, expected one of {acceptable}"
            for gpus in sets
            if gpus not in [sorted(wanted) for wanted in acceptable]
        ]
    return found


def _check_pending(told: Answer, expected: Mapping[str, Mapping[str, Any]]) -> list[str]:
    found = []
    for job, facts in expected.items():
        entry = told.pending(job)
        if entry is None:
            found.append(f"pending: {job} is not said to wait")
            continue
        if not entry.text or "\n" in entry.text:
            found.append(f"pending: {job} wants one line for people, not {entry.text!r}")
        for name, value in facts.items():
            said: object = entry.facts.get(name)
            if name == "reason":
                said, value = entry.reason, REASONS.get(value, value)
            elif name == "per_node":
                found += _check_per_node(job, per_node(told, job), value)
                continue
            elif name == "free_gpus":
                said = number("free_after", told)
            elif name == "holds":
                found += _check_holds(told, job, value)
            if not same(said, value):
                found.append(f"pending: {name} of {job} is {said!r}, expected {value!r}")
    return found


def _check_holds(told: Answer, job: str, gpus: object) -> list[str]:
    """What the plan itself gives to a job that waits, besides what is said of it."""
    held = Counter(at.job for at in told.placements(job) for _ in at.gpus)
    milli = sum(at.share_milli * len(at.gpus) for at in told.placements(job))
    if same(Fraction(milli, GPU_MILLI), gpus):
        return []
    return [f"holds: {job} is given {sum(held.values())} GPUs, expected {gpus}"]


def _check_per_node(job: str, said: object, expected: Mapping[str, Any]) -> list[str]:
    nodes = said if isinstance(said, Mapping) else {}
    return [
        f"per_node: {job} on {node} is {nodes.get(node)!r}, expected {value!r}"
        for node, value in expected.items()
        if not same(nodes.get(node), REASONS.get(value, value) if isinstance(value, str) else value)
    ]


def _check_numbers(told: Answer, expected: Mapping[str, Any]) -> list[str]:
    return [
        f"numbers: {name} is {value}, expected {wanted}"
        for name, wanted in expected.items()
        if not same(value := number(name, told), wanted)
    ]


def same(value: object, expected: object) -> bool:
    """Equal as numbers where both are (``"0.1"`` is a number too), else as they stand."""
    try:
        return Fraction(str(value)) == Fraction(str(expected))
    except ValueError:
        return value == expected


CHECKS: dict[str, Callable[[Answer, Any], list[str]]] = {
    "place": _check_place,
    "placed_pods": _check_placed_pods,
    "devices": _check_devices,
    "pending": _check_pending,
    "numbers": _check_numbers,
    "victims": check_victims,
    "final_gpus": check_final_gpus,
    "cheapest_fix": check_cheapest_fix,
    "parsed": check_parsed,
    "fair_share": check_fair_share,
}
"""Keys of ``expect`` for plans; any other key is a number by its name."""
