"""The bytes of an environment that has MOSAICO only: each distribution of 10 MB or more, and who needs it.

The distributions are those of this environment that the service requires, without extras; the compiled
modules that Python writes at the first start are not counted.
"""

from collections import defaultdict
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from benchmarks.result_rows import BenchRow

SERVICE: Final = "mosaico"
GOAL_MB: Final = 350
SHOWN_MB: Final = 10


def measure() -> Iterator[BenchRow]:
    parents = required_by(SERVICE)
    sizes = {name: _megabytes(distribution(name)) for name in parents}
    for name, size in sorted(sizes.items(), key=lambda entry: -entry[1]):
        if size >= SHOWN_MB:
            note = f"{size:.0f} MB, required by {', '.join(sorted(parents[name]))}"
            yield BenchRow(name, "what brings 10 MB is printed", size / GOAL_MB, True, note)
    total, shown_mb = sum(sizes.values()), sum(size for size in sizes.values() if size >= SHOWN_MB)
    yield BenchRow(
        "environment",
        f"≤ {GOAL_MB} MB for the service",
        total / GOAL_MB,
        total <= GOAL_MB,
        f"{total:.0f} MB in {len(sizes)} distributions, {total - shown_mb:.0f} MB of it in those below"
        f" {SHOWN_MB} MB",
    )


def required_by(root: str) -> dict[str, set[str]]:
    """The installed distributions that `root` requires, directly or not, with those that name them."""
    parents: dict[str, set[str]] = defaultdict(set)
    unread: list[tuple[str, frozenset[str]]] = [(root, frozenset())]
    read = set(unread)
    while unread:
        name, extras = unread.pop()
        for line in distribution(name).requires or ():
            requirement = Requirement(line)
            if _applies(requirement, extras):
                child = canonicalize_name(requirement.name)
                parents[child].add(name)
                node = (child, frozenset(requirement.extras))
                if node not in read:
                    read.add(node)
                    unread.append(node)
    return parents


def _applies(requirement: Requirement, extras: frozenset[str]) -> bool:
    marker = requirement.marker
    return marker is None or any(marker.evaluate({"extra": extra}) for extra in (extras or {""}))


def _megabytes(installed: Distribution) -> float:
    files = (installed.locate_file(file) for file in installed.files or ())
    # Compiled modules belong to the first start, not to the distribution.
    return (
        sum(
            path.stat().st_size
            for path in (Path(str(file)) for file in files)
            if path.suffix != ".pyc" and path.is_file()
        )
        / 1e6
    )
