"""The trend of more runs than fit into a chart: several runs share a point."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import text

from mosaico.run_store.kpi_trend import MAX_POINTS, TrendBucket, list_trend_buckets
from tests.support.many_runs import write_many_runs
from tests.support.page_reads import read_page
from tests.support.service import Service


@pytest.fixture(scope="module")
def many(module_service: Service) -> Service:
    """Seven months of 30 runs."""
    with module_service.resources.db.begin() as session:
        write_many_runs(session, months=7)
    return module_service


def list_buckets(service: Service) -> list[TrendBucket]:
    since = datetime.now(UTC) - timedelta(days=3650)
    with service.resources.db.read() as session:
        return list_trend_buckets(session, "support", "billing", "support-pass", since=since)


def test_trend__many_runs_are_buckets_with_mean_range_and_worst_verdict(many: Service) -> None:
    with many.resources.db.read() as session:
        query = "kpi_id = 'support-pass' AND agent_id = 'billing' AND validity = 'VALID'"
        rows = (
            session.execute(text(f"SELECT value FROM kpi_history WHERE {query} ORDER BY id"))
            .scalars()
            .all()
        )
    buckets = list_buckets(many)
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
    page = read_page(many, "/benchmarks/support/kpis/support-pass?agent=billing&days=3650")
    assert page.count("data-point") == len(buckets)
    assert f"A point is {size} consecutive runs, {len(rows)} in all" in page
    short = read_page(many, "/benchmarks/support/kpis/support-pass?agent=billing&days=30")
    assert "A point is a run" in short


def test_trend__the_last_point_is_the_newest_run_and_not_a_mean(many: Service) -> None:
    with many.resources.db.read() as session:
        newest = session.execute(
            text(
                "SELECT run_id, value FROM kpi_history"
                " WHERE kpi_id = 'support-pass' AND agent_id = 'billing' ORDER BY id DESC LIMIT 1"
            )
        ).one()
    buckets = list_buckets(many)
    last = buckets[-1]
    assert (last.runs, last.run_id, last.mean) == (1, newest.run_id, newest.value)
    assert buckets[0].runs > 1


def test_trend__json_has_the_points_of_a_chart_of_many_runs(many: Service) -> None:
    """The newest run alone, and 209 runs in 105 points of two or one."""
    path = "/benchmarks/support/kpis/support-pass?agent=billing&days=3660"
    html = many.client.get(path, headers={"Accept": "text/html"}).text
    [address] = re.findall(r'rel="alternate" type="application/json" href="([^"]+)"', html)
    points = many.client.get(address.replace("&amp;", "&")).json()["items"]
    # At most 180 points fit into a chart, so two runs share one.
    assert len(points) == html.count("data-point") == 106
    assert sum(point["runs"] for point in points) == 210
    assert all(point["low"] <= point["mean"] <= point["high"] for point in points)
    assert points == sorted(points, key=lambda point: point["firstAt"])
