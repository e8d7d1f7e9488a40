"""The head of a response leaves with its first part, or alone when that part is not ready at once."""

import asyncio

import h11

from app.core.web.http_protocol import ResponseWriter


def test_head__is_sent_with_the_first_part() -> None:
    async def respond() -> tuple[list[bytes], list[bytes]]:
        alone: list[bytes] = []
        writer = _asked(alone)
        sent = [writer.send(event) for event in (_head(), h11.Data(data=b"ok"), h11.EndOfMessage())]
        await asyncio.sleep(0)
        return sent, alone

    sent, alone = asyncio.run(respond())
    assert sent == [b"", b"HTTP/1.1 200 \r\nContent-Length: 2\r\n\r\nok", b""]
    assert alone == []


def test_head__whose_first_part_comes_later_is_sent_before_it() -> None:
    async def respond() -> tuple[list[bytes], bytes]:
        alone: list[bytes] = []
        writer = _asked(alone)
        writer.send(_head())
        await asyncio.sleep(0)
        return alone, writer.send(h11.Data(data=b"ok"))

    alone, part = asyncio.run(respond())
    assert alone == [b"HTTP/1.1 200 \r\nContent-Length: 2\r\n\r\n"]
    assert part == b"ok"


def _asked(alone: list[bytes]) -> ResponseWriter:
    """A connection that has received a request; it writes heads without a part into `alone`."""
    writer = ResponseWriter(1024, alone.append)
    writer.receive_data(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    while not isinstance(writer.next_event(), h11.EndOfMessage):
        pass
    return writer


def _head() -> h11.Response:
    return h11.Response(status_code=200, headers=[("Content-Length", "2")])
