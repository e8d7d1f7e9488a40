"""What pages select and change, over HTTP: periods, CSV, the inbox, deliveries."""

import re
from datetime import datetime, timedelta
from html import unescape

from sqlalchemy import text

from tests.support.every_page import RUN
from tests.support.page_reads import HTML, read_csv, read_json, read_page
from tests.support.service import Service


def test_runs__csv_has_the_filtered_runs_in_the_order_of_the_page(read_month: Service) -> None:
    page = read_page(read_month, "/runs?agent=billing&verdict=REGRESSED&sort=completed")
    address = unescape(re.findall(r'href="(/api/v1/benchmark-runs\.csv[^"]*)"', page)[0])
    [row] = read_csv(read_month, address)
    assert (row["runId"], row["agent"], row["verdict"]) == (RUN, "Billing bot", "REGRESSED")
    rows = read_csv(read_month, "/api/v1/benchmark-runs.csv?sort=created")
    # Thirty nights of seven pairs, and the run in progress.
    assert len(rows) == 211
    assert [row["createdAt"] for row in rows] == sorted(row["createdAt"] for row in rows)


def test_runs__csv_has_no_name_that_a_spreadsheet_would_run(month: Service) -> None:
    with month.resources.db.begin() as session:
        session.execute(text("UPDATE agents SET name = '=1+1' WHERE id = 'billing'"))
    for path in ("benchmark-runs", "kpi-history"):
        rows = read_csv(month, f"/api/v1/{path}.csv?agentId=billing")
        assert {row["agent"] for row in rows} == {"'=1+1"}


def test_runs__period_has_the_days_of_the_readers_zone(read_month: Service) -> None:
    rows = read_csv(read_month, "/api/v1/benchmark-runs.csv")
    # Tokyo has no summer time.
    offset = timedelta(hours=9)
    days = [(datetime.fromisoformat(row["createdAt"]) + offset).date() for row in rows]
    day = sorted(set(days))[-3]
    page = read_page(read_month, f"/runs?from={day}&to={day}", Cookie="mosaico_zone=Asia/Tokyo")
    assert f">{days.count(day)} runs<" in page
    assert days.count(day) == 7
    wrong = read_month.client.get("/runs?from=yesterday", headers=HTML)
    assert wrong.status_code == 422
    assert "2026-11-23" in wrong.text


def test_inbox__selected_messages_are_acknowledged_with_a_note(month: Service) -> None:
    address = "/inbox?tab=open&agent=billing"
    page = read_page(month, address)
    messages = re.findall(r'name="message" value="([^"]+)"', page)
    assert messages
    note = "The refund tool was down."
    form = {"message": messages, "verdict": "true", "note": note, "next": address}
    response = month.client.post("/inbox/ack", data=form, headers=HTML, follow_redirects=False)
    assert response.headers["location"] == address
    alerts = read_json(month, "/alerts?acknowledged=true&agentId=billing")["items"]
    assert {alert["note"] for alert in alerts} == {note}
    assert {alert["notificationId"] for alert in alerts} == set(messages)
    assert note in read_page(month, "/inbox?tab=acknowledged")
    assert note in read_page(month, f"/alerts/events/{alerts[0]['id']}")
    assert 'name="message"' not in read_page(month, "/inbox")


def test_inbox__acknowledgement_refuses_nothing_selected_a_wrong_verdict_and_another_host(
    month: Service,
) -> None:
    post = month.client.post
    assert post("/inbox/ack", data={"verdict": "true"}, headers=HTML).status_code == 422
    wrong = {"message": "note-0", "verdict": "maybe"}
    assert post("/inbox/ack", data=wrong, headers=HTML).status_code == 422
    away = {"message": "note-0", "verdict": "true", "next": "//evil.example"}
    response = post("/inbox/ack", data=away, headers=HTML, follow_redirects=False)
    assert response.headers["location"] == "/"


def test_inbox__is_filtered_by_agent_benchmark_and_severity(read_month: Service) -> None:
    everything = read_page(read_month, "/inbox?tab=all").count("<article")
    counts = {
        query: read_page(read_month, f"/inbox?tab=all&{query}").count("<article")
        for query in ("agent=billing", "benchmark=support", "severity=CRITICAL", "agent=triage")
    }
    assert everything > 1
    assert counts["agent=billing"] == counts["benchmark=support"] == 1
    assert counts["severity=CRITICAL"] < everything
    assert counts["severity=CRITICAL"] == len(
        read_json(read_month, "/notifications?severity=CRITICAL")["items"]
    )
    assert "No message matches" in read_page(read_month, "/inbox?tab=all&agent=sql&severity=INFO")


def test_alert__message_is_sent_again_and_the_alert_is_shown(month: Service) -> None:
    page = read_page(month, "/alerts/events/alert-0")
    form = re.search(r'action="(/deliveries/[^"]+/redeliver)".*?</form>', page, re.DOTALL)
    assert form is not None
    fields = dict(re.findall(r'name="(\w+)" value="([^"]*)"', form[0]))
    response = month.client.post(form[1], data=fields, headers=HTML, follow_redirects=False)
    assert response.headers["location"] == "/alerts/events/alert-0"
    delivery = read_json(month, form[1].removesuffix("/redeliver"))
    assert delivery["status"] == "PENDING"
