"""The specs that are shipped are sound, and do what their first comment promises."""

import pytest

from solver.api import solve
from solver.options import SolveOptions
from specs.compile import compile_spec
from specs.loader import load_spec
from tests.specs.reading import SPECS

SHIPPED = sorted(SPECS.glob("*.yaml"))


def problem_of(name: str):
    return compile_spec(load_spec(SPECS / f"{name}.yaml")).problem


def solved(name: str, policy: str = "cp-sat"):
    return solve(problem_of(name), SolveOptions(time_limit_s=60, workers=1), policy)


def reasons(result) -> dict[str, str]:
    return {waiting.job: waiting.reason for waiting in result.pending}


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_a_shipped_spec_is_sound_and_says_what_to_look_for(path):
    compiled = compile_spec(load_spec(path))

    assert compiled.problem.nodes
    comment = [line for line in path.read_text().splitlines()[1:12] if line.startswith("#")]
    verbs = ("python cli.py solve", "compare", "python cli.py simulate")
    assert any(verb in line for line in comment for verb in verbs)
    assert any("Look at" in line for line in path.read_text().splitlines() if line[:1] == "#")


def test_the_tour_has_enough_of_everything():
    problem = problem_of("cluster")

    assert len(problem.nodes) >= 40
    assert len(problem.jobs) >= 20
    assert len(problem.running) >= 3
    assert [queue.weight for queue in problem.queues] == [2, 1]
    assert all(queue.quota for queue in problem.queues)
    assert {"h100-rack-0", "h100-rack-1"} <= {node.location.get("rack") for node in problem.nodes}


def test_in_stranding_the_optimum_beats_best_fit_and_best_fit_beats_first_fit():
    stranded = {
        policy: solved("stranding", policy).metrics.stranded_gpus
        for policy in ("first-fit", "best-fit", "cp-sat")
    }

    assert stranded["cp-sat"] < stranded["best-fit"] < stranded["first-fit"]


@pytest.mark.parametrize("policy", ["first-fit", "best-fit", "cp-sat"])
def test_in_stranding_every_policy_starts_every_job(policy):
    assert solved("stranding", policy).pending == ()


def test_twelve_gpus_are_free_and_eight_are_wanted_in_vain():
    result = solved("twelve-free-eight-wanted")

    assert reasons(result) == {"pretrain": "gpu-fragmented"}
    assert result.metrics.free_gpus == 12
    assert result.metrics.stranded_by_shape["8 GPU / 120 CPU / 1024 GiB"] == 12


def test_on_the_starved_nodes_the_cpu_is_what_is_missing():
    result = solved("cpu-starved")

    assert reasons(result) == {"finetune": "cpu-short"}
    causes = result.metrics.stranded_by_cause
    assert max(causes, key=causes.get) == "cpu"


def test_a_gang_wider_than_a_domain_waits_and_the_others_stay_in_theirs():
    problem = problem_of("nvl72")
    result = solved("nvl72")

    assert reasons(result) == {"moe-20": "no-domain-big-enough"}
    for job in ("moe-16", "rl-12"):
        domains = {
            problem.node_by_name[placement.node].location["domain"]
            for placement in result.plan.placements
            if placement.job == job
        }
        assert len(domains) == 1
