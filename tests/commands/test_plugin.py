"""``plugin``: what an operator sees of it before and while it runs."""

import json
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.commands.running import unstrand

ROOT = Path(__file__).parents[2]


def test_the_walk_through_ends_with_every_step():
    done = unstrand("plugin", "serve", "--fake", "hgx-h100", "--mock-kubelet")

    assert done.code == 0, done.err
    steps = [line for line in done.out.splitlines() if line[0].isdigit()]
    assert [line[0] for line in steps] == list("1234567")
    assert "2. the node has 8 allocatable nvidia.com/gpu" in done.out
    assert done.out.count("first sees NVIDIA_VISIBLE_DEVICES=GPU-") == 1


def test_one_gpu_becomes_four_units_and_the_caveat_is_printed():
    config = ROOT / "docs" / "examples" / "time-slicing.yaml"

    done = unstrand("plugin", "devices", "--fake", "l4", "--config-file", config, "-o", "json")

    report = json.loads(done.out)
    assert report["schema"] == "unstrand/plugin-devices/v1"
    assert [one["allocatable"] for one in report["resources"]] == [4 * report["gpus"]]
    assert "does not divide memory" in done.err


def test_options_reach_any_key_of_the_config():
    done = unstrand("plugin", "devices", "--fake", "l4", "--set", "flags.migStrategie=none")

    assert done.code == 3
    assert 'flags.migStrategie: unknown key. Did you mean "migStrategy"?' in done.err


def test_a_setting_without_a_value_is_a_mistake_of_usage():
    assert unstrand("plugin", "devices", "--fake", "l4", "--set", "flags").code == 2


def test_a_setting_below_a_plain_value_replaces_it():
    over = ("--set", "flags.plugin=1", "--set", "flags.plugin.passDeviceSpecs=true")

    assert unstrand("plugin", "devices", "--fake", "l4", *over).code == 0


@pytest.mark.parametrize("domain", ["BAD DOMAIN", "a/b", "kubernetes.io", "", "a" * 70])
def test_a_domain_that_no_kubelet_takes_is_a_mistake_of_usage(domain: str):
    done = unstrand("plugin", "serve", "--fake", "l4", "--mock-kubelet", "--domain", domain)

    assert done.code == 2
    assert "--domain" in done.err


def test_a_state_file_is_checked_before_it_is_used(tmp_path: Path):
    state = tmp_path / "state.json"
    state.write_text('{"lost": 3}')
    fake = ("--fake", "t4", "--fake-state", state)

    wrong = unstrand("plugin", "devices", *fake)
    state.unlink()
    absent = unstrand("plugin", "devices", *fake)
    without = unstrand("plugin", "devices", "--fake-state", state)

    assert (wrong.code, absent.code, without.code) == (3, 3, 2)
    assert "lost: a list of GPU numbers is wanted here" in wrong.err
    assert "No such file" in absent.err
    assert "--fake names them" in without.err


def test_without_its_packages_the_way_out_is_said(monkeypatch: pytest.MonkeyPatch):
    import importlib.util

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)

    done = unstrand("plugin", "serve", "--fake", "l4")

    assert done.code == 2
    assert "pip install 'unstrand[plugin]'" in done.err


@pytest.mark.parametrize(("content", "said"), [("{", "not JSON"), ("[]", "an object is wanted")])
def test_faults_of_fake_gpus_that_cannot_be_read_are_no_healthy_gpus(tmp_path, content, said):
    file = tmp_path / "state.json"
    file.write_text(content)

    done = unstrand("plugin", "devices", "--fake", "l4", "--fake-state", file)

    assert done.code == 3
    assert f"{file}: {said}" in done.err
    assert done.out == ""


def test_an_empty_config_is_told_how_a_config_begins(tmp_path: Path):
    file = tmp_path / "config.yaml"
    file.touch()

    done = unstrand("plugin", "validate", file)

    assert done.code == 3
    assert "A config begins with version: v1" in done.err


def test_a_missing_file_is_told_of_its_kind_only(tmp_path: Path):
    (tmp_path / "config.json").touch()

    done = unstrand("plugin", "validate", tmp_path / "config.yaml")

    assert done.code == 3
    assert "There are no .yaml files there" in done.err


def test_the_other_spelling_of_yaml_is_thought_of(tmp_path: Path):
    (tmp_path / "config.yaml").touch()

    done = unstrand("plugin", "validate", tmp_path / "config.yml")

    assert 'Did you mean "config.yaml"?' in done.err


def test_a_port_in_use_is_named_with_its_option(port: int):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
        taken.listen()

        done = unstrand("plugin", "serve", "--fake", "l4", "--http-port", port)

    assert done.code == 3
    said = f"--http-port: 127.0.0.1:{port} cannot be served: address already in use"
    assert said in done.err


def test_an_unknown_preset_is_bad_input():
    done = unstrand("plugin", "devices", "--fake", "hgx-h1000")

    assert done.code == 3
    assert "hgx-h100" in done.err


def test_c17_validate_names_the_key_and_its_place(tmp_path: Path):
    file = tmp_path / "config.yaml"
    file.write_text("version: v1\nflags:\n  renameByDefault: true\n")

    done = unstrand("plugin", "validate", file)

    assert done.code == 3
    assert f"{file}:3:3: flags.renameByDefault: unknown key. It belongs under" in done.err


def test_validate_says_what_a_good_file_means():
    done = unstrand("plugin", "validate", ROOT / "docs" / "examples" / "time-slicing.yaml")

    assert done.code == 0
    assert "valid; MIG strategy none, shared: gpu x 4" in done.out


def test_labels_go_to_a_file_whole(tmp_path: Path):
    target = tmp_path / "gfd"

    done = unstrand("plugin", "labels", "--fake", "hgx-h100", "--save", target)

    assert done.code == 0
    lines = target.read_text().splitlines()
    assert "nvidia.com/gpu.count=8" in lines
    assert lines == sorted(lines)
    assert [path.name for path in tmp_path.iterdir()] == ["gfd"]


@pytest.fixture
def port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def test_a_process_tells_why_it_is_not_ready_and_ends_on_sigterm(port: int):
    with tempfile.TemporaryDirectory(prefix="u", dir="/tmp") as folder:
        root = Path(folder)
        (root / "device-plugins").mkdir()
        process = subprocess.Popen(
            [
                *(sys.executable, "cli.py", "plugin", "serve", "--fake", "l4"),
                *("--kubelet-dir", folder, "--http-port", str(port)),
            ],
            cwd=ROOT,
            stderr=subprocess.DEVNULL,
        )
        status, text = 0, ""
        until = time.monotonic() + 15
        while "kubelet.sock is not there" not in text and time.monotonic() < until:
            time.sleep(0.05)
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=2)
            except urllib.error.HTTPError as error:
                status, text = error.code, error.read().decode()
            except OSError:
                continue
        process.send_signal(signal.SIGTERM)

        assert process.wait(10) == 0
        assert status == 503
        assert "kubelet.sock is not there" in text
        assert list((root / "device-plugins").glob("*.sock")) == []


def test_c22_devices_says_what_the_container_runtime_lets_containers_take():
    file = ROOT / "docs" / "examples" / "container-runtime.toml"

    done = unstrand("plugin", "devices", "--fake", "l4", "--runtime-config", file, "-o", "json")

    runtime = json.loads(done.out)["runtime"]
    assert (runtime["environment"], runtime["mounts"], runtime["trouble"]) == (True, False, None)
    assert "note: containers without a request see the GPUs" in done.err
