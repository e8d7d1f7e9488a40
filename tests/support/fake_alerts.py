"""Alerts as a message shows them, without a database."""

from dataclasses import dataclass, field
from datetime import UTC, datetime

from mosaico.alerts.details import AlertDetails, ContributingTrace
from mosaico.alerts.messages import DisplayNames, render_alerts
from mosaico.kpis.series_types import RunsEvidence, SeriesEvent, SeriesStatus
from mosaico.notifications.types import NotificationMessage

NOW = datetime(2026, 11, 22, 2, tzinfo=UTC)
NAMES = DisplayNames(benchmark="nightly-support", agent="Support bot")
EVIDENCE = RunsEvidence(
    status=SeriesStatus.FIRING,
    event=SeriesEvent.OPENED,
    z=5.0,
    limit=3.1,
    width=1,
    reference=25,
    level=0.62,
    reference_level=0.9,
    effect=-0.28,
    low=-0.41,
    high=-0.12,
    since=42,
)
DETAILS = AlertDetails(
    value_name="answer quality",
    is_share=True,
    runs=EVIDENCE,
    since=NOW,
    changes=("agent revision 14 → 15", "model small-1 → small-2"),
    traces=(
        ContributingTrace(
            metric="EXACT_MATCH",
            trace_id="t-17",
            item_id="refund-17",
            url="https://langfuse.example/t-17",
            value=0.0,
            before=1.0,
        ),
        # A slash in an ID, no URL of Langfuse and no value before:
        # the text and the link must do without.
        ContributingTrace(metric="EXACT_MATCH", trace_id="t/18", item_id="refund-18", value=0.0),
    ),
)
CHANGE_LINE = (
    "answer quality is 0.620, was 0.900 in the 25 runs before (change −0.280, likely −0.410 to"
    " −0.120); since 2026-11-22 02:00 UTC."
)


@dataclass
class FakeAlert:
    """The fields of an alert that a message shows."""

    name: str = "quality falls"
    state: str = "FIRING"
    severity: str = "CRITICAL"
    id: str = "e-1"
    rule_id: str | None = "rule-1"
    benchmark_id: str = "bench-001"
    agent_id: str = "agent-001"
    run_id: str | None = "run-1"
    incident_id: str | None = "e-1"
    value: float | None = 0.62
    baseline: float | None = 0.9
    explanation: str = "It fell."
    details: AlertDetails = field(default_factory=lambda: DETAILS)
    created_at: datetime = NOW


def render(*alerts: FakeAlert) -> NotificationMessage:
    return render_alerts(alerts, lambda _: NAMES)
