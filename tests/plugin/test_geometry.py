"""A wanted geometry: what differs, what is left alone, what happens when the driver refuses."""

import json
from pathlib import Path

import pytest

from plugin.devices.base import GeometryError
from plugin.devices.fake import FakeSource
from plugin.errors import ConfigError
from plugin.geometry import GeometryTask
from plugin.wanted import changes, read_wanted
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

    retiring = work.advance(node, {})

    assert retiring == {one.uuid for one in node.gpus[0].instances if one.profile == "1g.10gb"}
    assert len(layout(source)) == 5
    work.advance(source.scan(), {})
    assert layout(source) == [("3g.40gb", 0), ("3g.40gb", 4)]


def test_an_instance_in_use_is_never_destroyed(source: FakeSource, tmp_path: Path):
    work = task(source, tmp_path, HALVES)
    held = {f"{source.scan().gpus[0].instances[0].uuid}::3": "team/train-0"}

    for _ in range(5):
        work.advance(source.scan(), held)

    assert len(layout(source)) == 5
    assert "pod team/train-0 holds 1g.10gb at 0 (MIG-" in work.waiting[0]


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
        work.advance(source.scan(), {})

    assert layout(source) == before
    assert not work.busy
    assert not (tmp_path / "state.json").exists()


def test_c28_a_layout_that_no_driver_makes_is_refused_before_anything_is_destroyed(
    source: FakeSource, tmp_path: Path
):
    before = layout(source)
    work = task(source, tmp_path, [{"profile": "3g.40gb", "start": s} for s in (0, 3)])

    for _ in range(3):
        assert work.advance(source.scan(), {}) == frozenset()

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
        work.advance(source.scan(), {})

    gpus = source.scan().gpus
    for gpu in ours:
        there = {(one.profile, one.start) for one in gpus[gpu["gpu"]].instances}
        assert there == {(one["profile"], one["start"]) for one in gpu["final"]}


def test_a_gpu_with_mig_off_is_not_touched(source: FakeSource, tmp_path: Path):
    (tmp_path / "wanted.json").write_text(json.dumps({"gpus": [{"gpu": 2, "final": HALVES}]}))
    work = GeometryTask(source, tmp_path / "wanted.json", tmp_path / "state.json")

    work.advance(source.scan(), {})

    assert "MIG is off" in work.waiting[2]


def test_a_file_that_is_wrong_changes_nothing(source: FakeSource, tmp_path: Path):
    (tmp_path / "wanted.json").write_text("{")
    work = GeometryTask(source, tmp_path / "wanted.json", tmp_path / "state.json")

    assert work.advance(source.scan(), {}) == frozenset()
    assert len(layout(source)) == 5


@pytest.mark.parametrize("data", [[], {}, {"gpus": [{"gpu": 0}]}, {"gpus": ["x"]}])
def test_a_document_of_another_form_is_refused(data: object):
    with pytest.raises(ConfigError):
        read_wanted(data)


def test_a_process_in_the_way_is_named(source: FakeSource, tmp_path: Path):
    state = tmp_path / "fake.json"
    running = [{"gpu": 0, "gi": 2, "pid": 4711, "name": "python3"}]
    state.write_text(json.dumps({**json.loads(state.read_text()), "processes": running}))
    work = task(source, tmp_path, HALVES)

    for _ in range(3):
        work.advance(source.scan(), {})

    assert len(layout(source)) == 5
    (remark,) = work.remarks
    assert remark.startswith("geometry: GPU 0 waits: PID 4711 (python3) runs in 1g.10gb at 1 (MIG-")
    state.write_text(json.dumps({**json.loads(state.read_text()), "processes": []}))
    source.scan()
    work.advance(source.scan(), {})
    assert layout(source) == [("3g.40gb", 0), ("3g.40gb", 4)]
    assert not list(work.remarks)


def test_where_the_driver_does_not_tell_what_runs_nothing_is_destroyed(
    source: FakeSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def forbidden(*_: object) -> tuple[()]:
        raise GeometryError("Insufficient Permissions")

    monkeypatch.setattr(source, "processes", forbidden)
    work = task(source, tmp_path, HALVES)

    for _ in range(3):
        work.advance(source.scan(), {})

    assert len(layout(source)) == 5
    assert "nobody can tell what runs" in work.waiting[0]


class KilledError(BaseException):
    """The end of the process."""


def begin_and_die(source: FakeSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Destroy what has to go, and end before anything is made."""

    def die(*_: object) -> int:
        raise KilledError

    work = task(source, tmp_path, HALVES)
    work.advance(source.scan(), {})
    with monkeypatch.context() as patch:
        patch.setattr(source, "create", die)
        with pytest.raises(KilledError):
            work.advance(source.scan(), {})
    assert layout(source) == [("3g.40gb", 4)]


def test_a_change_that_was_cut_short_is_finished_by_the_next_start(
    source: FakeSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    begin_and_die(source, tmp_path, monkeypatch)
    work = task(source, tmp_path, HALVES)

    work.advance(source.scan(), {})

    assert layout(source) == [("3g.40gb", 0), ("3g.40gb", 4)]
    assert not (tmp_path / "state.json").exists()


def test_a_change_that_was_cut_short_and_then_fails_is_undone(
    source: FakeSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    before = layout(source)
    begin_and_die(source, tmp_path, monkeypatch)
    work = task(source, tmp_path, [{"profile": "4g.40gb", "start": 0}, HALVES[1]])

    work.advance(source.scan(), {})

    assert layout(source) == before
    assert "the former layout was put back" in work.refused[0]


def test_a_change_that_was_cut_short_and_is_not_wanted_any_more_is_undone(
    source: FakeSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    before = layout(source)
    begin_and_die(source, tmp_path, monkeypatch)
    (tmp_path / "wanted.json").unlink()
    work = GeometryTask(source, tmp_path / "wanted.json", tmp_path / "state.json")

    work.advance(source.scan(), {})

    assert layout(source) == before
    assert "No such file" in next(iter(work.remarks))


def test_an_intent_that_cannot_be_written_keeps_the_layout(source: FakeSource, tmp_path: Path):
    (tmp_path / "wanted.json").write_text(json.dumps({"gpus": [{"gpu": 0, "final": HALVES}]}))
    work = GeometryTask(source, tmp_path / "wanted.json", tmp_path / "absent" / "state.json")

    for _ in range(3):
        work.advance(source.scan(), {})

    assert len(layout(source)) == 5
    assert "cannot be written down" in work.waiting[0]


def test_a_gpu_that_the_node_lacks_is_said(source: FakeSource, tmp_path: Path):
    (tmp_path / "wanted.json").write_text(json.dumps({"gpus": [{"gpu": 9, "final": HALVES}]}))
    work = GeometryTask(source, tmp_path / "wanted.json", tmp_path / "state.json")

    work.advance(source.scan(), {})

    assert list(work.remarks) == ["geometry: this node has no GPU 9"]


def test_a_file_without_this_node_is_said(source: FakeSource, tmp_path: Path):
    entries = [{"node": "a", "gpu": 0, "final": HALVES}]
    (tmp_path / "wanted.json").write_text(json.dumps({"gpus": entries}))
    work = GeometryTask(source, tmp_path / "wanted.json", tmp_path / "state.json", "b")

    work.advance(source.scan(), {})

    assert "has no GPU of node b" in next(iter(work.remarks))


@pytest.mark.parametrize("gpu", [0, 1])
def test_gpus_of_two_nodes_are_refused_without_the_name_of_this_node(gpu: int):
    data = {
        "gpus": [
            {"node": "a", "gpu": 0, "final": HALVES},
            {"node": "b", "gpu": gpu, "final": HALVES},
        ]
    }

    with pytest.raises(ConfigError, match=r"GPUs of 2 nodes: a, b.*--node-name"):
        read_wanted(data)


def test_entries_for_other_nodes_are_left_out():
    final = [{"profile": "7g.80gb", "start": 0}]
    data = {"gpus": [{"node": n, "gpu": 0, "final": final} for n in ("a", "b")]}

    assert len(read_wanted(data, "a")) == 1
