"""In which order, and how many at once, the processes of a test run are given the tests."""

import contextlib
from collections import Counter
from collections.abc import Sequence
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from _pytest.nodeid import NodeId
from xdist.scheduler import LoadGroupScheduling

# A test of these folders takes seconds, of which it waits most: each may run in another process.
SINGLE: tuple[str, ...] = ("tests/e2e/test_",)
# The longest tests first, so that no process is left alone with one at the end.
FOLDERS = ("tests/integration/", "tests/browser/", "tests/")


class FileScheduling(LoadGroupScheduling):  # type: ignore[misc]  # pytest-xdist has no types
    """Hands out a group or a file at a time, in the order of collection.

    The fixtures of a file are made in one process. A test at a time, as pytest-xdist does, also
    takes the process that hands them out a time that grows with the square of their number.
    """

    def __init__(self, config: pytest.Config, log: Any = None) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False

    def _split_scope(self, nodeid: str) -> str:
        scope = super()._split_scope(nodeid)
        is_single = scope != nodeid or nodeid.startswith(SINGLE)
        return scope if is_single else nodeid.partition("::")[0]


def name_groups(items: Sequence[pytest.Item]) -> None:
    """Write the group of a test into its ID, by which pytest-xdist keeps a group in one process.

    pytest-xdist 3.8 sets an attribute that pytest 9.2 does not read any more: without this, every
    group is torn over all processes, and each of them starts its servers and browsers.
    """
    for item in items:
        group = group_of(item)
        if group and not item.nodeid.endswith(f"@{group}"):
            item._id = NodeId.parse(f"{item.nodeid}@{group}")


def order_items(items: list[pytest.Item]) -> None:
    """Put the largest groups first, then the folders with the longest tests.

    The end-to-end tests go with the first files, one by one: others use the processor while they
    wait.
    """
    sizes = Counter(filter(None, map(group_of, items)))
    files: list[dict[str, int]] = [{} for _ in FOLDERS]
    waiting = count()

    def place(item: pytest.Item) -> tuple[int, int, str]:
        if group := group_of(item):
            return -1, -sizes[group], group
        if item.nodeid.startswith(SINGLE):
            return 0, next(waiting), ""
        folder = next((i for i, name in enumerate(FOLDERS) if item.nodeid.startswith(name)), 0)
        file = item.nodeid.partition("::")[0]
        return folder, files[folder].setdefault(file, len(files[folder])), "file"

    items.sort(key=place)


def group_of(item: pytest.Item) -> str:
    """The group that a test or its file names; empty without one."""
    marker = item.get_closest_marker("xdist_group")
    return str(marker.args[0]) if marker else ""


def import_own_share_first(config: pytest.Config) -> None:
    """Import every test file, each process of a test run beginning at another one.

    In a fresh clone each file is compiled, with its assertions rewritten, when it is imported first:
    without this, all processes would compile every file at the same time.
    """
    worker = getattr(config, "workerinput", None)
    if worker is None:
        return
    number, process_count = int(worker["workerid"].removeprefix("gw")), worker["workercount"]
    ignored = config.getoption("ignore") or ()
    paths = sorted(
        path
        for folder in config.args
        for path in Path(folder).rglob("test_*.py")
        if not any(path.is_relative_to(folder) for folder in ignored)
    )
    first = len(paths) * number // process_count
    for path in (*paths[first:], *paths[:first]):
        with contextlib.suppress(Exception, pytest.skip.Exception):  # the collection reports it
            import_module(".".join(path.with_suffix("").parts))
