"""Children of the test process, forked from a process that has imported what they compute with.

A spawned child is a new interpreter, which takes a second of processor time, and tests that kill their
children need dozens. The server of `multiprocessing` forks them instead; it has no thread that could
hold a lock. How a child starts from nothing is tested with the installed wheel.
"""

import multiprocessing
import pkgutil
from multiprocessing.context import BaseContext

import pytest

from mosaico.metrics import providers

# A child that loads its metrics finds these modules imported, with numpy.
METRICS = tuple(
    module.name for module in pkgutil.walk_packages(providers.__path__, f"{providers.__name__}.")
)
# What runs in children: of a worker, of the API, and of the tests.
CALLED = (
    "mosaico.annotations.agreement",
    "mosaico.comparison.child_computation",
    "mosaico.comparison.stored_run_comparison",
    "mosaico.runs.series",
    "tests.support.first_starts",
    "tests.support.lost_series",
    "mosaico.core.secret_files",
)


def fork_spawned_children(patch: pytest.MonkeyPatch) -> None:
    """Fork what asks for `spawn`; the first child of a test process starts the server."""
    get_context = multiprocessing.get_context
    get_context("forkserver").set_forkserver_preload([*METRICS, *CALLED])

    def choose(method: str | None = None) -> BaseContext:
        return get_context("forkserver" if method == "spawn" else method)

    patch.setattr(multiprocessing, "get_context", choose)
