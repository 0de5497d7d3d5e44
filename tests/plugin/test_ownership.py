"""One plugin process per node and domain, and what it says where it cannot even try."""

import os
from pathlib import Path

import pytest

from plugin.errors import PluginError
from plugin.kubelet import Ownership


def test_a_node_without_a_kubelet_is_told_which_folder_is_wanted(tmp_path: Path):
    folder = tmp_path / "device-plugins"

    with pytest.raises(PluginError, match=r"is not there\. A kubelet makes it\. .*--kubelet-dir"):
        Ownership(folder, "nvidia.com").take()


def test_a_folder_of_somebody_else_is_named_with_who_may_not_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def refuse(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)

    with pytest.raises(PluginError, match=f"{tmp_path} may not be written by user {os.geteuid()}"):
        Ownership(tmp_path, "nvidia.com").take()
