"""Pages of the inbox, of rules and of alerts: what they link to, and which silences they show."""

import csv
import re
from datetime import UTC, datetime, timedelta
from html import unescape
from io import StringIO

import pytest

from mosaico.alerts.details import AlertDetails, ContributingTrace
from mosaico.alerts.models import AlertEvent
from mosaico.alerts.publishing import EventNotice, publish_notice
from mosaico.alerts.rules import AlertEventState
from mosaico.notifications.service import publish
from mosaico.notifications.types import NotificationMessage
from tests.integration.alerts.conftest import RuleMaker
from tests.support.page_data import write_month
from tests.support.service import Service

HTML = {"Accept": "text/html", "Sec-Fetch-Site": "same-origin"}
NOW = datetime(2026, 11, 22, 7, tzinfo=UTC)


def read_page(service: Service, path: str) -> str:
    response = service.client.get(path, headers=HTML)
    assert response.status_code == 200, response.text
    return response.text


def link_of(page: str, text: str) -> str | None:
    """The address behind a text; None if the text has none."""
    links = re.findall(rf'<a [^>]*href="([^"]*)"[^>]*>{re.escape(text)}</a>', page)
    return unescape(links[0]) if links else None


@pytest.mark.parametrize(
    ("matchers", "is_silenced"),
    [
        ({"name": "quality*"}, True),
        ({"name": "nightly-*"}, False),
        ({"severity": "WARNING"}, True),
        ({"severity": "INFO"}, False),
        ({"agentId": "agent-001"}, True),
        ({"agentId": "agent-002"}, False),
        ({"alertConfigId": "rule-1", "severity": "WARNING"}, True),
        ({"benchmarkId": "bench-001", "severity": "CRITICAL"}, False),
    ],
)
def test_rule_page__shows_the_silences_that_hold_back_its_alerts(
    benchmark_service: Service,
    create_rule: RuleMaker,
    matchers: dict[str, str],
    is_silenced: bool,
) -> None:
    benchmark_service.create_agent("agent-002")
    create_rule(agentId="agent-001", severity="WARNING")
    benchmark_service.post("/silences", {"matchers": matchers, "endsAt": "2099-01-01T00:00:00Z"})
    assert ("Silenced until" in read_page(benchmark_service, "/alerts/rule-1")) is is_silenced


def test_rule_page__of_every_agent_shows_the_silence_of_one(
    benchmark_service: Service, create_rule: RuleMaker
) -> None:
    create_rule()
    silence = {"matchers": {"agentId": "agent-001"}, "endsAt": "2099-01-01T00:00:00Z"}
    benchmark_service.post("/silences", silence)
    assert "Silenced until" in read_page(benchmark_service, "/alerts/rule-1")


def test_inbox__message_without_a_run_links_to_its_own_page(benchmark_service: Service) -> None:
    links = {
        "Endpoint disabled": "/endpoints/e-1",
        "Daily summary": "/",
        "Other host": "//other.example/runs",
        "Other site": "https://other.example/runs",
        "Other scheme": "javascript:alert(1)",
        "Full address": f"{str(benchmark_service.client.base_url).rstrip('/')}/runs/r-1",
        "No link": None,
    }
    with benchmark_service.resources.db.begin() as session:
        for title, link in links.items():
            publish(session, NotificationMessage(topic="test", title=title, link=link), [])
    page = read_page(benchmark_service, "/inbox")
    assert {title: link_of(page, title) for title in links} == {
        **dict.fromkeys(links),
        "Endpoint disabled": "/endpoints/e-1",
        "Daily summary": "/",
        "Full address": "/runs/r-1",
    }


def test_missed_schedule__its_message_and_its_alert_link_to_the_schedule(
    benchmark_service: Service,
) -> None:
    notice = EventNotice(
        state=AlertEventState.SCHEDULE_MISSED, dedup_key="missed-1", name="every night",
        benchmark_id="bench-001", agent_id="agent-001", explanation="It started no run.",
        schedule_id="nightly/1", since=NOW - timedelta(hours=1),
    )  # fmt: skip
    with benchmark_service.resources.db.begin() as session:
        publish_notice(session, notice, NOW)
    [alert] = benchmark_service.list_items("/alerts")
    assert 'data-key="o" href="/schedules/nightly%2F1"' in read_page(benchmark_service, "/inbox")
    page = read_page(benchmark_service, f"/alerts/events/{alert['id']}")
    assert link_of(page, "every night") == "/schedules/nightly%2F1"


@pytest.fixture
def month(service: Service) -> Service:
    """A month of runs with a firing alert, `alert-0`."""
    with service.resources.db.begin() as session:
        write_month(session)
    return service


def test_alert_page__links_to_traces_whatever_their_ids_are(month: Service) -> None:
    trace_ids = {"case one": "run/1", "case two": "a?b#c d"}
    with month.resources.db.begin() as session:
        event = session.get_one(AlertEvent, "alert-0")
        event.details = AlertDetails(
            traces=tuple(
                ContributingTrace(metric="EXACT_MATCH", trace_id=trace_id, item_id=item, value=0.0)
                for item, trace_id in trace_ids.items()
            )
        )
    page = read_page(month, "/alerts/events/alert-0")
    run = "/runs/run-billing-support-0/traces"
    assert link_of(page, "case one") == f"{run}/run%2F1"
    assert link_of(page, "case two") == f"{run}/a%3Fb%23c%20d"


def test_alert_page__is_acknowledged_with_a_note(month: Service) -> None:
    address = "/alerts/events/alert-0/ack"
    assert f'action="{address}"' in (page := read_page(month, "/alerts/events/alert-0"))
    assert '<input name="note"' in page
    note = "The refund tool was down."
    sent = {"verdict": "true", "note": note}
    response = month.client.post(address, data=sent, headers=HTML, follow_redirects=False)
    assert response.headers["location"] == "/alerts/events/alert-0"
    alert = month.get("/alerts/alert-0")
    assert (alert["verdict"], alert["note"]) == ("true", note)
    page = read_page(month, "/alerts/events/alert-0")
    assert note in page
    assert "It was real</button>" not in page
    assert "False alarm</button>" in page
    wrong = {"verdict": "", "note": note}
    assert month.client.post(address, data=wrong, headers=HTML).status_code == 422


def test_test_messages__link_to_their_endpoint_and_to_their_rule(
    benchmark_service: Service, create_rule: RuleMaker
) -> None:
    create_rule()
    recipient = {"channel": "WEBHOOK", "recipient": "https://hooks.example.com/alerts"}
    endpoint_id = benchmark_service.post("/notifications/test", recipient)["endpointId"]
    benchmark_service.post("/alert-configs/rule-1/test")
    page = read_page(benchmark_service, "/inbox")
    assert link_of(page, "Test message") == f"/endpoints/{endpoint_id}"
    assert 'data-key="o" href="/alerts/rule-1">Test of the alert rule' in page


ALERTS_BY_QUERY = {
    "": ["alert-0", "alert-1"],
    "text=&severity=&acknowledged=&from=&to=": ["alert-0", "alert-1"],
    "severity=WARNING": ["alert-1"],
    "text=run+invalid": ["alert-1"],
    "acknowledged=true": ["alert-0"],
    "acknowledged=false": ["alert-1"],
    "rule=rule-1": ["alert-0"],
    "from=2000-01-01&to=2099-01-01": ["alert-0", "alert-1"],
    "to=2000-01-01": [],
    "agent=billing": ["alert-0"],
    "benchmark=support&benchmark=tickets": ["alert-0", "alert-1"],
    "state=RUN_INVALID": ["alert-1"],
    "state=RUN_INVALID&state=FIRING": ["alert-0", "alert-1"],
    "run=run-billing-support-0": ["alert-0"],
    "silence=silence-1": [],
    "to=2000-01-01T00%3A00%3A00%2B01%3A00": [],
    "from=2000-01-01T00:00:00Z": ["alert-0", "alert-1"],
    "sort=created": ["alert-1", "alert-0"],
}


def test_alert_history__has_the_alerts_of_its_filters_and_of_the_api(month: Service) -> None:
    month.post("/alerts/alert-0/ack", {"verdict": "true"})
    shown, listed = {}, {}
    for query, alert_ids in ALERTS_BY_QUERY.items():
        page = read_page(month, f"/alert-history?{query}")
        shown[query] = re.findall(r'href="/alerts/events/([^"]+)"', page)
        assert ("No alert matches" in page) is (not alert_ids), query
        [address] = re.findall(r'<a type="application/json" href="([^"]+)"', page)
        items = month.client.get(unescape(address)).json()["items"]
        listed[query] = [alert["id"] for alert in items]
    assert shown == listed == ALERTS_BY_QUERY


def test_alert_history__wrong_filter_is_an_error(month: Service) -> None:
    for query, flaw in (
        ("severity=LOUD", "Severity is not one of the choices"),
        ("acknowledged=maybe", "<li>Acknowledged "),
        ("from=yesterday", "2026-11-23"),
        ("to=2026-11-23T06:00:00", "2026-11-23"),
        ("sort=loudness", "sort"),
    ):
        response = month.client.get(f"/alert-history?{query}", headers={"Accept": "text/html"})
        assert (response.status_code, flaw in response.text) == (422, True), query


def test_rule_page__leads_to_all_its_alerts(month: Service) -> None:
    with month.resources.db.begin() as session:
        alert = session.get_one(AlertEvent, "alert-0")
        columns = {column.name: getattr(alert, column.name) for column in AlertEvent.__table__.c}
        for number in range(10):
            copy = {"id": f"copy-{number}", "dedup_key": f"copy-{number}"}
            session.add(AlertEvent(**{**columns, **copy}))
    [address] = re.findall(r'href="(/alert-history[^"]+)"', read_page(month, "/alerts/rule-1"))
    assert read_page(month, unescape(address)).count("<tr data-row") == 11


def test_alert_history__csv_has_the_alerts_of_the_list_with_its_filters(month: Service) -> None:
    [newest, *_] = month.list_items("/alerts")
    page = read_page(month, f"/alert-history?agent={newest['agentId']}&sort=created")
    address = link_of(page, "CSV")
    assert address is not None
    table = list(csv.DictReader(StringIO(month.client.get(address).text)))
    listed = month.list_items("/alerts", agentId=newest["agentId"], sort="created")
    assert [row["id"] for row in table] == [alert["id"] for alert in listed]
    documents = {"details", "contributingTraces"}
    assert table[0].keys() == listed[0].keys() - documents
    assert table[-1]["explanation"] == listed[-1]["explanation"]
