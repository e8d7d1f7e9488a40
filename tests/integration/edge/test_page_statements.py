"""The statements of a page: they read no columns that it does not show."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest
from sqlalchemy import event

from tests.support.every_page import write_every_page
from tests.support.service import Service

HTML: Final = {"Accept": "text/html"}


@pytest.fixture(scope="module")
def month(module_service: Service) -> Service:
    with module_service.resources.db.begin() as session:
        write_every_page(session)
    return module_service


@contextmanager
def counted_statements(service: Service) -> Iterator[list[str]]:
    """The statements that the service sends to the database in the block."""
    engine, statements = service.resources.db.engine, list[str]()

    def count(_connection: object, _cursor: object, statement: str, *_: Any) -> None:
        # The key of the request is looked up once a second, and its use is noted once a minute.
        if not statement.startswith(("SELECT api_keys", "UPDATE api_keys")):
            statements.append(statement)

    event.listen(engine, "before_cursor_execute", count)
    try:
        yield statements
    finally:
        event.remove(engine, "before_cursor_execute", count)


def read_page(service: Service, path: str) -> list[str]:
    """The statements of a page."""
    with counted_statements(service) as statements:
        response = service.client.get(path, headers=HTML)
    assert response.status_code == 200, response.text
    return statements


def test_list_of_runs__reads_no_document_of_a_run(month: Service) -> None:
    """Plans, verdicts and evidence of a run have kilobytes; the list shows one word of them."""
    [rows] = [sql for sql in read_page(month, "/runs") if "benchmark_runs.run_name" in sql]
    for column in ("verdict", "validity_reasons", "trace_window", "write_back", "plan"):
        assert f"benchmark_runs.{column}" not in rows
