"""The generated modules are those of the protos, on the wire as the kubelet has them."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from plugin.proto.deviceplugin.v1beta1 import api_pb2 as device
from plugin.proto.generate import PROTOS, ROOT
from plugin.proto.pluginregistration.v1 import api_pb2 as registration
from plugin.proto.podresources.v1 import api_pb2 as pods


def test_the_modules_are_what_the_protos_generate(tmp_path: Path):
    for tool, name in (("grpc_tools", "grpcio-tools"), ("mypy_protobuf", "mypy-protobuf")):
        if importlib.util.find_spec(tool) is None:
            pytest.skip(f"{name} is a tool of developers")

    # A process of its own: the compiler's library and OR-Tools' do not get on in one.
    command = [sys.executable, "-m", "plugin.proto.generate", str(tmp_path)]
    tools = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    subprocess.run(command, cwd=ROOT, check=True, env={**os.environ, "PATH": tools})

    made = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file())
    assert len(made) == 4 * len(PROTOS)
    for path in made:
        assert (tmp_path / path).read_text() == (ROOT / path).read_text(), path


@pytest.mark.parametrize(
    ("message", "fields"),
    [
        (device.RegisterRequest, "version 1 endpoint 2 resource_name 3 options 4"),
        (device.DevicePluginOptions, "pre_start_required 1 get_preferred_allocation_available 2"),
        (device.Device, "ID 1 health 2 topology 3"),
        (
            device.ContainerPreferredAllocationRequest,
            "available_deviceIDs 1 must_include_deviceIDs 2 allocation_size 3",
        ),
        (device.ContainerAllocateRequest, "devices_ids 1"),
        (
            device.ContainerAllocateResponse,
            "envs 1 mounts 2 devices 3 annotations 4 cdi_devices 5",
        ),
        (device.Mount, "container_path 1 host_path 2 read_only 3"),
        (device.DeviceSpec, "container_path 1 host_path 2 permissions 3"),
        (registration.PluginInfo, "type 1 name 2 endpoint 3 supported_versions 4"),
        (registration.RegistrationStatus, "plugin_registered 1 error 2"),
        (pods.ContainerDevices, "resource_name 1 device_ids 2"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_fields_have_the_numbers_of_the_contract(message: type, fields: str):
    told = " ".join(f"{field.name} {field.number}" for field in message.DESCRIPTOR.fields)

    assert told == fields


def test_services_have_the_names_of_the_contract():
    services = {
        f"{module.DESCRIPTOR.package}.{name}"
        for module in (device, registration, pods)
        for name in module.DESCRIPTOR.services_by_name
    }

    assert services == {
        "v1beta1.Registration",
        "v1beta1.DevicePlugin",
        "pluginregistration.Registration",
        "v1.PodResourcesLister",
    }
