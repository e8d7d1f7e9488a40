"""What `make release` hands out: contents, metadata, bill of materials."""

import email
import json
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.message import Message
from importlib.metadata import distribution
from pathlib import Path, PurePosixPath

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.distributions import Distributions, build_distributions
from tests.support.processes import LIVENESS_S, ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
NAME_AND_VERSION = f"{PROJECT['name']}-{PROJECT['version']}"
LOCKED = re.compile(r"^([\w.-]+)(?:\[[^]]*\])?==([^\s;]+)", re.MULTILINE)
# Files of the package that are no Python: templates, styles, the grammar, descriptions and examples of the API.
PACKAGE = ROOT / "app" / "mosaico"
# The package makes 38 parsers for formats that a bill does not have, which takes four seconds.
CYCLONEDX = """
import runpy, sys

sys.modules["rfc3987_syntax"] = None
runpy.run_module("cyclonedx_py", run_name="__main__", alter_sys=True)
"""

pytestmark = pytest.mark.xdist_group("distributions")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Distributions:
    return build_distributions(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def wheel_names(built: Distributions) -> set[str]:
    with zipfile.ZipFile(built.wheel) as archive:
        return {*archive.namelist()}


def files_of_checkout(folder: Path) -> set[PurePosixPath]:
    """The files below a folder that git would track, relative to it."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "."],
        cwd=folder, check=True, capture_output=True, text=True, timeout=LIVENESS_S,
    ).stdout  # fmt: skip
    names = filter(None, listed.split("\0"))
    return {PurePosixPath(name) for name in names if (folder / name).is_file()}


def test_wheel__contains_every_file_of_the_package_and_the_migrations(
    wheel_names: set[str],
) -> None:
    package = {f"mosaico/{name}" for name in files_of_checkout(PACKAGE)}
    migrations = {f"mosaico/migrations/{name}" for name in files_of_checkout(ROOT / "migrations")}
    assert {"mosaico/py.typed", "mosaico/core/web/templates/base.html"} <= package
    assert "mosaico/migrations/versions/1_0_schema.sql" in migrations
    in_package = {name for name in wheel_names if name.startswith("mosaico/")}
    assert in_package == package | migrations | {"mosaico/alembic.ini"}


def test_wheel__contains_nothing_else_but_its_metadata(wheel_names: set[str]) -> None:
    others = {name for name in wheel_names if not name.startswith("mosaico/")}
    assert {name.partition("/")[0] for name in others} == {f"{NAME_AND_VERSION}.dist-info"}


def test_sources__build_the_wheel_and_contain_no_tests(
    built: Distributions, wheel_names: set[str]
) -> None:
    with tarfile.open(built.sources) as archive:
        names = {name.removeprefix(f"{NAME_AND_VERSION}/") for name in archive.getnames()}
    sources = {
        name.replace("mosaico/alembic.ini", "alembic.ini").replace(
            "mosaico/migrations/", "migrations/"
        )
        if name.startswith(("mosaico/alembic.ini", "mosaico/migrations/"))
        else f"app/{name}"
        for name in wheel_names
        if name.startswith("mosaico/")
    }
    metadata = {"pyproject.toml", "README.md", "CHANGELOG.md", "PKG-INFO", "requirements.lock"}
    assert names == sources | metadata | {".gitignore"}


def test_metadata__is_that_of_the_project(built: Distributions) -> None:
    metadata = metadata_of(built.wheel)
    assert (metadata["Name"], metadata["Version"]) == (PROJECT["name"], PROJECT["version"])
    assert metadata["Requires-Python"] == PROJECT["requires-python"]
    assert metadata.get_all("Provides-Extra") == sorted(PROJECT["optional-dependencies"])
    assert metadata["Description-Content-Type"] == "text/markdown"
    subprocess.run(
        [sys.executable, "-m", "twine", "check", "--strict", *built],
        check=True, capture_output=True, timeout=LIVENESS_S,
    )  # fmt: skip


def test_metadata__of_the_environment_is_that_of_the_project() -> None:
    """Every place that shows the version reads it there: run `make dev` after a change of it."""
    assert distribution(PROJECT["name"]).version == PROJECT["version"]


def test_bill_of_materials__lists_the_locked_packages(tmp_path: Path) -> None:
    """By the command of `make release`."""
    command = re.search(r"(cyclonedx-py .+?)\\\n\s+--output-file", (ROOT / "Makefile").read_text())
    assert command
    target = tmp_path / "bill.json"
    subprocess.run(
        [sys.executable, "-c", CYCLONEDX, *command[1].split()[1:], "--output-file", target],
        cwd=ROOT, check=True, capture_output=True, timeout=LIVENESS_S,
    )  # fmt: skip
    bill = json.loads(target.read_text())
    locked = LOCKED.findall((ROOT / "requirements.lock").read_text())
    assert {(of["name"], of["version"]) for of in bill["components"]} == {*locked}
    described = bill["metadata"]["component"]
    assert (described["name"], described["version"]) == (PROJECT["name"], PROJECT["version"])


def test_locked_requirements__contain_no_tools_that_build() -> None:
    """`requirements-build.lock` has those, with hashes as well."""
    runtime, build = (
        {canonicalize_name(name) for name, _ in LOCKED.findall((ROOT / file).read_text())}
        for file in ("requirements.lock", "requirements-build.lock")
    )
    [backend] = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    assert Requirement(backend).name in build
    # The SDK of OpenTelemetry needs it, too.
    assert runtime & build <= {"packaging"}


def metadata_of(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        return email.message_from_bytes(archive.read(f"{NAME_AND_VERSION}.dist-info/METADATA"))
