"""The stand-in keeps the contract of the real server, so that what passes here passes there."""

import json
from collections.abc import Iterator
from typing import Any

import httpx

from tests.support.langfuse import StandIn

EVER = "2020-01-01T00:00:00Z"
JSON = dict[str, Any]


def get(reader: httpx.Client, path: str, **parameters: Any) -> JSON:
    response = reader.get(path, params=parameters)
    assert response.status_code == 200, response.text
    answer: JSON = response.json()
    return answer


def pages(reader: httpx.Client, path: str, **parameters: Any) -> Iterator[list[JSON]]:
    """Every page, by cursor."""
    page = get(reader, path, **parameters)
    yield page["data"]
    while "cursor" in page["meta"]:
        page = get(reader, path, **parameters, cursor=page["meta"]["cursor"])
        yield page["data"]


def rows(reader: httpx.Client, path: str, **parameters: Any) -> list[JSON]:
    return [row for page in pages(reader, path, **parameters) for row in page]


def named(name: str) -> str:
    return json.dumps([{"type": "string", "column": "name", "operator": "=", "value": name}])


def test_a_run_with_a_comma_is_found_by_filter_only(
    langfuse: StandIn, reader: httpx.Client
) -> None:
    made = langfuse.experiment(run="night 1/ö,x", items=3)

    split = get(reader, "/experiments", fromStartTime=EVER, name="night 1/ö,x")
    whole = get(reader, "/experiments", fromStartTime=EVER, filter=named("night 1/ö,x"))

    assert split["data"] == []
    assert [(run["id"], run["itemCount"]) for run in whole["data"]] == [(made.id, 3)]


def test_rows_come_newest_first_on_pages_of_at_most_a_hundred(
    langfuse: StandIn, reader: httpx.Client
) -> None:
    made = langfuse.experiment(items=250)

    found = list(
        pages(reader, "/experiment-items", fromStartTime=EVER, experimentId=made.id, limit=100)
    )

    assert [len(page) for page in found] == [100, 100, 50]
    items = [row["experimentItemId"] for page in found for row in page]
    assert items == [f"dataset-1-{number}" for number in reversed(range(250))]
