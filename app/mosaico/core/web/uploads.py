"""Large uploads: received to disk first, so that no transaction waits for a slow client."""

import hashlib
import re
import tempfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import IO, Annotated

import anyio
from fastapi import Depends, Request
from starlette.concurrency import run_in_threadpool

from mosaico.core.errors import TooLarge
from mosaico.core.problem_documents import UnsupportedMediaType
from mosaico.core.web.request_body import read_content_type

MAX_BYTES = 4 * 1024**3
MEMORY_BYTES = 1024**2
# One trace is in memory at a time, several times during its conversion.
LINE_BYTES = 16 * 1024**2
BLOCK_BYTES = 256 * 1024
DOCUMENT_BYTES = 64 * 1024**2
DISCARD_TIMEOUT_S = 5.0
_VISIBLE = re.compile(rb"\S")

NDJSON_TYPES = frozenset(
    {"application/x-ndjson", "application/jsonl", "application/octet-stream", "text/plain"}
)


JSON_TYPES = frozenset({"application/json", "application/octet-stream"})


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadedBody:
    """A completely received body; `file` is at its beginning."""

    file: IO[bytes]
    size_bytes: int
    sha256: str


async def receive_ndjson(request: Request) -> AsyncIterator[UploadedBody]:
    """Receive a body of JSON lines.

    Raises: `UnsupportedMediaType` for another type, `TooLarge` above 4 GiB. A client that disconnects never
            reaches the route.
    """
    if read_content_type(request) not in NDJSON_TYPES:
        raise UnsupportedMediaType("send one JSON object per line as application/x-ndjson")
    with tempfile.SpooledTemporaryFile(max_size=MEMORY_BYTES) as file:
        yield await receive_body(request, file, MAX_BYTES)


async def receive_json(request: Request) -> AsyncIterator[UploadedBody]:
    """Receive one JSON document of up to 64 MiB; raises the errors of `receive_ndjson`."""
    if read_content_type(request) not in JSON_TYPES:
        raise UnsupportedMediaType("send one JSON document as application/json")
    with tempfile.SpooledTemporaryFile(max_size=MEMORY_BYTES) as file:
        yield await receive_body(request, file, DOCUMENT_BYTES)


NdjsonUpload = Annotated[UploadedBody, Depends(receive_ndjson)]
JsonUpload = Annotated[UploadedBody, Depends(receive_json)]


def iter_lines(file: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    """The lines of a file with their numbers from 1, without line feeds; blank lines are left out.

    One block of the file is in memory at a time. Raises: `TooLarge` for a line above 16 MiB.
    """
    first, partial_line = 1, b""
    while block := file.read(BLOCK_BYTES):
        complete, line_feed, partial_line = (partial_line + block).rpartition(b"\n")
        yield from _iter_text_lines(complete, first)
        first += complete.count(b"\n") + len(line_feed)
        _require_short(partial_line, first)
    if partial_line and not partial_line.isspace():
        yield first, partial_line


def _iter_text_lines(block: bytes, number: int) -> Iterator[tuple[int, bytes]]:
    """The lines of a block that are not blank; `number` is that of its first line."""
    end = 0
    # From one visible character to the next: a loop over millions of blank lines would take minutes.
    while match := _VISIBLE.search(block, end):
        line_feed = block.rfind(b"\n", end, match.start())
        start = end if line_feed < 0 else line_feed + 1
        number += block.count(b"\n", end, start)
        line_feed = block.find(b"\n", start)
        end = len(block) if line_feed < 0 else line_feed
        yield number, _require_short(block[start:end], number)


def _require_short(line: bytes, number: int) -> bytes:
    if len(line) > LINE_BYTES:
        raise TooLarge(f"line {number} is longer than {LINE_BYTES} bytes; shorten its texts")
    return line


async def receive_body(request: Request, file: IO[bytes], max_bytes: int) -> UploadedBody:
    """Receive a body into a file; raises `TooLarge`."""
    digest, size, block = hashlib.sha256(), 0, bytearray()

    def store_block() -> None:
        digest.update(block)
        file.write(block)
        block.clear()

    parts = request.stream()
    async for part in parts:
        size += len(part)
        if size > max_bytes:
            # A client that still sends would not read the response.
            with anyio.move_on_after(DISCARD_TIMEOUT_S):
                async for _ in parts:
                    pass
            raise TooLarge(
                f"the upload is larger than {max_bytes} bytes; send several smaller runs"
            )
        block += part
        if len(block) >= BLOCK_BYTES:
            # In a thread: other requests would wait for a slow disk, too.
            await run_in_threadpool(store_block)
    await run_in_threadpool(store_block)
    file.seek(0)
    return UploadedBody(file=file, size_bytes=size, sha256=digest.hexdigest())
