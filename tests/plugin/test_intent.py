"""The one file that outlives the plugin: whole and of this boot, or not believed."""

import json
from pathlib import Path

import pytest

from plugin.intent import Intent, IntentFile

INTENT = Intent(gpu="GPU-0", destroy=(("1g.10gb", 0),), create=(("3g.40gb", 0),))


@pytest.fixture
def boot(tmp_path: Path) -> Path:
    file = tmp_path / "boot_id"
    file.write_text("one\n")
    return file


@pytest.fixture
def file(tmp_path: Path, boot: Path) -> IntentFile:
    return IntentFile(tmp_path / "state.json", boot)


def test_what_was_saved_is_loaded(file: IntentFile):
    assert file.load() is None

    file.save(INTENT)

    assert file.load() == INTENT
    file.clear()
    assert file.load() is None


def test_of_another_boot_nothing_is_left(file: IntentFile, boot: Path, tmp_path: Path):
    file.save(INTENT)
    boot.write_text("two\n")

    assert file.load() is None
    assert not (tmp_path / "state.json").exists()


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", "{}", "[" * 100_000, b"\xff\xfe", '{"version": 2}', '{"version": 1}'],
)
def test_a_file_that_is_not_whole_is_moved_aside(
    file: IntentFile, tmp_path: Path, text: str | bytes
):
    path = tmp_path / "state.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())

    assert file.load() is None

    assert not path.exists()
    assert (tmp_path / "state.json.corrupt").exists()
    file.save(INTENT)
    assert file.load() == INTENT


def test_a_changed_value_is_noticed_by_the_checksum(file: IntentFile, tmp_path: Path):
    path = tmp_path / "state.json"
    file.save(INTENT)
    path.write_text(json.dumps({**json.loads(path.read_text()), "gpu": "GPU-7"}))

    assert file.load() is None
    assert (tmp_path / "state.json.corrupt").exists()
