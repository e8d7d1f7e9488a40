"""The head of a response leaves with its first part, or alone when that part is not ready at once."""

import asyncio

import h11

from mosaico.core.web.http_protocol import ResponseWriter


def test_response_writer__the_head_is_sent_with_the_first_part() -> None:
    async def respond() -> tuple[list[bytes], list[bytes]]:
        heads_alone: list[bytes] = []
        writer = _asked_writer(heads_alone)
        parts = [
            writer.send(event) for event in (_head(), h11.Data(data=b"ok"), h11.EndOfMessage())
        ]
        await asyncio.sleep(0)
        return parts, heads_alone

    parts, heads_alone = asyncio.run(respond())
    assert parts == [b"", b"HTTP/1.1 200 \r\nContent-Length: 2\r\n\r\nok", b""]
    assert heads_alone == []


def test_response_writer__the_head_whose_first_part_comes_later_is_sent_before_it() -> None:
    async def respond() -> tuple[list[bytes], bytes]:
        heads_alone: list[bytes] = []
        writer = _asked_writer(heads_alone)
        writer.send(_head())
        await asyncio.sleep(0)
        return heads_alone, writer.send(h11.Data(data=b"ok"))

    heads_alone, part = asyncio.run(respond())
    assert heads_alone == [b"HTTP/1.1 200 \r\nContent-Length: 2\r\n\r\n"]
    assert part == b"ok"


def _asked_writer(heads_alone: list[bytes]) -> ResponseWriter:
    """A connection that has received a request; it writes heads without a part into `heads_alone`."""
    writer = ResponseWriter(1024, heads_alone.append)
    writer.receive_data(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    while not isinstance(writer.next_event(), h11.EndOfMessage):
        pass
    return writer


def _head() -> h11.Response:
    return h11.Response(status_code=200, headers=[("Content-Length", "2")])
