"""A Langfuse on loopback for each test that asks for one."""

from collections.abc import Iterator

import httpx
import pytest

from tests.support.langfuse import StandIn, stand_in


@pytest.fixture
def langfuse() -> Iterator[StandIn]:
    """A v4 server in its default mode."""
    with stand_in() as running:
        yield running


@pytest.fixture
def reader(langfuse: StandIn) -> Iterator[httpx.Client]:
    """A plain client with the project's key."""
    with httpx.Client(
        base_url=f"{langfuse.url}/api/public",
        auth=(langfuse.public_key, langfuse.secret_key),
        trust_env=False,
        timeout=20,
    ) as client:
        yield client
