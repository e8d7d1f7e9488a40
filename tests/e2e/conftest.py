"""A deployment: the API in this process, workers in child processes, one database."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.deployment import Deployment, deployed_service
from tests.support.service import Service


@pytest.fixture
def deployment(service: Service, tmp_path: Path) -> Iterator[Deployment]:
    with deployed_service(service, tmp_path) as deployment:
        yield deployment
