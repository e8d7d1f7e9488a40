"""The memory of request bodies: bytes are taken, refused beyond the limit, and given back."""

from contextlib import suppress

import pytest

from mosaico.core.errors import Unavailable
from mosaico.core.web.request_body import BodyMemory


def test_body_memory__bytes_beyond_the_limit_are_refused() -> None:
    memory = BodyMemory(max_bytes=100)
    with memory.hold() as take:
        take(60)
        with memory.hold() as take_too, pytest.raises(Unavailable) as refused:
            take_too(41)
        assert refused.value.extra["headers"]["Retry-After"] == "10"
        take(40)


def test_body_memory__ended_requests_give_their_bytes_back() -> None:
    memory = BodyMemory(max_bytes=100)
    with suppress(Unavailable), memory.hold() as take:
        take(70)
        take(70)
    with memory.hold() as take:
        take(100)
    assert memory.held_bytes == 0
