"""`python -m benchmarks history` requests every route, so each has the query that it needs."""

from benchmarks.history import EXCLUDED, QUERIES
from mosaico.api import PREFIX
from tests.support.described_api import api_document, list_event_streams
from tests.support.every_page import QUERIES as PAGE_QUERIES


def test_long_history__has_the_query_of_each_route_that_needs_one() -> None:
    required = {
        path.removeprefix(PREFIX)
        for path, operations in api_document()["paths"].items()
        for parameter in operations.get("get", {}).get("parameters", [])
        if parameter["in"] == "query" and parameter.get("required")
    }

    assert required | PAGE_QUERIES.keys() <= QUERIES.keys()


def test_long_history__leaves_out_the_routes_that_do_not_end() -> None:
    streams = {
        operation.removeprefix(f"GET {PREFIX}") for operation in list_event_streams(api_document())
    }

    assert streams == EXCLUDED
