"""Generate the modules of this package: ``python -m plugin.proto.generate [FOLDER]``.

The protoc of grpcio-tools 1.81 writes modules for protobuf 6.33, which OR-Tools pins.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROTOS = (
    "plugin/proto/deviceplugin/v1beta1/api.proto",
    "plugin/proto/pluginregistration/v1/api.proto",
    "plugin/proto/podresources/v1/api.proto",
)
"""All three are ``api.proto`` at the kubelet: distinct paths keep them apart in one process."""


def generate(target: Path) -> None:
    """Write modules and type stubs of all protos under `target`.

    Raises
    ------
    RuntimeError
        The compiler refused a proto.
    """
    from grpc_tools import protoc

    outs = [f"--{kind}_out={target}" for kind in ("python", "pyi", "grpc_python", "mypy_grpc")]
    if protoc.main(["protoc", f"-I{ROOT}", *outs, *(str(ROOT / proto) for proto in PROTOS)]) != 0:
        raise RuntimeError("protoc refused a proto, see above")


if __name__ == "__main__":
    generate(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT)
