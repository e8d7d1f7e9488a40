"""Correlation ids: the request that caused a log line, a job or an outbound call.

The ids are part of every log line, of the arguments of enqueued jobs and of the headers of
outbound calls; a worker restores them when it runs the job.

Source: W3C Trace Context, section 3.2 (`traceparent` is forwarded unchanged).
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
    """The current ids: `request_id`, and `traceparent` if the client sent one."""
    bound = structlog.contextvars.get_contextvars()
    return {name: bound[name] for name in HEADERS if name in bound}


def current_request_id() -> str | None:
    """The id of the current request."""
    return get_correlation().get(REQUEST_ID)


def outbound_headers() -> dict[str, str]:
    """The correlation headers of a call to another server."""
    return {HEADERS[name]: value for name, value in get_correlation().items()}


@contextmanager
def bind_correlation(values: Mapping[str, str]) -> Iterator[None]:
    """Use the ids of another process or thread until the block ends."""
    correlation = {name: values[name] for name in HEADERS if name in values}
    with structlog.contextvars.bound_contextvars(**correlation):
        yield


def is_traceparent(text: str) -> bool:
    """Return whether a text is a valid `traceparent` header."""
    return _TRACEPARENT.fullmatch(text) is not None
