"""Morning: an alert is acknowledged, and the time since the last visit is offered."""

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from mosaico.overview.visits import Visits, read_visits
from tests.support.every_page import RUN
from tests.support.page_reads import HTML, read_json, read_page
from tests.support.service import Service

NOW: Final = datetime(2026, 11, 23, 6, 0, tzinfo=UTC)


def test_morning__acknowledges_the_alert_of_a_regressed_run(month: Service) -> None:
    page = read_page(month, "/")
    form = re.search(r'action="/incidents/judge".*?</form>', page, re.DOTALL)
    assert form is not None
    fields = dict(re.findall(r'name="(\w+)" value="([^"]*)"', form[0]))
    response = month.client.post(
        "/incidents/judge", data=fields, headers=HTML, follow_redirects=False
    )
    assert (response.status_code, response.headers["location"]) == (303, "/")
    assert 'action="/incidents/judge"' not in read_page(month, "/")
    [cell] = [c for c in read_json(month, "/overview")["cells"] if c["runId"] == RUN]
    assert cell["openAlerts"] == []


def test_morning__offers_the_time_since_the_last_visit(read_month: Service) -> None:
    now = datetime.now(UTC).replace(microsecond=0)
    last = f"{now - timedelta(hours=9):%Y-%m-%dT%H:%M:%SZ}"
    first = read_page(read_month, "/")
    assert "last visit" not in first
    page = read_page(read_month, "/", Cookie=f"mosaico_visits={last}")
    address = f"/?from={last.replace(':', '%3A')}"
    assert f'href="{address}"' in page
    response = read_month.client.get(address, headers={**HTML, "Cookie": f"mosaico_visits={last}"})
    assert "since your last visit" in response.text
    assert read_json(read_month, f"/overview?from={last.replace(':', '%3A')}")["since"] == last


def test_visits__a_reload_continues_a_visit_and_a_wrong_cookie_has_none() -> None:
    first = read_visits("", NOW)
    assert first == Visits(NOW, None)
    again = read_visits(str(first), NOW + timedelta(minutes=5))
    assert again.last is None
    second = read_visits(str(again), NOW + timedelta(hours=20))
    assert second.last == NOW + timedelta(minutes=5)
    # A visit ends when no page was opened for an hour.
    assert read_visits(str(second), NOW + timedelta(hours=20, minutes=59)).last == second.last
    for cookie in ("x", "..", "2026-13-01T00:00:00Z", "2999-01-01T00:00:00Z"):
        assert read_visits(cookie, NOW) == Visits(NOW, None)
