"""A browser without a key, of a service that listens already."""

from collections.abc import Iterator

import httpx
import pytest

from tests.support.browser_sessions import open_browser
from tests.support.service import Service


@pytest.fixture
def browser(service: Service) -> Iterator[httpx.Client]:
    with open_browser(service) as client:
        yield client
