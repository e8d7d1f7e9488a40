"""Checks and evaluators are loaded, and a time limit expires when a test says so."""

import asyncio
from collections.abc import Callable

import pytest

from mosaico.harness.bash.check_registry import load_checks
from mosaico.harness.mcp.evaluator_registry import load_evaluators


@pytest.fixture(scope="session")
def loaded_checks() -> None:
    load_checks()


@pytest.fixture(scope="session")
def loaded_evaluators() -> None:
    load_evaluators()


@pytest.fixture
def expire_time_limit(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Lets the outermost time limit expire in a moment, however slow the machine is."""
    time_limits: list[asyncio.Timeout] = []
    open_timeout = asyncio.timeout

    def record_timeout(delay: float | None) -> asyncio.Timeout:
        time_limits.append(open_timeout(delay))
        return time_limits[-1]

    monkeypatch.setattr(asyncio, "timeout", record_timeout)
    return lambda: time_limits[0].reschedule(asyncio.get_running_loop().time() + 0.1)
