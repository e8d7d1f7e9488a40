"""The trend of a KPI: a period that a reader chooses, and the incidents of its values."""

import re
from datetime import UTC, datetime, timedelta
from html import unescape
from typing import Final

import pytest
from sqlalchemy import text

from tests.support.many_runs import write_many_runs
from tests.support.service import Service

HTML: Final = {"Accept": "text/html"}
TREND: Final = "/benchmarks/support/kpis/support-pass"


def read_page(service: Service, path: str) -> str:
    response = service.client.get(path, headers=HTML)
    assert response.status_code == 200, response.text
    return unescape(re.sub(r"\s+", " ", str(response.text)))


def test_trend__shows_the_days_that_a_reader_chooses(month: Service) -> None:
    """Ten days of a month of one run a day."""
    first, last = (datetime.now(UTC).date() - timedelta(days=days) for days in (19, 10))
    page = read_page(month, f"{TREND}?agent=billing&from={first}&to={last}")
    assert page.count('<a data-key="o"') == 10
    assert f'name="from" value="{first}"' in page
    assert f"10 from {first} to {last}" in re.sub(r"<[^>]+>", "", page)
    # The first is the trend, another one its incidents.
    address, *_ = re.findall(r'type="application/json" href="([^"]+)"', page)
    assert len(month.client.get(address).json()["items"]) == 10
    [csv] = re.findall(r'href="([^"]+kpi-history.csv[^"]+)"', page)
    assert len(month.client.get(csv).text.splitlines()) == 1 + 10
    wrong = month.client.get(f"{TREND}?from=yesterday", headers=HTML)
    assert wrong.status_code == 422


@pytest.mark.parametrize("end", [None, 1])
def test_trend__marks_an_incident_over_its_runs(end: int | None, month: Service) -> None:
    """Criterion 16: it began four runs ago; an ended one ended with the last run."""
    with month.resources.db.begin() as session:
        session.execute(
            text(
                "WITH runs AS (SELECT seq, row_number() OVER (ORDER BY seq DESC) AS back"
                " FROM benchmark_runs WHERE agent_id = 'billing' AND benchmark_id = 'support')"
                " UPDATE incidents SET started_seq = (SELECT seq FROM runs WHERE back = 4),"
                " end_seq = (SELECT seq FROM runs WHERE back = :end)"
            ),
            {"end": end},
        )
    page = read_page(month, f"{TREND}?agent=billing")
    [width] = re.findall(
        r'<a href="/incidents/alert-0" tabindex="-1"><title>incident: pass rate regressed, open</title>'
        r'<rect class="span-regressed" [^>]*width="([\d.]+)"',
        page,
    )
    points = [float(x) for x in re.findall(r'data-point tabindex="-1">.*?cx="([\d.]+)"', page)]
    step = points[1] - points[0]
    assert float(width) == pytest.approx((3 if end is None else 2) * step + 16, abs=0.3)
    assert "/incidents/alert-0" in page.partition("<dt>Incidents</dt>")[2]


def test_trend__false_alarm_is_no_incident(month: Service) -> None:
    with month.resources.db.begin() as session:
        session.execute(text("UPDATE incidents SET verdict = 'noise'"))
    page = read_page(month, f"{TREND}?agent=billing")
    assert "/incidents/alert-0" not in page
    assert "none in this period" in page


def test_trend__of_many_runs_marks_an_incident(service: Service) -> None:
    """Criterion 15: at most 180 points."""
    with service.resources.db.begin() as session:
        write_many_runs(session, months=8)
        session.execute(text("UPDATE incidents SET started_at = now() - interval '20 d'"))
    page = read_page(service, f"{TREND}?agent=billing&days=3660")
    assert '<a href="/incidents/alert-0" tabindex="-1">' in page
    assert "consecutive runs" in page
    assert 0 < page.count("data-point") <= 180
