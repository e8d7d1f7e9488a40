"""Reads the server-sent events of the service."""

import json
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple


class ServerSentEvent(NamedTuple):
    """A server-sent event; `data` is None for a keep-alive comment."""

    id: str | None
    data: dict[str, Any] | None


def read_events(lines: Iterable[str]) -> Iterator[ServerSentEvent]:
    """The events in the lines of a stream, keep-alive comments included.

    Source: WHATWG HTML, section 9.2 Server-sent events.
    """
    event_id, data = None, list[str]()
    for line in lines:
        name, _, value = line.partition(":")
        if not line:
            # Source: an event without data is not dispatched.
            if data:
                yield ServerSentEvent(event_id, json.loads("\n".join(data)))
            data = []
        elif not name:
            yield ServerSentEvent(event_id, None)
        elif name == "id":
            # One space after the colon belongs to the format, a second one to the value.
            event_id = value.removeprefix(" ")
        elif name == "data":
            data.append(value.removeprefix(" "))
