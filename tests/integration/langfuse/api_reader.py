"""A plain client of the public API with the project's keys."""

import json
from collections.abc import Iterator
from typing import Any

import httpx

EVER = "2020-01-01T00:00:00Z"
JSON = dict[str, Any]


class ApiReader:
    def __init__(self, client: httpx.Client) -> None:
        self.client = client

    def get(self, path: str, **parameters: Any) -> JSON:
        response = self.client.get(path, params=parameters)
        assert response.status_code == 200, response.text
        answer: JSON = response.json()
        return answer

    def pages(self, path: str, **parameters: Any) -> Iterator[list[JSON]]:
        """Yield all pages by cursor."""
        page = self.get(path, **parameters)
        yield page["data"]
        while "cursor" in page["meta"]:
            page = self.get(path, **parameters, cursor=page["meta"]["cursor"])
            yield page["data"]

    def rows(self, path: str, **parameters: Any) -> list[JSON]:
        return [row for page in self.pages(path, **parameters) for row in page]


def condition(column: str, value: Any, kind: str = "string", operator: str = "=") -> JSON:
    return {"type": kind, "column": column, "operator": operator, "value": value}


def matching(*conditions: JSON) -> str:
    return json.dumps(conditions)
