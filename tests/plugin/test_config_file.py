"""NVIDIA's v1 files load unchanged; a key that nobody reads is a fault that names it."""

from pathlib import Path

import pytest

from commands.plugin_setup import file_stamp, read_config_file
from plugin.config import ListStrategy, MigStrategy, PluginConfig, Sharing
from plugin.config_file import ConfigErrors, read_config
from specs.errors import SpecErrors

FULL = """\
version: v1
flags:
  migStrategy: mixed
  failOnInitError: true
  nvidiaDriverRoot: /run/nvidia/driver
  gdsEnabled: false
  deviceDiscoveryStrategy: auto
  plugin:
    passDeviceSpecs: true
    deviceListStrategy: [envvar, cdi-cri]
    deviceIDStrategy: uuid
    cdiAnnotationPrefix: cdi.k8s.io/
    nvidiaCTKPath: /usr/bin/nvidia-ctk
    containerDriverRoot: /driver-root
  gfd:
    oneshot: false
    noTimestamp: true
    sleepInterval: 1m30s
    outputFile: /etc/kubernetes/node-feature-discovery/features.d/gfd
resources:
  gpus: [{pattern: "*", name: gpu}]
sharing:
  timeSlicing:
    renameByDefault: true
    failRequestsGreaterThanOne: true
    resources:
      - {name: nvidia.com/gpu, replicas: 4}
      - {name: mig-1g.10gb, replicas: 2, devices: all}
imex: {channelIDs: [0], required: false}
"""


def test_7_6_a_full_file_of_nvidia_s_plugin_loads_unchanged(tmp_path: Path):
    file = tmp_path / "config.yaml"
    file.write_text(FULL)

    config = read_config_file(file, {}, PluginConfig())

    assert config.mig_strategy is MigStrategy.MIXED
    assert config.list_strategies == (ListStrategy.ENVVAR, ListStrategy.CDI_CRI)
    assert config.pass_device_specs
    assert config.devices_at == "/run/nvidia/driver"
    assert config.labels.sleep_s == 90
    assert config.imex_channel_ids == (0,)
    assert config.sharing == (
        Sharing(suffix="gpu", replicas=4, rename_by_default=True, fail_above_one=True),
        Sharing(suffix="mig-1g.10gb", replicas=2, rename_by_default=True, fail_above_one=True),
    )
    assert any("patterns are not read" in note for note in config.notes)


def test_an_empty_file_means_the_defaults():
    assert read_config({}) == PluginConfig()


def shared(name: str) -> dict[str, object]:
    return {"sharing": {"timeSlicing": {"resources": [{"name": name, "replicas": 2}]}}}


@pytest.mark.parametrize("name", ["gpu", "nvidia.com/gpu", "example.com/gpu"])
def test_a_shared_resource_has_nvidia_s_domain_or_ours_or_none(name: str):
    config = read_config(shared(name), PluginConfig(domain="example.com"))

    assert [one.suffix for one in config.sharing] == ["gpu"]


def test_an_empty_file_is_told_how_a_config_begins(tmp_path: Path):
    file = tmp_path / "c.yaml"
    file.write_text("")

    with pytest.raises(SpecErrors, match="A config begins with version: v1"):
        read_config_file(file, {}, PluginConfig())


@pytest.mark.parametrize(
    ("data", "path", "hint"),
    [
        ({"flags": {"renameByDefault": True}}, "flags.renameByDefault", "sharing.timeSlicing"),
        ({"flags": {"passDeviceSpecs": True}}, "flags.passDeviceSpecs", "under flags.plugin"),
        ({"flags": {"migStrategie": "none"}}, "flags.migStrategie", '"migStrategy"'),
        ({"flags": {"migStrategy": "some"}}, "flags.migStrategy", "none, single, mixed"),
        ({"version": "v2"}, "version", "only v1"),
        ({"sharing": {"timeSlicing": {"resources": []}}}, "timeSlicing.resources", "at least one"),
        ({"imex": {"channelIDs": [1]}}, "imex.channelIDs", "channel 0"),
        ({"flags": {"gfd": {"sleepInterval": "often"}}}, "sleepInterval", "60s"),
        ({"flags": {"gfd": {"sleepInterval": "0s"}}}, "sleepInterval", "no time"),
        ([], "the file", "mapping"),
        (shared("amd.com/gpu"), "resources.0.name", "not a resource of nvidia.com"),
        (shared("gpü"), "resources.0.name", "no resource has such a name"),
        (shared("mig-1g.10gb+me"), "resources.0.name", "Is it mig-1g.10gb.me?"),
    ],
)
def test_7_6_a_wrong_key_or_value_is_named_with_a_way_out(data: object, path: str, hint: str):
    with pytest.raises(ConfigErrors) as raised:
        read_config(data)

    assert path in str(raised.value)
    assert hint in str(raised.value)


def test_all_faults_of_a_file_are_told_at_once_with_their_places(tmp_path: Path):
    file = tmp_path / "config.yaml"
    file.write_text("flags:\n  renameByDefault: true\n  plugin: {deviceIdStrategy: uuid}\n")

    with pytest.raises(SpecErrors) as raised:
        read_config_file(file, {}, PluginConfig())

    assert [(fault.line, fault.column) for fault in raised.value.faults] == [(2, 3), (3, 12)]


@pytest.mark.parametrize("replicas", [0, 1, -3, "two", True, 10**9])
def test_replicas_are_at_least_two(replicas: object):
    with pytest.raises(ConfigErrors, match="replicas"):
        read_config(
            {"sharing": {"timeSlicing": {"resources": [{"name": "gpu", "replicas": replicas}]}}}
        )


def test_mps_wants_its_root_and_no_mixed_strategy():
    mps = {"sharing": {"mps": {"resources": [{"name": "nvidia.com/gpu", "replicas": 4}]}}}

    with pytest.raises(ConfigErrors, match="mpsRoot"):
        read_config(mps)
    with pytest.raises(ConfigErrors, match="mixed"):
        read_config({**mps, "flags": {"mpsRoot": "/run/mps", "migStrategy": "mixed"}})
    config = read_config({**mps, "flags": {"mpsRoot": "/run/mps"}})
    assert config.sharing == (Sharing(suffix="gpu", replicas=4, mps=True, fail_above_one=True),)


def test_mps_wins_over_time_slicing_and_says_so():
    entry = {"resources": [{"name": "gpu", "replicas": 2}]}

    config = read_config(
        {"flags": {"mpsRoot": "/mps"}, "sharing": {"timeSlicing": entry, "mps": entry}}
    )

    assert [one.mps for one in config.sharing] == [True]
    assert "sharing: mps is there, so timeSlicing is not used" in config.notes


def test_options_win_over_the_environment_and_that_over_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    file = tmp_path / "config.yaml"
    file.write_text("flags: {migStrategy: none, nvidiaDriverRoot: /file, mpsRoot: /file}")
    monkeypatch.setenv("NVIDIA_DRIVER_ROOT", "/environment")
    monkeypatch.setenv("MIG_STRATEGY", "single")

    config = read_config_file(file, {"flags": {"migStrategy": "mixed"}}, PluginConfig())

    assert config.mig_strategy is MigStrategy.MIXED
    assert (config.driver_root, config.mps_root) == ("/environment", "/file")


def test_a_wrong_variable_is_not_blamed_on_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    file = tmp_path / "config.yaml"
    file.write_text("version: v1\n")
    monkeypatch.setenv("MIG_STRATEGY", "some")

    with pytest.raises(SpecErrors, match="environment or options"):
        read_config_file(file, {}, PluginConfig())


def test_the_swapped_link_of_a_config_map_is_noticed(tmp_path: Path):
    for version in ("one", "two"):
        (tmp_path / version).mkdir()
        (tmp_path / version / "config.yaml").write_text(FULL)
    data = tmp_path / "..data"
    data.symlink_to("one")
    file = tmp_path / "config.yaml"
    file.symlink_to("..data/config.yaml")
    before = file_stamp(file)

    (tmp_path / "..new").symlink_to("two")
    (tmp_path / "..new").replace(data)

    assert file_stamp(file) != before


def test_what_is_not_built_in_is_said():
    config = read_config({"flags": {"useNodeFeatureAPI": True}})
    assert any("no NodeFeature object is made" in note for note in config.notes)

    with pytest.raises(ConfigErrors, match=r"only nvml is built in\. Use auto or nvml"):
        read_config({"flags": {"deviceDiscoveryStrategy": "tegra"}})
