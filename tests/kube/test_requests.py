"""Effective requests: by hand, and against the libraries that the scheduler itself uses (Go)."""

from __future__ import annotations

import json
import shutil
import subprocess
from math import ceil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kube.requests import pod_requests
from specs.importers.fields import Fields, ObjectFault, Place
from specs.models.quantity import QuantityError, parse_quantity

PROGRAM = Path(__file__).parent / "scheduler"


def milli(spec, status=None):
    """Effective requests in thousandths, rounded up."""
    place = Place("f", 1)
    given_status = None if status is None else Fields(status, place, "status")
    found = pod_requests(Fields(spec, place, "spec"), given_status)
    return {name: ceil(amount * 1000) for name, amount in found.items()}


def container(name="c", sidecar=False, limits=None, **requests):
    resources = {"requests": requests} if requests else {}
    if limits:
        resources["limits"] = limits
    return {"name": name, "resources": resources} | ({"restartPolicy": "Always"} if sidecar else {})


def test_init_containers_run_before_and_count_only_where_they_need_more():
    spec = {
        "initContainers": [container(cpu="3"), container(cpu="1")],
        "containers": [container(cpu="2")],
    }

    assert milli(spec) == {"cpu": 3000}


def test_overhead_comes_on_top():
    assert milli({"containers": [container(cpu="1")], "overhead": {"cpu": "250m"}}) == {"cpu": 1250}


def test_pod_level_requests_replace_those_of_containers_for_cpu_and_memory_only():
    spec = {
        "containers": [container(cpu="1", memory="1", **{"nvidia.com/gpu": "2"})],
        "resources": {"requests": {"cpu": "4", "nvidia.com/gpu": "9"}},
    }

    assert milli(spec) == {"cpu": 4000, "memory": 1000, "nvidia.com/gpu": 2000}


def test_a_resize_in_place_counts_with_the_largest_of_wanted_and_actual():
    spec = {"containers": [container(cpu="1")]}
    status = {"containerStatuses": [{"name": "c", "resources": {"requests": {"cpu": "3"}}}]}
    never = [{"type": "PodResizePending", "reason": "Infeasible", "status": "True"}]

    assert milli(spec, status) == {"cpu": 3000}
    assert milli({"containers": [container(cpu="9")]}, {**status, "conditions": never}) == {
        "cpu": 3000
    }


def test_amounts_that_are_none_are_refused_with_their_place():
    with pytest.raises(ObjectFault, match=r"spec.containers\[0\].resources.requests.cpu"):
        milli({"containers": [container(cpu="-1")]})


# Against the real thing

QUANTITIES = st.one_of(
    st.integers(0, 10**6).map(str),
    st.builds("{}{}".format, st.integers(0, 9999), st.sampled_from("mkMG")),
    st.builds("{}{}i".format, st.integers(0, 999), st.sampled_from("KMG")),
    st.builds("{}.{}".format, st.integers(0, 99), st.integers(0, 999)),
    st.builds("{}e{}".format, st.integers(0, 99), st.integers(0, 6)),
)
NAMES = st.sampled_from(["cpu", "memory", "nvidia.com/gpu", "hugepages-2Mi", "example.com/x"])
TABLES = st.dictionaries(NAMES, QUANTITIES, max_size=3)
RESOURCES = st.fixed_dictionaries({}, optional={"requests": TABLES, "limits": TABLES})


@st.composite
def pods(draw):
    """Pods with every feature that bears on requests; a status for some of the containers."""

    def containers(name, most):
        found = []
        for i in range(draw(st.integers(0, most))):
            entry = {"name": f"{name}{i}", "resources": draw(RESOURCES)}
            if name == "init" and draw(st.booleans()):
                entry["restartPolicy"] = "Always"
            found.append(entry)
        return found

    spec = {"containers": containers("main", 3), "initContainers": containers("init", 4)}
    if draw(st.booleans()):
        spec["overhead"] = draw(TABLES)
    if draw(st.booleans()):
        spec["resources"] = draw(RESOURCES)
    status = {"conditions": []}
    for key, of in (
        ("containerStatuses", "containers"),
        ("initContainerStatuses", "initContainers"),
    ):
        status[key] = [
            {
                "name": entry["name"],
                "resources": draw(RESOURCES),
                "allocatedResources": draw(TABLES),
            }
            for entry in spec[of]
            if draw(st.booleans())
        ]
    if draw(st.booleans()):
        reason = draw(st.sampled_from(["Infeasible", "Deferred"]))
        status["conditions"].append({"type": "PodResizePending", "reason": reason})
    return {"spec": spec, "status": status}


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory):
    """Asks the Go program, which runs on."""
    if shutil.which("go") is None:
        pytest.skip("Go is not installed: nothing to compare with")
    program = tmp_path_factory.mktemp("go") / "scheduler"
    built = subprocess.run(
        ["go", "build", "-o", str(program), "."],
        cwd=PROGRAM,
        capture_output=True,
        text=True,
        check=False,
    )
    if built.returncode:
        pytest.skip(f"the Go program does not build here: {built.stderr.strip()[-200:]}")

    pipe = subprocess.PIPE
    with subprocess.Popen([program], stdin=pipe, stdout=pipe, text=True, bufsize=1) as running:
        assert running.stdin
        assert running.stdout

        def ask(question):
            running.stdin.write(json.dumps(question) + "\n")
            return json.loads(running.stdout.readline())

        yield ask


@pytest.mark.slow
@pytest.mark.parametrize("running", [False, True])
def test_requests_are_those_that_the_scheduler_computes(scheduler, running):
    @settings(max_examples=400)
    @given(pods())
    def compare(pod):
        answer = scheduler({"pod": pod, "status": running})
        assert "error" not in answer
        told = answer.get("milli", {})
        found = milli(pod["spec"], pod["status"] if running else None)
        assert {k: v for k, v in found.items() if v} == {k: v for k, v in told.items() if v}

    compare()


@pytest.mark.slow
def test_quantities_have_the_value_that_the_api_gives_them(scheduler):
    texts = st.one_of(
        QUANTITIES,
        st.text("0123456789.eE+-mkKMGi ", max_size=6),
        st.builds("{}{}".format, QUANTITIES, st.sampled_from(["", "i", "b", "E", "e3", "n", "u"])),
    )

    @settings(max_examples=1000)
    @given(texts)
    def compare(text):
        answer = scheduler({"quantity": text})
        try:
            amount = parse_quantity(text)
        except QuantityError:
            # Negative amounts are quantities, but none of anything that is counted here.
            assert "error" in answer or answer["value"] <= 0
            return
        assert "error" not in answer
        if amount < 2**60 and amount * 10**9 == int(amount * 10**9):
            assert ceil(amount) == answer["value"]
            if amount < 2**50:
                assert ceil(amount * 1000) == answer["milli"][""]

    compare()
