"""Streams of server-sent events: the fuzzer leaves them out, since they do not end, so each has a test of its own."""

import ast
import inspect
from typing import Final

from fastapi.routing import APIRoute

from tests.support.described_api import api_document, api_routes, list_event_streams, route_id
from tests.support.processes import ROOT

# The test that reads the stream.
TESTS: Final = {
    "GET /api/v1/benchmark-runs/{runId}/events": (
        "integration/runs/test_runs.py",
        "test_run_events__stream_from_the_first_state_to_the_last",
    ),
    "GET /api/v1/notifications/events": (
        "integration/notifications/test_inbox.py",
        "test_inbox__events_are_streamed",
    ),
    "GET /api/v1/overview/events": (
        "integration/notifications/test_inbox.py",
        "test_inbox__stream_of_the_overview_counts_its_messages",
    ),
}


def test_event_streams__each_is_read_by_a_test() -> None:
    assert sorted(list_event_streams(api_document())) == sorted(TESTS)
    for file_name, name in TESTS.values():
        tree = ast.parse((ROOT / "tests" / file_name).read_text(encoding="utf-8"))
        [test] = [node for node in tree.body if getattr(node, "name", "") == name]
        assert "/events" in ast.unparse(test), name


def test_event_streams__every_route_that_streams_events_is_described_as_one() -> None:
    """Otherwise the fuzzer would wait for its end."""
    streaming = {
        route_id(route)
        for route in api_routes()
        if isinstance(route.original_route, APIRoute)
        and "stream_events(" in inspect.getsource(route.original_route.endpoint)
    }

    assert streaming == list_event_streams(api_document())
