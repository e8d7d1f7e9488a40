"""The workers of tests about deaths."""

import pytest

from mosaico.core.resources import Resources
from tests.support.fleet import Fleet
from tests.support.stored import DatabaseReader


@pytest.fixture
def fleet(service_resources: Resources) -> Fleet:
    return Fleet(service_resources, DatabaseReader(service_resources.db.url))
