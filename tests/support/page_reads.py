"""Reads pages, JSON and CSV files of a service, each of which has to be there."""

import csv
import io
from typing import Any, Final

from tests.support.service import Service

HTML: Final = {"Accept": "text/html", "Sec-Fetch-Site": "same-origin"}


def read_page(service: Service, path: str, **headers: str) -> str:
    response = service.client.get(path, headers={**HTML, **headers})
    assert response.status_code == 200, response.text
    return response.text


def read_json(service: Service, path: str) -> Any:
    response = service.client.get(f"/api/v1{path}")
    assert response.status_code == 200, response.text
    return response.json()


def read_csv(service: Service, path: str) -> list[dict[str, str]]:
    response = service.client.get(path)
    assert response.headers["content-type"].startswith("text/csv")
    return list(csv.DictReader(io.StringIO(response.text)))
