"""Reads pages, JSON and CSV files of a service, each of which has to be there."""

import csv
import io
import re
from typing import Any, Final

from tests.support.service import Service

HTML: Final = {"Accept": "text/html", "Sec-Fetch-Site": "same-origin"}
# Elements that begin and end a line or a cell: a browser shows no whitespace beside their tags.
_BLOCKS: Final = (
    "article|datalist|dd|details|div|dl|dt|fieldset|form|h[1-3]|legend|li|main|nav|ol|option|p|section|select|summary"
    "|table|tbody|td|th|thead|tr|ul"
)
_BLOCK_TAG: Final = re.compile(rf"\s*(</?(?:{_BLOCKS})(?:\s[^>]*)?>)\s*")


def read_page(service: Service, path: str, **headers: str) -> str:
    response = service.client.get(path, headers={**HTML, **headers})
    assert response.status_code == 200, response.text
    return strip_hidden_spaces(response.text)


def strip_hidden_spaces(html: str) -> str:
    """A page without the whitespace that a browser does not show: the indentation of its template."""
    return re.sub(r"\s+(>?)", lambda space: space[1] or " ", _BLOCK_TAG.sub(r"\1", html))


def read_json(service: Service, path: str) -> Any:
    response = service.client.get(f"/api/v1{path}")
    assert response.status_code == 200, response.text
    return response.json()


def read_csv(service: Service, path: str) -> list[dict[str, str]]:
    response = service.client.get(path)
    assert response.headers["content-type"].startswith("text/csv")
    return list(csv.DictReader(io.StringIO(response.text)))
