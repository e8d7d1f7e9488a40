"""The queries of the Grafana dashboard, run by a role that can read only its views."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest

from mosaico.statistics.verdict_rules import Verdict
from tests.integration.docs.test_examples import blocks
from tests.integration.safety.conftest import RoleWith
from tests.support.postgres import url_of
from tests.support.service import Service, pair
from tests.support.stored import DatabaseReader

DASHBOARD = json.loads(Path("docs/grafana/mosaico.json").read_text())
PANELS = {panel["title"]: panel["targets"][0]["rawSql"] for panel in DASHBOARD["panels"]}
KPI = "bench-001, agent-001: quality"
POINTS = {
    "REGRESSED": "regressed",
    "IMPROVED": "improved",
    "CHANGED": "changed",
    "INCONCLUSIVE": "inconclusive",
    "NO_EVIDENCE": "no evidence",
}
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
    query = query.replace("$__timeFrom()", "now() - interval '30 days'").replace(
        "$__timeTo()", "now()"
    )
    values = {"$benchmark": "'bench-001','other'", "$agent": "'agent-001'", "$kpi": f"'{KPI}'"}
    for variable, value in values.items():
        query = query.replace(variable, value)
    return query


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
        block for block in blocks("docs/monitoring.md", "sql") if "mosaico_grafana" in block
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
    assert [row[1] for row in rows_by_title["$kpi"]] == [1.0, 0.0]
    assert rows_by_title["Alerts"][0][1:3] == ("FIRING", "quality falls")
    assert rows_by_title["Deliveries"][0][:3] == ("WEBHOOK", "PENDING", 1)
    for query in OTHERS:
        assert reader.execute(as_grafana_sends_it(query).encode()).fetchall()


def test_dashboard__kpi_has_a_band_and_a_point_for_each_verdict(
    service: Service, reader: "psycopg.Connection[Any]"
) -> None:
    stored = DatabaseReader(service.resources.db.url)
    [panel] = [panel for panel in DASHBOARD["panels"] if panel["title"] == "$kpi"]
    styles = {
        override["matcher"]["options"]: {
            item["id"]: item["value"] for item in override["properties"]
        }
        for override in panel["fieldConfig"]["overrides"]
    }
    for verdict, point in POINTS.items():
        stored.execute(
            "UPDATE kpi_history SET interval_low = value - 0.1, interval_high = value + 0.1,"
            " verdict = jsonb_build_object('verdict', %s::text)",
            verdict,
        )
        cursor = reader.execute(as_grafana_sends_it(PANELS["$kpi"]).encode())
        columns = [column.name for column in cursor.description or ()]
        for row in cursor:
            cells = {
                name: cell for name, cell in zip(columns, row, strict=True) if cell is not None
            }
            value = cells["value"]
            band = {"low": value - 0.1, "high": value + 0.1}
            assert cells == {"time": cells["time"], "value": value, **band, point: value}
        assert styles.keys() == {*columns} - {"time"}
    assert styles["high"]["custom.fillBelowTo"] == "low"
    colors = {styles[point]["color"]["fixedColor"] for point in POINTS.values()}
    assert len(colors) == len(POINTS)
    assert {*POINTS} == {*Verdict} - {Verdict.INVALID, Verdict.NOT_MEASURED}


def test_dashboard__incident_lasts_until_it_is_resolved(
    service: Service, reader: "psycopg.Connection[Any]"
) -> None:
    [annotation] = DASHBOARD["annotations"]["list"]
    query = as_grafana_sends_it(annotation["target"]["rawSql"]).encode()
    times = "SELECT created_at FROM alert_history WHERE state = %s"
    [[fired_at]] = reader.execute(times, ["FIRING"])

    [[began, ended, text, _]] = reader.execute(query)
    assert began == fired_at < ended
    assert text.startswith("bench-001, agent-001: quality falls: ")

    service.upload([pair(2)], run_name="run-3")
    service.complete_run(runName="run-3")
    [[resolved_at]] = reader.execute(times, ["RESOLVED"])
    [[began, ended, *_]] = reader.execute(query)
    assert (began, ended) == (fired_at, resolved_at)


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
