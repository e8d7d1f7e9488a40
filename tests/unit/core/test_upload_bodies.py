"""The body of an upload: received whole, and written without stopping other requests."""

import hashlib
import io
import threading

import anyio
import pytest
from starlette.requests import Request
from starlette.types import Message

from mosaico.core.errors import TooLarge
from mosaico.core.web.uploads import BLOCK_BYTES, receive_body

PARTS = [b"a" * BLOCK_BYTES, b"b" * 10, b"", b"c" * (BLOCK_BYTES - 1)]


class WatchedFile(io.BytesIO):
    """Notes the threads that write."""

    def __init__(self) -> None:
        super().__init__()
        self.writers: set[threading.Thread] = set()

    def write(self, data: object) -> int:
        self.writers.add(threading.current_thread())
        return super().write(data)  # type: ignore[arg-type]


def request_of(parts: list[bytes]) -> Request:
    messages: list[Message] = [
        {"type": "http.request", "body": part, "more_body": number < len(parts)}
        for number, part in enumerate(parts, start=1)
    ]

    async def receive() -> Message:
        return messages.pop(0)

    return Request({"type": "http", "method": "POST", "headers": []}, receive)


def test_receive_body__writes_all_parts_in_another_thread() -> None:
    async def receive() -> None:
        file = WatchedFile()
        body = await receive_body(request_of(PARTS), file, max_bytes=2 * BLOCK_BYTES + 9)
        content = b"".join(PARTS)
        assert file.read() == content
        assert (body.size_bytes, body.sha256) == (len(content), hashlib.sha256(content).hexdigest())
        assert threading.current_thread() not in file.writers

    anyio.run(receive)


@pytest.mark.parametrize("parts", [[b"abc"], [b"ab", b"c"], [b"abc", b"d", b"e"]])
def test_receive_body__too_large_is_refused_after_its_last_part(parts: list[bytes]) -> None:
    async def receive() -> None:
        request = request_of(parts)
        with pytest.raises(TooLarge, match="larger than 2 bytes"):
            await receive_body(request, io.BytesIO(), max_bytes=2)

    anyio.run(receive)
