"""The alerts of the month of `tests.support.page_data`: a regression and an invalid run, with their messages."""

from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import text
from sqlalchemy.orm import Session

from mosaico.alerts.details import AlertDetails
from mosaico.alerts.models import AlertEvent, AlertRule, AlertState, Incident
from mosaico.notifications.models import Delivery, Endpoint, Notification
from mosaico.notifications.types import MessageSeverity, NotificationMessage
from mosaico.run_store.models import BenchmarkRun

LOST_TRACES = (
    "31.0 % of the values are missing because of infrastructure, judge or metric errors, above the"
    " allowed 5.0 %"
)
FALL = "pass rate fell from 0.895 to 0.745: −0.150 (95 % CI −0.230 to −0.070, p 0.002)."


def write_open_alert(session: Session) -> None:
    """Makes the alert of the month one that nobody acknowledged, whatever another test did."""
    session.execute(text("UPDATE alert_events SET verdict = NULL, acknowledged_at = NULL"))
    session.execute(text("UPDATE incidents SET verdict = NULL, acknowledged_at = NULL"))
    session.execute(text("UPDATE notifications SET read_at = NULL WHERE id LIKE 'note-%'"))


def write_rule(session: Session, rule_id: str, **fields: Any) -> AlertRule:
    """An alert rule about the pass rate of Support, nightly."""
    defaults = {
        "id": rule_id, "name": "pass rate regressed", "benchmark_id": "support", "kpi": "support-pass",
        "condition": "REGRESSED", "severity": "CRITICAL", "channels": ["IN_APP"], "endpoints": [],
        "enabled": True, "cooldown_minutes": 0, "for_runs": 1, "keep_firing_for_runs": 0,
        "no_data": "NO_DATA", "baseline_runs": 5,
    }  # fmt: skip
    rule = AlertRule(**{**defaults, **fields})
    session.add(rule)
    session.flush()
    return rule


def write_alert(session: Session, now: datetime) -> None:
    endpoint_id = "endpoint-1"
    run = session.query(BenchmarkRun).filter_by(id="run-billing-support-0").one()
    session.add(
        Endpoint(
            id=endpoint_id,
            channel="SLACK",
            recipient="hooks.slack.com/…",
            recipient_hash="h",
            host="hooks.slack.com",
        )
    )
    session.flush()
    write_rule(session, "rule-1")
    session.add(
        AlertState(
            rule_id="rule-1", agent_id="billing", run_seq=run.seq, run_id=run.id, state="FIRING",
            breaches=1, clears=0, incident_id="alert-0", value=0.745, baseline=0.895,
            explanation="pass rate fell from 0.895 to 0.745.", evaluated_at=now,
        )
    )  # fmt: skip
    for number, (severity, title, explanation) in enumerate(
        [
            ("CRITICAL", "pass rate regressed: Billing bot on Support, nightly", FALL),
            ("WARNING", "run invalid: Triage on Triage, nightly", f"{LOST_TRACES}."),
        ]
    ):
        run_id = ("run-billing-support-0", "run-triage-tickets-0")[number]
        message = NotificationMessage(
            topic="alert.firing", title=title, severity=MessageSeverity(severity),
            sentences=(explanation,),
        )  # fmt: skip
        session.add(
            Notification(
                id=f"note-{number}", topic="alert.firing", severity=severity, title=title,
                message=message, created_at=now - timedelta(minutes=12 + number),
            )
        )  # fmt: skip
        session.flush()
        session.add(
            AlertEvent(
                id=f"alert-{number}", dedup_key=f"key-{number}", state="FIRING" if number == 0 else "RUN_INVALID",
                name=title.split(":")[0], severity=severity,
                benchmark_id=run_id.split("-")[2], agent_id=run_id.split("-")[1], run_id=run_id, run_seq=run.seq if number == 0 else None,
                rule_id="rule-1" if number == 0 else None,
                incident_id="alert-0" if number == 0 else None, value=0.745 if number == 0 else None, baseline=0.895 if number == 0 else None, notification_id=f"note-{number}",
                explanation=explanation,
                details=AlertDetails(value_name="pass rate", is_share=True, rule_revision=1),
                created_at=now - timedelta(minutes=12 + number),
            )
        )  # fmt: skip
    session.add(
        Incident(
            id="alert-0", name="pass rate regressed", severity="CRITICAL", condition="REGRESSED",
            benchmark_id="support", agent_id="billing", kpi="support-pass", value_name="pass rate",
            state="OPEN", rule_id="rule-1", started_seq=run.seq, opened_seq=run.seq, run_seqs=[run.seq],
            baseline=0.895, opened_value=0.745, value=0.745, started_run_id="run-billing-support-0",
            opened_run_id="run-billing-support-0", started_at=now, opened_at=now, explanation="It fell.",
        )
    )  # fmt: skip
    session.add(
        Delivery(
            id="delivery-1", notification_id="note-0", endpoint_id=endpoint_id, status="DELIVERED",
            attempts=1, delivered_at=now - timedelta(minutes=12),
        )
    )  # fmt: skip
    session.flush()
