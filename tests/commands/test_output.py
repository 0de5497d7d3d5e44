import os
from pathlib import Path

import pytest
import typer

from commands.output import check_target, write_file


def test_a_file_is_replaced_whole_and_leaves_no_draft(tmp_path: Path):
    target = tmp_path / "plan.json"
    target.write_text("old")

    write_file(target, "new")

    assert target.read_text() == "new"
    assert list(tmp_path.iterdir()) == [target]


def test_a_failed_write_leaves_the_old_file(tmp_path: Path):
    target = tmp_path / "plan.json"
    target.write_text("old")

    with pytest.raises(UnicodeEncodeError):
        write_file(target, "half \ud800")

    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_who_cannot_write_a_file_names_it_and_not_its_draft(tmp_path: Path):
    target = tmp_path / "gone" / "plan.json"

    with pytest.raises(OSError, match="name another file") as caught:
        write_file(target, "new")

    assert str(caught.value).startswith(f"{target} cannot be written: No such file")


def test_a_link_keeps_pointing_at_the_file_that_is_written(tmp_path: Path):
    real = tmp_path / "real.json"
    real.write_text("old")
    link = tmp_path / "link.json"
    link.symlink_to(real)

    write_file(link, "new")

    assert link.is_symlink()
    assert real.read_text() == "new"


def test_a_device_is_written_to_and_not_replaced():
    write_file(Path(os.devnull), "gone")

    assert not Path(os.devnull).is_file()


@pytest.mark.parametrize("name", ["missing/plan.json", "."])
def test_targets_that_cannot_be_written_are_refused_at_once(tmp_path: Path, name: str):
    with pytest.raises(typer.BadParameter):
        check_target(tmp_path / name, "--save")
