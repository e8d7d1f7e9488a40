"""The charts of a trend and their files: many runs, several agents."""

import re
from datetime import UTC, datetime, timedelta
from html import unescape

import pytest
from sqlalchemy import text

from mosaico.run_store.kpi_trend import MAX_POINTS, list_trend_buckets
from tests.support.many_runs import write_many_runs
from tests.support.page_reads import HTML, read_csv, read_page
from tests.support.service import Service


def test_trend__many_runs_are_buckets_with_mean_range_and_worst_verdict(service: Service) -> None:
    with service.resources.db.begin() as session:
        write_many_runs(session, months=13)
        query = "kpi_id = 'support-pass' AND agent_id = 'billing' AND validity = 'VALID'"
        rows = (
            session.execute(text(f"SELECT value FROM kpi_history WHERE {query} ORDER BY id"))
            .scalars()
            .all()
        )
        since = datetime.now(UTC) - timedelta(days=3650)
        buckets = list_trend_buckets(session, "support", "billing", "support-pass", since=since)
    assert len(rows) > MAX_POINTS
    assert len(buckets) <= MAX_POINTS
    assert sum(bucket.runs for bucket in buckets) == len(rows)
    size = buckets[0].runs
    first = rows[:size]
    assert buckets[0].mean == pytest.approx(sum(first) / size)
    assert (buckets[0].low, buckets[0].high) == (min(first), max(first))
    regressed = [bucket for bucket in buckets if bucket.verdict == "REGRESSED"]
    assert regressed
    assert all("billing-support" in bucket.run_id for bucket in regressed)
    page = read_page(service, "/benchmarks/support/kpis/support-pass?agent=billing&days=3650")
    assert page.count("data-point") == len(buckets)
    assert f"A point is {size} consecutive runs, {len(rows)} in all" in page
    short = read_page(service, "/benchmarks/support/kpis/support-pass?agent=billing&days=30")
    assert "A point is a run" in short


def test_trend__several_agents_share_a_chart_and_a_table(read_month: Service) -> None:
    path = "/benchmarks/support/kpis/support-pass?days=30"
    page = read_page(read_month, f"{path}&agent=billing&agent=sql")
    svg = page[page.index('<svg class="chart overlay wide-only"') :]
    svg = svg[: svg.index("</svg>")]
    lines = re.findall(r'<polyline class="agent-line (a\d)" ', svg)
    assert len(set(lines)) == len(lines) == 2
    # The agent is named at the end of its line, in its color.
    names = re.findall(r'<text class="agent-name (a\d)"[^>]*>([^<]*)<', svg)
    assert {name for _, name in names} == {"Billing bot", "SQL copilot"}
    assert {color for color, _ in names} == set(lines)
    assert svg.count("data-point") == 60
    assert "<title>Billing bot, " in svg
    assert "<title>SQL copilot, " in svg
    rows = re.findall(r"<tr data-row>.*?</tr>", page, re.DOTALL)
    assert len(rows) == 30
    assert all(row.count('href="/runs/run-billing-support-') == 1 for row in rows)
    assert all(row.count('href="/runs/run-sql-support-') == 1 for row in rows)
    [table, picture] = [
        unescape(link) for link in re.findall(r'href="(/api/v1/kpi-history\.[^"]*)"', page)
    ]
    assert {row["agentId"] for row in read_csv(read_month, table)} == {"billing", "sql"}
    assert "pass rate of Billing bot and SQL copilot" in read_month.client.get(picture).text
    seven = "".join(f"&agent=agent-{number}" for number in range(7))
    assert read_month.client.get(f"{path}{seven}", headers=HTML).status_code == 422


def test_trend__an_agent_has_the_same_color_alone_with_others_and_in_another_benchmark(
    read_month: Service,
) -> None:
    def colors(path: str) -> dict[str, str]:
        page = read_page(read_month, path)
        found = re.findall(r'<text class="agent-name (a\d)"[^>]*>([^<]*)<', page)
        return {name: color for color, name in found}

    support = colors("/benchmarks/support/kpis/support-pass?agent=billing&agent=sql")
    warehouse = colors("/benchmarks/warehouse/kpis/warehouse-pass?agent=triage&agent=sql")
    assert support["SQL copilot"] == warehouse["SQL copilot"]
    assert len({*support.values(), *warehouse.values()}) == 3


def test_trend__the_last_point_is_the_newest_run_and_not_a_mean(service: Service) -> None:
    with service.resources.db.begin() as session:
        write_many_runs(session, months=13)
        newest = session.execute(
            text(
                "SELECT run_id, value FROM kpi_history"
                " WHERE kpi_id = 'support-pass' AND agent_id = 'billing' ORDER BY id DESC LIMIT 1"
            )
        ).one()
        since = datetime.now(UTC) - timedelta(days=3650)
        buckets = list_trend_buckets(session, "support", "billing", "support-pass", since=since)
    last = buckets[-1]
    assert (last.runs, last.run_id, last.mean) == (1, newest.run_id, newest.value)
    assert buckets[0].runs > 1


def test_trend__json_has_the_points_of_a_chart_of_many_runs(service: Service) -> None:
    """Seven months of 30 runs: the newest one alone, and 209 runs in 105 points of two or one."""
    with service.resources.db.begin() as session:
        write_many_runs(session, months=7)
    path = "/benchmarks/support/kpis/support-pass?agent=billing&days=3660"
    html = service.client.get(path, headers={"Accept": "text/html"}).text
    [address] = re.findall(r'rel="alternate" type="application/json" href="([^"]+)"', html)
    points = service.client.get(address.replace("&amp;", "&")).json()["items"]
    # At most 180 points fit into a chart, so two runs share one.
    assert len(points) == html.count("data-point") == 106
    assert sum(point["runs"] for point in points) == 210
    assert all(point["low"] <= point["mean"] <= point["high"] for point in points)
    assert points == sorted(points, key=lambda point: point["firstAt"])
