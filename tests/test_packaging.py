"""The generic names of our packages are ours alone, and the lock file fits the project."""

import re
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
LOCK = tomllib.loads((ROOT / "uv.lock").read_text())
SHIPPED = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["only-include"]
REQUIREMENTS = [
    *PROJECT["project"]["dependencies"],
    *PROJECT["project"]["optional-dependencies"]["test"],
    *PROJECT["dependency-groups"]["dev"],
]


@pytest.mark.parametrize("shipped", SHIPPED)
def test_nobody_else_provides_our_top_level_names(shipped: str):
    name = shipped.removesuffix(".py")

    owners = set(packages_distributions().get(name, []))

    assert owners <= {"unstrand"}, f"{name} is also in {owners}: use an environment of its own"


def test_every_top_level_package_is_shipped_or_known_not_to_be():
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")}

    assert packages - set(SHIPPED) <= {"benchmarks", "tests"}


@pytest.mark.parametrize("requirement", REQUIREMENTS)
def test_the_lock_has_a_version_that_the_project_allows(requirement: str):
    wanted = Requirement(requirement)
    name = re.sub(r"[-_.]+", "-", wanted.name).lower()

    versions = [package["version"] for package in LOCK["package"] if package["name"] == name]

    assert versions, f"{name} is not locked: run `uv lock`"
    assert all(version in wanted.specifier for version in versions)


def test_the_lock_names_no_index_but_the_public_one():
    text = (ROOT / "uv.lock").read_text()

    hosts = {urlsplit(url).hostname for url in re.findall(r'"(https?://[^"]+)"', text)}

    assert hosts == {"pypi.org", "files.pythonhosted.org"}
