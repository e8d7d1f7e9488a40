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
    svg = page[page.index('<svg class="chart"') :]
    svg = svg[: svg.index("</svg>")]
    lines = re.findall(r'<polyline class="line" points="[^"]+"[^>]*>', svg)
    # Each agent has a line and a sample of it beside its name.
    assert len(lines) == 4
    assert len({re.sub('points="[^"]+"', "", line) for line in lines}) == 2
    assert svg.count("data-point") == 60
    assert "<title>Billing bot, " in svg
    assert "<title>SQL copilot, " in svg
    rows = re.findall(r"<tr data-row>.*?</tr>", page, re.DOTALL)
    assert {
        row.count("<td>Billing bot</td>") + row.count("<td>SQL copilot</td>") for row in rows
    } == {1}
    assert len(rows) == 60
    [table, picture] = [
        unescape(link) for link in re.findall(r'href="(/api/v1/kpi-history\.[^"]*)"', page)
    ]
    assert {row["agentId"] for row in read_csv(read_month, table)} == {"billing", "sql"}
    assert "pass rate of Billing bot and SQL copilot" in read_month.client.get(picture).text
    five = "".join(f"&agent=agent-{number}" for number in range(5))
    assert read_month.client.get(f"{path}{five}", headers=HTML).status_code == 422


def test_trend__json_has_the_points_of_a_chart_of_many_runs(service: Service) -> None:
    """Seven months of 30 runs: 210 runs in 105 points of two."""
    with service.resources.db.begin() as session:
        write_many_runs(session, months=7)
    path = "/benchmarks/support/kpis/support-pass?agent=billing&days=3660"
    html = service.client.get(path, headers={"Accept": "text/html"}).text
    [address] = re.findall(r'rel="alternate" type="application/json" href="([^"]+)"', html)
    points = service.client.get(address.replace("&amp;", "&")).json()["items"]
    # At most 180 points fit into a chart, so two runs share one.
    assert len(points) == html.count("data-point") == 105
    assert sum(point["runs"] for point in points) == 210
    assert all(point["low"] <= point["mean"] <= point["high"] for point in points)
    assert points == sorted(points, key=lambda point: point["firstAt"])
