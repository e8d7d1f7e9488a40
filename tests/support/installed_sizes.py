"""What the packages of this environment take on disk, without byte code, as `du` counts."""

import subprocess
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.processes import LIVENESS_S, ROOT

PROJECT = "mosaico"
# A file takes whole blocks; with 10,000 small files this is a tenth of the size.
BLOCK_BYTES = 4096
MEGABYTE = 2**20


def packages_of(*extras: str) -> frozenset[str]:
    """The project and what it needs in this environment, with these extras."""
    names: set[str] = set()
    pending = [(PROJECT, frozenset(extras))]
    seen = set(pending)
    while pending:
        name, wanted = pending.pop()
        names.add(name)
        new = {*_requirements(name, wanted)} - seen
        seen |= new
        pending.extend(new)
    return frozenset(names)


def megabytes(packages: Iterable[str]) -> float:
    """The size of these packages together."""
    return sum(map(_package_bytes, packages)) / MEGABYTE


def _requirements(name: str, extras: frozenset[str]) -> Iterator[tuple[str, frozenset[str]]]:
    for requirement in map(Requirement, distribution(name).requires or ()):
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in {"", *extras}):
            yield canonicalize_name(requirement.name), frozenset(requirement.extras)


@cache
def _package_bytes(name: str) -> int:
    # The project itself is linked here, not installed: its files are those of the checkout.
    files = _checked_out() if name == PROJECT else _recorded(distribution(name))
    blocks = (-(-file.stat().st_size // BLOCK_BYTES) for file in files)
    return BLOCK_BYTES * sum(blocks)


def _recorded(package: Distribution) -> Iterator[Path]:
    for file in package.files or ():
        path = Path(str(package.locate_file(file)))
        if file.suffix != ".pyc" and path.is_file():
            yield path


def _checked_out() -> Iterator[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "app/mosaico", "migrations"],
        cwd=ROOT, check=True, capture_output=True, text=True, timeout=LIVENESS_S,
    ).stdout  # fmt: skip
    paths = (ROOT / name for name in listed.split("\0") if name)
    return (path for path in paths if path.is_file())
