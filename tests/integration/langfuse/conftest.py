"""Fixtures: fake Langfuse servers on loopback, and clients of them."""

from collections.abc import Iterator

import httpx
import pytest

from tests.integration.langfuse.api_reader import ApiReader
from tests.support.langfuse import FakeLangfuse, run_fake_langfuse
from tests.support.waiting import LIVENESS_S


@pytest.fixture(scope="session")
def server_v4() -> Iterator[FakeLangfuse]:
    with run_fake_langfuse() as running:
        yield running


@pytest.fixture(scope="session")
def server_v3() -> Iterator[FakeLangfuse]:
    with run_fake_langfuse("v3") as running:
        yield running


@pytest.fixture(scope="session")
def server_dual() -> Iterator[FakeLangfuse]:
    with run_fake_langfuse("dual") as running:
        yield running


@pytest.fixture
def langfuse(server_v4: FakeLangfuse) -> FakeLangfuse:
    """An empty v4 server in its default mode."""
    server_v4.reset()
    return server_v4


@pytest.fixture
def langfuse_v3(server_v3: FakeLangfuse) -> FakeLangfuse:
    server_v3.reset()
    return server_v3


@pytest.fixture
def langfuse_dual(server_dual: FakeLangfuse) -> FakeLangfuse:
    """A v4 server that also serves API v3."""
    server_dual.reset()
    return server_dual


@pytest.fixture(params=["v4", "v3"])
def server(request: pytest.FixtureRequest) -> FakeLangfuse:
    """An empty server of each API version."""
    name = "langfuse" if request.param == "v4" else "langfuse_v3"
    running: FakeLangfuse = request.getfixturevalue(name)
    return running


@pytest.fixture
def reader(langfuse: FakeLangfuse) -> Iterator[ApiReader]:
    with httpx.Client(
        base_url=f"{langfuse.url}/api/public",
        auth=(langfuse.public_key, langfuse.secret_key),
        trust_env=False,
        verify=False,  # no certificates to read
        timeout=LIVENESS_S,
    ) as client:
        yield ApiReader(client)
