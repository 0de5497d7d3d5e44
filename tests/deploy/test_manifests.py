"""The manifest gives the plugin what it needs and nothing else, and its command line is right."""

from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml

from cli import app
from commands.plugin_setup import read_config_file
from plugin.config import ListStrategy, PluginConfig

ROOT = Path(__file__).parents[2]
CONFIG, DAEMONSET = yaml.safe_load_all((ROOT / "deploy" / "daemonset.yaml").read_text())
POD: dict[str, Any] = DAEMONSET["spec"]["template"]["spec"]
(CONTAINER,) = POD["containers"]


def test_the_container_has_least_privilege():
    assert CONTAINER["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert POD["automountServiceAccountToken"] is False
    assert not {"hostNetwork", "hostPID", "hostIPC", "serviceAccountName"} & set(POD)


def test_only_two_folders_of_the_host_can_be_written():
    writable = {m["name"] for m in CONTAINER["volumeMounts"] if not m.get("readOnly")}
    on_host = {v["name"]: v["hostPath"]["path"] for v in POD["volumes"] if "hostPath" in v}

    assert writable == {"device-plugins", "cdi"}
    assert set(on_host.values()) == {
        "/var/lib/kubelet/device-plugins",
        "/var/lib/kubelet/pod-resources",
        "/var/run/cdi",
    }
    for mount in CONTAINER["volumeMounts"]:
        assert on_host.get(mount["name"], mount["mountPath"]) == mount["mountPath"]


def test_its_command_line_is_one_that_we_have():
    command = typer.main.get_command(app)
    for word in CONTAINER["args"][:2]:
        command = command.commands[word]  # type: ignore[attr-defined]

    context = command.make_context("serve", list(CONTAINER["args"][2:]))

    assert context.params["http_port"] == 9400


def test_its_config_is_valid(tmp_path: Path):
    file = tmp_path / "config.yaml"
    file.write_text(CONFIG["data"]["config.yaml"])

    config = read_config_file(file, {}, PluginConfig())

    assert config.list_strategies == (ListStrategy.ENVVAR,)


def test_it_asks_for_no_mig_access_without_the_capability_that_this_takes():
    # NVIDIA's container runtime ends the start of such a container: "cannot set
    # MIG_MONITOR_DEVICES in non privileged container", and privileged is who has CAP_SYS_ADMIN.
    capable = "SYS_ADMIN" in CONTAINER["securityContext"]["capabilities"].get("add", [])

    asked = {variable["name"] for variable in CONTAINER["env"]}

    assert capable or not asked & {"NVIDIA_MIG_MONITOR_DEVICES", "NVIDIA_MIG_CONFIG_DEVICES"}


@pytest.mark.parametrize("extra", ["plugin", "nvml"])
def test_the_image_installs_extras_that_exist(extra: str):
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    assert extra in project["optional-dependencies"]
    assert "[plugin,nvml]" in (ROOT / "deploy" / "Dockerfile").read_text()
