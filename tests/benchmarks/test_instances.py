import pytest

from benchmarks.__main__ import main
from benchmarks.instances import DEMAND_RATIO, SIZES, explicit_nodes_yaml, half_occupied
from benchmarks.registry import Row, registry
from specs.compile import compile_spec
from specs.loader import parse_spec


@pytest.mark.parametrize(
    "size", [s for s in SIZES.values() if s.nodes < 2000], ids=lambda s: s.name
)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_generated_clusters_are_as_they_are_described(size, seed):
    problem = half_occupied(size, seed)

    held = sum(len(replica.gpus) for job in problem.running for replica in job.replicas)
    wanted = sum(job.replicas * job.roles[0].shape.gpus for job in problem.jobs)
    free = sum(node.n_gpus for node in problem.nodes) - held
    assert (len(problem.nodes), len(problem.jobs)) == (size.nodes, size.gangs)
    assert abs(held - free) <= 1
    assert DEMAND_RATIO[0] * free <= wanted <= DEMAND_RATIO[1] * free
    assert all(1 <= job.replicas <= 16 for job in problem.jobs)
    assert {job.roles[0].shape.gpus for job in problem.jobs} <= {1, 2, 4, 8}


def test_the_same_seed_gives_the_same_work_and_another_seed_other_work():
    first, again, other = (half_occupied(SIZES["S"], seed).jobs for seed in (1, 1, 2))

    assert first == again
    assert first != other


def test_written_out_nodes_are_a_valid_spec():
    compiled = compile_spec(parse_spec(explicit_nodes_yaml(20)))

    assert len(compiled.problem.nodes) == 20


@pytest.mark.parametrize(
    ("value", "limit", "verdict"),
    [
        (1.0, 2.0, "ok"),
        (2.0, 2.0, "ok"),
        (2.1, 2.0, "short"),
        (float("inf"), 2.0, "short"),
        (1.0, None, "info"),
        (None, 2.0, "skipped"),
    ],
)
def test_a_row_says_whether_its_stated_number_is_reached(value, limit, verdict):
    row = Row(instance="i", measure="m", value=value, unit="s", limit=limit)

    assert row.verdict == verdict


def test_a_missed_number_is_exit_code_1(monkeypatch, capsys):
    rows = [Row(instance="i", measure="m", value=3, unit="s", limit=2)]
    spine = registry()["spine"]
    missed = type(spine)(name="spine", text="", sizes=("S",), run=lambda _: iter(rows))
    monkeypatch.setattr("benchmarks.__main__.registry", lambda: {"spine": missed})

    assert main(["run", "spine"]) == 1
    assert "short" in capsys.readouterr().out


def test_the_list_names_benchmarks_and_sizes(capsys):
    assert main(["list"]) == 0

    assert "sizes: S, M" in capsys.readouterr().out
