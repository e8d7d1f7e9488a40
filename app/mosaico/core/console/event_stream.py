"""Reads the server-sent events of the service."""

import json
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple


class ServerSentEvent(NamedTuple):
    """A server-sent event; `data` is None for a keep-alive comment."""

    id: str | None
    data: dict[str, Any] | None


class EventParser:
    """Reads the events of a stream line by line, keep-alive comments included.

    Source: WHATWG HTML, section 9.2 Server-sent events.
    """

    def __init__(self) -> None:
        self._id: str | None = None
        self._data: list[str] = []

    def read_line(self, line: str) -> ServerSentEvent | None:
        """The event that a line ends, if any."""
        name, _, value = line.partition(":")
        # One space after the colon belongs to the format, a second one to the value.
        value = value.removeprefix(" ")
        if not line:
            return self._end_event()
        if not name:
            return ServerSentEvent(self._id, None)
        if name == "id":
            self._id = value
        elif name == "data":
            self._data.append(value)
        return None

    def _end_event(self) -> ServerSentEvent | None:
        data, self._data = self._data, []
        # Source: an event without data is not dispatched.
        return ServerSentEvent(self._id, json.loads("\n".join(data))) if data else None


def read_events(lines: Iterable[str]) -> Iterator[ServerSentEvent]:
    """The events in the lines of a stream."""
    parser = EventParser()
    for line in lines:
        event = parser.read_line(line)
        if event is not None:
            yield event
