"""How every process of a test run works; the fixtures are those of `tests.support.fixtures`."""

import gc
import os
import shutil
import signal
import sys
import threading
from contextlib import ExitStack
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.support.busy_loops import busy_loops
from tests.support.scheduling import (
    FileScheduling,
    import_own_share_first,
    name_groups,
    order_items,
)

# A hundred processes of the service start during the tests: what the first one compiles, tests
# included, the others only read.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# jsonschema imports it, where it is installed, for formats that no schema here has: 38 parsers are built.
sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]

MAIN_THREAD = threading.main_thread()
# A shell starts a background process with SIGINT ignored, which its children inherit: without this,
# tests that interrupt a program fail there.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown() -> None:
    """A test that leaves a handler of SIGINT fails: tests after it could not be interrupted."""
    handler = signal.getsignal(signal.SIGINT)
    if handler is signal.default_int_handler or threading.current_thread() is not MAIN_THREAD:
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    pytest.fail(f"the test has left a handler of SIGINT: {handler!r}")


gc.set_threshold(50_000, 20, 20)

# How long an example takes says how busy the machine is, and nothing about the code. Each run makes
# other examples; `make prove` makes many at once.
settings.register_profile(
    "tests", deadline=None, max_examples=8, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("prove", parent=settings.get_profile("tests"), max_examples=500)
settings.load_profile("tests")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--busy-loops", type=int, default=0, help="keep the machine busy with N endless loops"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Load the fixtures, and with them the service, unless this process only hands out tests."""
    is_first_process = not hasattr(config, "workerinput")
    if is_first_process and (count := config.getoption("busy_loops")):
        load = ExitStack()
        load.enter_context(busy_loops(count))
        config.add_cleanup(load.close)
    if config.getoption("dist", "no") == "no":
        config.pluginmanager.import_plugin("tests.support.fixtures")


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    if session.config.getoption("dist", "no") == "no":
        # What is imported stays as long as the process: see `pytest_collection_finish`.
        gc.disable()
    import_own_share_first(session.config)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Prepare the tests for `FileScheduling`, in every process alike."""
    if getattr(config.option, "loadgroup", False):
        name_groups(items)
        order_items(items)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> FileScheduling | None:
    return FileScheduling(config, log) if config.getoption("dist") == "loadgroup" else None


def pytest_unconfigure(config: pytest.Config) -> None:
    """Delete the databases of this run: pytest keeps its folders, and these are large."""
    folders = getattr(config, "_tmp_path_factory", None)
    if folders is not None and not hasattr(config, "workerinput"):
        shutil.rmtree(folders.getbasetemp() / "postgres-of-tests", ignore_errors=True)


def pytest_collection_finish() -> None:
    """What was loaded until now is not searched for garbage at all."""
    gc.freeze()
    gc.enable()
