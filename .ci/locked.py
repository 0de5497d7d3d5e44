"""Print a dependency group of ``pyproject.toml`` as ``name==version``, as ``uv.lock`` has it."""

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def locked(group: str) -> list[str]:
    """Requirements of a group, pinned where the lock has one version for all Pythons."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    versions: dict[str, set[str]] = {}
    for package in tomllib.loads((ROOT / "uv.lock").read_text())["package"]:
        versions.setdefault(package["name"], set()).add(package["version"])
    pinned = []
    for requirement in project["dependency-groups"][group]:
        name = re.split(r"[<>=!~\[; ]", requirement)[0]
        found = versions[re.sub(r"[-_.]+", "-", name).lower()]
        pinned.append(f"{name}=={min(found)}" if len(found) == 1 else requirement)
    return pinned


if __name__ == "__main__":
    sys.stdout.write("\n".join(locked(sys.argv[1])) + "\n")
