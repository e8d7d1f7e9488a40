"""The page of a schedule: when it fires next, and its last fires."""

import pytest
from sqlalchemy import text

from tests.support.every_page import write_every_page
from tests.support.service import Service


@pytest.fixture(scope="module")
def service(module_service: Service) -> Service:
    with module_service.resources.db.begin() as session:
        write_every_page(session)
    return module_service


def read_page(service: Service) -> str:
    response = service.client.get("/schedules/nightly", headers={"Accept": "text/html"})
    assert response.status_code == 200, response.text
    return response.text


def test_schedule_page__of_a_paused_schedule_promises_no_fire(service: Service) -> None:
    with service.resources.db.begin() as session:
        session.execute(text("UPDATE schedule_configs SET enabled = false"))
    assert "<h2>Next, once it is resumed</h2>" in read_page(service)
    with service.resources.db.begin() as session:
        session.execute(text("UPDATE schedule_configs SET enabled = true"))
    assert "<h2>Next</h2>" in read_page(service)
