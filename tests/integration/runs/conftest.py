"""A service that counts the calls of metrics."""

import dataclasses

import pytest

from tests.support.metric_calls import PAIRS, CountingPool
from tests.support.service import Service
from tests.support.stored import DatabaseReader


@pytest.fixture
def pool() -> CountingPool:
    return CountingPool()


@pytest.fixture
def counting_service(service: Service, pool: CountingPool) -> Service:
    """A service with an agent and an upload that computes metrics in this process."""
    service.create_agent()
    service.upload(PAIRS)
    return dataclasses.replace(service, pool=pool)


@pytest.fixture
def rows(service: Service) -> DatabaseReader:
    return DatabaseReader(service.resources.db.url)
