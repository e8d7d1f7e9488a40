"""The API in this process, its workers in child processes, one database."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest

from mosaico.core.encryption import SecretBox
from mosaico.core.resources import Resources
from tests.support.deployment import Deployment, deployed_service
from tests.support.processes import MASTER_KEY, Programs, programs
from tests.support.service import Service


@pytest.fixture
def service_resources(service_resources: Resources) -> Resources:
    """This process and its workers use the same master key."""
    return dataclasses.replace(service_resources, secrets=SecretBox.from_keys([MASTER_KEY]))


@pytest.fixture
def deployment(service: Service, tmp_path: Path) -> Iterator[Deployment]:
    with deployed_service(service, tmp_path) as deployment:
        yield deployment


@pytest.fixture
def worker_programs(service: Service, tmp_path: Path) -> Iterator[Programs]:
    """Starts workers that may send requests to servers of this machine."""
    with programs(
        tmp_path,
        DATABASE_URL=service.resources.db.url,
        MOSAICO_MASTER_KEY=MASTER_KEY,
        MOSAICO_OUTBOUND_ALLOW="127.0.0.0/8",
    ) as started:
        yield started
