"""A Langfuse on loopback for each test that asks for one, and clients of it."""

from collections.abc import Iterator

import httpx
import pytest

from tests.integration.langfuse.reading import Reader
from tests.support.langfuse import StandIn, stand_in


@pytest.fixture(scope="session")
def server_v4() -> Iterator[StandIn]:
    with stand_in() as running:
        yield running


@pytest.fixture(scope="session")
def server_v3() -> Iterator[StandIn]:
    with stand_in("v3") as running:
        yield running


@pytest.fixture(scope="session")
def server_dual() -> Iterator[StandIn]:
    with stand_in("dual") as running:
        yield running


@pytest.fixture
def langfuse(server_v4: StandIn) -> StandIn:
    """A v4 server in its default mode, which knows nothing yet."""
    server_v4.start_anew()
    return server_v4


@pytest.fixture
def langfuse_v3(server_v3: StandIn) -> StandIn:
    server_v3.start_anew()
    return server_v3


@pytest.fixture
def langfuse_dual(server_dual: StandIn) -> StandIn:
    """A v4 server that still fills the tables of the older endpoints."""
    server_dual.start_anew()
    return server_dual


@pytest.fixture
def reader(langfuse: StandIn) -> Iterator[Reader]:
    yield from _reader_of(langfuse)


@pytest.fixture
def reader_v3(langfuse_v3: StandIn) -> Iterator[Reader]:
    yield from _reader_of(langfuse_v3)


@pytest.fixture
def reader_dual(langfuse_dual: StandIn) -> Iterator[Reader]:
    yield from _reader_of(langfuse_dual)


def _reader_of(langfuse: StandIn) -> Iterator[Reader]:
    with httpx.Client(
        base_url=f"{langfuse.url}/api/public",
        auth=(langfuse.public_key, langfuse.secret_key),
        trust_env=False,
        verify=False,  # no certificates to read
        timeout=20,
    ) as client:
        yield Reader(client)
