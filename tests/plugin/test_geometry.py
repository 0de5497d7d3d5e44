"""A wanted geometry: what differs, what is left alone, what happens when the driver refuses."""

import json
from pathlib import Path

import pytest

from plugin.devices.fake import FakeSource
from plugin.errors import ConfigError
from plugin.geometry import GeometryTask, changes, read_wanted
from tests.commands.running import unstrand
from topology.presets import preset

ROOT = Path(__file__).parents[2]

HALVES = [{"profile": "3g.40gb", "start": 0}, {"profile": "3g.40gb", "start": 4}]
SMALL = [{"profile": "1g.10gb", "start": start} for start in range(4)]


@pytest.fixture
def source(tmp_path: Path) -> FakeSource:
    state = tmp_path / "fake.json"
    layout = [*SMALL, {"profile": "3g.40gb", "start": 4}]
    state.write_text(json.dumps({"mig": {"0": layout}, "refuse": ["4g.40gb"]}))
    return FakeSource(preset("h100-4"), state)


def layout(source: FakeSource) -> list[tuple[str, int | None]]:
    return sorted((one.profile, one.start) for one in source.scan().gpus[0].instances)


def task(source: FakeSource, tmp_path: Path, final: list[dict[str, object]]) -> GeometryTask:
    file = tmp_path / "wanted.json"
    file.write_text(json.dumps({"gpus": [{"gpu": 0, "final": final}]}))
    return GeometryTask(source, file, tmp_path / "state.json")


def test_instances_that_fit_are_left_alone(source: FakeSource):
    (change,) = changes(source.scan(), read_wanted({"gpus": [{"gpu": 0, "final": HALVES}]}))

    assert [one.profile for one in change.destroy] == ["1g.10gb"] * 4
    assert change.create == (("3g.40gb", 0),)


def test_victims_are_told_before_they_are_destroyed(source: FakeSource, tmp_path: Path):
    work = task(source, tmp_path, HALVES)
    node = source.scan()

    retiring = work.advance(node, frozenset())

    assert retiring == {one.uuid for one in node.gpus[0].instances if one.profile == "1g.10gb"}
    assert len(layout(source)) == 5
    work.advance(source.scan(), frozenset())
    assert layout(source) == [("3g.40gb", 0), ("3g.40gb", 4)]


def test_an_instance_in_use_is_never_destroyed(source: FakeSource, tmp_path: Path):
    work = task(source, tmp_path, HALVES)
    held = frozenset({f"{source.scan().gpus[0].instances[0].uuid}::3"})

    for _ in range(5):
        work.advance(source.scan(), held)

    assert len(layout(source)) == 5
    assert "a container holds" in work.waiting[0]


def test_nothing_is_destroyed_where_the_kubelet_does_not_tell(source: FakeSource, tmp_path: Path):
    work = task(source, tmp_path, HALVES)

    for _ in range(3):
        work.advance(source.scan(), None)

    assert len(layout(source)) == 5
    assert "does not tell" in work.waiting[0]


def test_a_refused_instance_brings_the_former_layout_back(source: FakeSource, tmp_path: Path):
    before = layout(source)
    work = task(source, tmp_path, [{"profile": "4g.40gb", "start": 0}])

    for _ in range(4):
        work.advance(source.scan(), frozenset())

    assert layout(source) == before
    assert not work.busy
    assert not (tmp_path / "state.json").exists()


def test_c28_a_layout_that_no_driver_makes_is_refused_before_anything_is_destroyed(
    source: FakeSource, tmp_path: Path
):
    before = layout(source)
    work = task(source, tmp_path, [{"profile": "3g.40gb", "start": s} for s in (0, 3)])

    for _ in range(3):
        assert work.advance(source.scan(), frozenset()) == frozenset()

    assert layout(source) == before


def test_the_answer_of_mig_plan_is_what_is_read(tmp_path: Path):
    """The shipped spec, planned and applied: the node ends with the geometry of the plan."""
    done = unstrand("mig", "plan", ROOT / "specs" / "mig.yaml", "-o", "json", "--workers", "1")
    report = json.loads(done.out)
    ours = [gpu for gpu in report["gpus"] if gpu["node"] == "h100-0"]
    state, file = tmp_path / "fake.json", tmp_path / "plan.json"
    new = {(one["profile"], one["start"]) for gpu in ours for one in gpu["create"]}
    before = {
        str(gpu["gpu"]): [
            *gpu["destroy"],
            *(i for i in gpu["final"] if (i["profile"], i["start"]) not in new),
        ]
        for gpu in ours
    }
    state.write_text(json.dumps({"mig": before}))
    file.write_text(done.out)
    source = FakeSource(preset("hgx-h100"), state)
    work = GeometryTask(source, file, tmp_path / "state.json", "h100-0")

    for _ in range(3):
        work.advance(source.scan(), frozenset())

    gpus = source.scan().gpus
    for gpu in ours:
        there = {(one.profile, one.start) for one in gpus[gpu["gpu"]].instances}
        assert there == {(one["profile"], one["start"]) for one in gpu["final"]}


def test_a_gpu_with_mig_off_is_not_touched(source: FakeSource, tmp_path: Path):
    (tmp_path / "wanted.json").write_text(json.dumps({"gpus": [{"gpu": 2, "final": HALVES}]}))
    work = GeometryTask(source, tmp_path / "wanted.json", tmp_path / "state.json")

    work.advance(source.scan(), frozenset())

    assert "MIG is off" in work.waiting[2]


def test_a_file_that_is_wrong_changes_nothing(source: FakeSource, tmp_path: Path):
    (tmp_path / "wanted.json").write_text("{")
    work = GeometryTask(source, tmp_path / "wanted.json", tmp_path / "state.json")

    assert work.advance(source.scan(), frozenset()) == frozenset()
    assert len(layout(source)) == 5


@pytest.mark.parametrize("data", [[], {}, {"gpus": [{"gpu": 0}]}, {"gpus": ["x"]}])
def test_a_document_of_another_form_is_refused(data: object):
    with pytest.raises(ConfigError):
        read_wanted(data)


def test_entries_for_other_nodes_are_left_out():
    final = [{"profile": "7g.80gb", "start": 0}]
    data = {"gpus": [{"node": n, "gpu": 0, "final": final} for n in ("a", "b")]}

    assert len(read_wanted(data, "a")) == 1
