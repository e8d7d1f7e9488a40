"""The queries of the Grafana dashboard, run by a role that can read only its views."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest

from tests.integration.docs.test_examples import blocks
from tests.integration.safety.conftest import RoleWith
from tests.support.postgres import url_of
from tests.support.service import Service, pair

DASHBOARD = json.loads(Path("docs/grafana/mosaico.json").read_text())
PANELS = {panel["title"]: panel["targets"][0]["rawSql"] for panel in DASHBOARD["panels"]}
OTHERS = [
    *(annotation["target"]["rawSql"] for annotation in DASHBOARD["annotations"]["list"]),
    *(
        variable["query"]
        for variable in DASHBOARD["templating"]["list"]
        if variable["type"] == "query"
    ),
]


def as_grafana_sends_it(query: str) -> str:
    """The query with the macros and variables of Grafana replaced."""
    query = re.sub(
        r"\$__timeFilter\((\w+)\)", r"\1 BETWEEN now() - interval '30 days' AND now()", query
    )
    return query.replace("$benchmark", "'bench-001','other'").replace("$agent", "'agent-001'")


def seed(service: Service) -> None:
    """Two runs: the second one fires an alert, whose message has an unreachable recipient."""
    service.create_agent()
    service.create_benchmark(metrics=["ROUGE"], measures=[{"name": "quality", "formula": "ROUGE"}])
    service.post(
        "/alert-configs",
        {
            "name": "quality falls",
            "benchmarkId": "bench-001",
            "kpi": "quality",
            "condition": "PERCENTAGE_DROP",
            "threshold": 10,
            "channels": ["WEBHOOK"],
            "recipients": ["http://127.0.0.1:1/nobody"],
        },
    )
    for run_name, output in (("run-1", "a b c d"), ("run-2", "x")):
        service.upload([pair(1, output=output)], run_name=run_name)
        service.complete_run(runName=run_name)


@pytest.fixture
def reader(
    service: Service, role_with: RoleWith, superuser_url: str
) -> Iterator["psycopg.Connection[Any]"]:
    """A connection with the documented role, on a database with data."""
    seed(service)
    url = role_with("")
    address = urlsplit(url)
    [commands] = [
        block for block in blocks("docs/deployment.md", "sql") if "mosaico_grafana" in block
    ]
    _, grants = commands.split(";", 1)  # the role already exists
    here = url_of(superuser_url, address.path.lstrip("/"))
    with psycopg.connect(here, autocommit=True) as connection:
        connection.execute(grants.replace("mosaico_grafana", str(address.username)).encode())
    with psycopg.connect(url, autocommit=True) as connection:
        yield connection


def test_dashboard__every_query_returns_the_stored_rows(
    reader: "psycopg.Connection[Any]",
) -> None:
    rows_by_title = {
        title: reader.execute(as_grafana_sends_it(query).encode()).fetchall()
        for title, query in PANELS.items()
    }
    assert [title for title, rows in rows_by_title.items() if not rows] == []
    assert rows_by_title["Firing now"] == [(1,)]
    assert [(row[1], row[2]) for row in rows_by_title["KPIs"]] == [
        ("bench-001, agent-001: quality", 1.0),
        ("bench-001, agent-001: quality", 0.0),
    ]
    assert rows_by_title["Alerts"][0][1:3] == ("FIRING", "quality falls")
    assert rows_by_title["Deliveries"][0][:3] == ("WEBHOOK", "PENDING", 1)
    for query in OTHERS:
        assert reader.execute(as_grafana_sends_it(query).encode()).fetchall()


def test_dashboard_role__cannot_read_tables(reader: "psycopg.Connection[Any]") -> None:
    for table in ("endpoints", "collected_traces", "benchmark_runs", "api_keys"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            reader.execute(f"SELECT 1 FROM {table}".encode())


def test_dashboard__every_panel_has_the_fields_of_its_type() -> None:
    for panel in DASHBOARD["panels"]:
        [target] = panel["targets"]
        times = " AS time" in target["rawSql"]
        assert target["format"] == ("time_series" if panel["type"] == "timeseries" else "table")
        assert times or panel["type"] != "timeseries"
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)
