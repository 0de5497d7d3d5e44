import json
from pathlib import Path
from xml.etree import ElementTree

from solver.greedy import POLICIES
from tests.commands.running import unstrand

CLUSTER = """
cluster:
  name: compared
  nodes:
    - {name: n0, preset: hgx-h100, cpu: 32}
    - {name: n1, preset: hgx-h100, cpu: 64}
jobs:
  - {name: hungry, gpus: 1, cpu: 30}
  - {name: many, replicas: 14, gang: false, gpus: 1, cpu: 2}
"""


def rows(*options: object) -> list[dict]:
    done = unstrand("compare", "-", "--output", "json", *options, stdin=CLUSTER)
    assert done.code == 0, done.err
    answer = json.loads(done.out)
    assert answer["schema"] == "unstrand/compare/v1"
    return answer["rows"]


def test_every_baseline_has_a_row_and_cp_sat_the_last():
    names = [row["policy"] for row in rows()]

    assert names == [*POLICIES, "cp-sat"]


def test_the_optimum_admits_at_least_as_much_as_any_baseline():
    table = rows()

    assert table[-1]["status"] == "optimal"
    assert table[-1]["admitted_gpus"] == max(row["admitted_gpus"] for row in table)


def test_only_the_named_policies_run_in_their_order_and_spelling():
    names = [row["policy"] for row in rows("--policies", "cp-sat, drf+best-fit,first-fit")]

    assert names == ["cp-sat", "drf+best-fit", "first-fit"]


def test_the_picture_is_well_formed_and_names_every_policy(tmp_path: Path):
    picture = tmp_path / "compared.svg"

    rows("--plot", picture)

    text = picture.read_text()
    ElementTree.fromstring(text)
    assert all(f">{name}<" in text for name in (*POLICIES, "cp-sat"))


def test_the_table_marks_the_best_values():
    done = unstrand("compare", "-", "--policies", "worst-fit,cp-sat", stdin=CLUSTER)

    assert done.code == 0
    assert "*" in done.out
