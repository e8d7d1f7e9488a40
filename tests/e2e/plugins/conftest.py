"""Fixtures: the installed sample distribution, and a service that has loaded it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from mosaico.core.registry import LoadedPlugin
from mosaico.core.resources import Resources
from mosaico.jobs.process_pool import ProcessPool
from mosaico.metrics.registry import load_metrics
from tests.support.plugins import install_sample, load_sample
from tests.support.service import Service, running_service

MEMORY_BYTES = 512 * 1024**2


# `pip install` takes seconds: the tests with the sample are one group of xdist.
@pytest.fixture(scope="session")
def installed_plugins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which the sample distribution is installed."""
    return install_sample(tmp_path_factory.mktemp("plugins"))


@pytest.fixture
def failed_plugins(
    plugins: None, monkeypatch: pytest.MonkeyPatch, installed_plugins: Path
) -> list[LoadedPlugin]:
    """The plugins of the loaded sample distribution that failed."""
    return load_sample(monkeypatch, installed_plugins)


@pytest.fixture
def pool(failed_plugins: list[LoadedPlugin]) -> Iterator[ProcessPool]:
    """A pool whose child process has loaded the sample distribution."""
    pool = ProcessPool(1, warm_up=load_metrics, memory_bytes=MEMORY_BYTES)
    yield pool
    pool.close()


@pytest.fixture
def extended_service(service_resources: Resources, pool: ProcessPool) -> Iterator[Service]:
    """The service with the sample distribution."""
    with running_service(service_resources, pool) as running:
        yield running
