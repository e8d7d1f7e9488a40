"""What belongs together: the id of the request that began something, wherever it goes on.

It stands in every line that is logged meanwhile, goes along with the jobs that are enqueued and
the calls that are made, and comes back when a worker does the job.

Source: W3C Trace Context, section 3.2 (`traceparent` is handed on as it came).
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import structlog

REQUEST_ID = "request_id"
TRACEPARENT = "traceparent"
HEADERS: Mapping[str, str] = {REQUEST_ID: "X-Request-Id", TRACEPARENT: "traceparent"}

_TRACEPARENT = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}"
)


def get_correlation() -> dict[str, str]:
    """What goes along from here: `request_id`, and `traceparent` if the client sent one."""
    bound = structlog.contextvars.get_contextvars()
    return {name: bound[name] for name in HEADERS if name in bound}


def current_request_id() -> str | None:
    """The id of the request that this work belongs to."""
    return get_correlation().get(REQUEST_ID)


def outbound_headers() -> dict[str, str]:
    """What a call to another server says about where it comes from."""
    return {HEADERS[name]: value for name, value in get_correlation().items()}


@contextmanager
def bind_correlation(values: Mapping[str, str]) -> Iterator[None]:
    """Go on with what another process or thread began."""
    correlation = {name: values[name] for name in HEADERS if name in values}
    with structlog.contextvars.bound_contextvars(**correlation):
        yield


def is_traceparent(text: str) -> bool:
    return _TRACEPARENT.fullmatch(text) is not None
