"""Notification messages of alerts: all alerts of one run are the items of one message."""

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple, Protocol

from app.alerts.rules import format_number
from app.notifications.types import MessageFact, MessageItem, MessageSeverity, NotificationMessage

MAX_TRACES = 3
SEVERITIES = list(MessageSeverity)
# The alerts of a message are listed in this order: what needs attention comes first.
STATE_LABELS = {
    "FIRING": "firing",
    "RESOLVED": "resolved",
    "NO_DATA": "without data",
    "RUN_INVALID": "run invalid",
    "RUN_FAILED": "run failed",
    "SCHEDULE_MISSED": "schedule did not run",
}


class DisplayNames(NamedTuple):
    """What people call the benchmark and the agent of an alert."""

    benchmark: str
    agent: str


class AlertFields(Protocol):
    """The fields of an alert that its message shows."""

    @property
    def id(self) -> str: ...
    @property
    def state(self) -> str: ...
    @property
    def rule_id(self) -> str | None: ...
    @property
    def name(self) -> str: ...
    @property
    def severity(self) -> str: ...
    @property
    def benchmark_id(self) -> str: ...
    @property
    def agent_id(self) -> str: ...
    @property
    def run_id(self) -> str | None: ...
    @property
    def value(self) -> float | None: ...
    @property
    def baseline(self) -> float | None: ...
    @property
    def explanation(self) -> str: ...
    @property
    def traces(self) -> Sequence[Mapping[str, Any]]: ...


def render_alerts(alerts: Sequence[AlertFields], names: DisplayNames) -> NotificationMessage:
    """One message for at least one alert, all of one run or one schedule; the worst comes first. The
    title has display names, for people; the facts have IDs, for programs.
    """
    ordered = sorted(alerts, key=_rank)
    first = ordered[0]
    facts = [MessageFact("benchmark", first.benchmark_id), MessageFact("agent", first.agent_id)]
    if first.run_id:
        facts.append(MessageFact("run", first.run_id))
    return NotificationMessage(
        topic=f"alert.{first.state.lower()}",
        title=_title(ordered, names),
        severity=MessageSeverity(first.severity),
        facts=tuple(facts),
        items=tuple(map(_render_item, ordered)),
        link=f"/api/v1/benchmark-runs/{first.run_id}" if first.run_id else None,
    )


def render_rule_test(name: str, benchmark_id: str, sentences: Sequence[str]) -> NotificationMessage:
    """The message that the recipients of a rule get when somebody tests it."""
    return NotificationMessage(
        topic="alert.test",
        title=f"Test of the alert rule {name}",
        sentences=("This is a test of the alert rule; nothing has happened.", *sentences),
        facts=(MessageFact("benchmark", benchmark_id),),
    )


def silence_matches(matchers: Mapping[str, Any], alert: AlertFields) -> bool:
    """Whether a silence with these matchers, by their REST names, holds back an alert."""
    fields = {
        "alertConfigId": alert.rule_id,
        "benchmarkId": alert.benchmark_id,
        "agentId": alert.agent_id,
        "severity": alert.severity,
    }
    given = {name: value for name, value in matchers.items() if value is not None}
    glob = given.pop("name", None)
    return all(fields[name] == value for name, value in given.items()) and (
        glob is None or fnmatchcase(alert.name, glob)
    )


def _rank(alert: AlertFields) -> tuple[int, int, str]:
    return (
        list(STATE_LABELS).index(alert.state),
        -SEVERITIES.index(MessageSeverity(alert.severity)),
        alert.name,
    )


def _title(alerts: Sequence[AlertFields], names: DisplayNames) -> str:
    first = alerts[0]
    where = f"{names.benchmark}, {names.agent}"
    if len(alerts) == 1:
        return f"{_heading(first)} ({where})"
    counts = [
        f"{count} {label}"
        for state, label in STATE_LABELS.items()
        if (count := sum(alert.state == state for alert in alerts))
    ]
    return f"{len(alerts)} alerts: {', '.join(counts)} ({where})"


def _heading(alert: AlertFields) -> str:
    """What happened, and to which rule or schedule; a notice about a run has no other name."""
    label = STATE_LABELS[alert.state]
    if alert.name == label:
        return label.capitalize()
    return f"{label.capitalize()}: {alert.name}"


def _render_item(alert: AlertFields) -> MessageItem:
    facts = [MessageFact("severity", alert.severity)]
    if alert.value is not None:
        facts.append(MessageFact("value", format_number(alert.value)))
    if alert.baseline is not None:
        facts.append(MessageFact("baseline", format_number(alert.baseline)))
    return MessageItem(
        title=_heading(alert),
        sentences=(
            alert.explanation,
            *_describe_traces(alert.traces[:MAX_TRACES]),
            *_acknowledge_command(alert),
        ),
        facts=tuple(facts),
        link=f"/api/v1/alerts/{alert.id}",
    )


def _describe_traces(traces: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    for trace in traces:
        before = "" if trace["before"] is None else f", {format_number(trace['before'])} before"
        yield (
            f"{trace['metric']} of item {trace['itemId']} is {format_number(trace['value'])}{before}"
            f" (trace {trace['traceId']})."
        )


def _acknowledge_command(alert: AlertFields) -> Iterable[str]:
    if alert.state == "FIRING":
        yield f"Acknowledge it: mosaico alerts ack {alert.id} --verdict true (or noise)."
