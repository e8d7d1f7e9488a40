"""Stored rows that the API would refuse, from SQL or from before a rule: each is shown, and takes no page down."""

import pytest
from sqlalchemy import text

from tests.support.every_page import page_paths, write_every_page
from tests.support.service import Service

# A line break, and more characters than a name has.
REFUSED = "two\nlines " + "x" * 300
TEXTS = (
    ("agents", "name"), ("agents", "description"), ("agents", "langfuse_project_name"), ("agents", "otel_service_name"),
    ("benchmarks", "dataset_ref"), ("benchmarks", "run_name"), ("benchmarks", "cluster_field"),
    ("kpi_definitions", "unit"), ("kpi_definitions", "name"),
    ("alert_rules", "name"), ("alert_events", "name"), ("incidents", "name"),
    ("schedule_configs", "name"), ("schedule_configs", "run_name_pattern"),
    ("local_datasets", "name"), ("local_datasets", "run_name"),
    ("benchmark_runs", "run_name"), ("api_keys", "name"), ("alert_silences", "comment"), ("webhook_secrets", "name"),
)  # fmt: skip
LISTS = (
    "/agents", "/benchmarks", "/benchmarks/support", "/benchmarks/support/kpis", "/benchmarks/support/kpis/support-pass",
    "/alert-configs", "/schedule-configs", "/local-datasets", "/benchmark-runs", "/alerts", "/incidents", "/silences",
    "/kpi-history", "/endpoints", "/keys", "/inbox", "/overview", "/overview/search?text=two", "/notifications",
    "/benchmarks/support/webhook-secrets",
)  # fmt: skip


@pytest.fixture
def odd_rows(service: Service) -> Service:
    with service.resources.db.begin() as session:
        write_every_page(session)
        session.flush()
        for table, column in TEXTS:
            # The end of each text keeps unique names unique.
            session.execute(text(f"UPDATE {table} SET {column} = :value || substr(md5(coalesce({column}, id)), 1, 6)"), {"value": REFUSED})  # fmt: skip
    return service


def test_pages_and_lists__show_stored_texts_that_the_api_would_refuse(odd_rows: Service) -> None:
    requests = [
        *((path, "text/html") for path in page_paths()),
        *((f"/api/v1{path}", "application/json") for path in LISTS),
    ]
    statuses = {
        path: odd_rows.client.get(path, headers={"Accept": accepted}).status_code
        for path, accepted in requests
    }

    # The states of pages without data are among them.
    assert {path: status for path, status in statuses.items() if status not in (200, 404)} == {}
    assert {statuses[f"/api/v1{path}"] for path in LISTS} == {200}
