"""The API in this process, workers in processes of their own, one database."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.house import House, house_of
from tests.support.service import Service


@pytest.fixture
def house(service: Service, tmp_path: Path) -> Iterator[House]:
    with house_of(service, tmp_path) as house:
        yield house
