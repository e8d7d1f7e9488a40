"""What is told of alerts: many of one run are the items of one message."""

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Protocol

from app.alerts.rules import number
from app.notifications.types import MessageFact, MessageItem, MessageSeverity, NotificationMessage

TRACES_TOLD = 3
SEVERITIES = list(MessageSeverity)
WORDS = {
    "FIRING": "firing",
    "RESOLVED": "resolved",
    "NO_DATA": "without data",
    "RUN_INVALID": "run invalid",
    "RUN_FAILED": "run failed",
    "SCHEDULE_MISSED": "schedule did not run",
}


class Event(Protocol):
    """Something to tell."""

    @property
    def id(self) -> str: ...
    @property
    def state(self) -> str: ...
    @property
    def config_id(self) -> str | None: ...
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


def message_of(events: Sequence[Event]) -> NotificationMessage:
    """One message of at least one event, all of one run or one schedule; the worst stand first."""
    ordered = sorted(events, key=_rank)
    first = ordered[0]
    facts = [MessageFact("benchmark", first.benchmark_id), MessageFact("agent", first.agent_id)]
    if first.run_id:
        facts.append(MessageFact("run", first.run_id))
    return NotificationMessage(
        topic=f"alert.{first.state.lower()}",
        title=_title(ordered),
        severity=MessageSeverity(first.severity),
        facts=tuple(facts),
        items=tuple(map(_item, ordered)),
        link=f"/api/v1/benchmark-runs/{first.run_id}" if first.run_id else None,
    )


def trial_message(name: str, benchmark_id: str, sentences: Sequence[str]) -> NotificationMessage:
    """A trial: the recipients of a rule get it, and nothing has happened."""
    return NotificationMessage(
        topic="alert.test",
        title=f"Test of the alert {name}",
        sentences=("Nothing has happened: somebody tries this alert.", *sentences),
        facts=(MessageFact("benchmark", benchmark_id),),
    )


def silences(matchers: Mapping[str, Any], event: Event) -> bool:
    """Whether a silence with these matchers, in their wire names, holds an event."""
    told = {
        "alertConfigId": event.config_id,
        "benchmarkId": event.benchmark_id,
        "agentId": event.agent_id,
        "severity": event.severity,
    }
    given = {name: value for name, value in matchers.items() if value is not None}
    glob = given.pop("name", None)
    return all(told[name] == value for name, value in given.items()) and (
        glob is None or fnmatchcase(event.name, glob)
    )


def _rank(event: Event) -> tuple[int, int, str]:
    """What fires first, then what is worse."""
    return (
        list(WORDS).index(event.state),
        -SEVERITIES.index(MessageSeverity(event.severity)),
        event.name,
    )


def _title(events: Sequence[Event]) -> str:
    first = events[0]
    where = f"{first.benchmark_id}, {first.agent_id}"
    if len(events) == 1:
        return f"{_heading(first)} ({where})"
    counts = [
        f"{count} {words}"
        for state, words in WORDS.items()
        if (count := sum(event.state == state for event in events))
    ]
    return f"{len(events)} alerts: {', '.join(counts)} ({where})"


def _heading(event: Event) -> str:
    """What happened, to which rule or schedule; what happens to a run needs no other name."""
    words = WORDS[event.state]
    return words.capitalize() if event.name == words else f"{words.capitalize()}: {event.name}"


def _item(event: Event) -> MessageItem:
    facts = [MessageFact("severity", event.severity)]
    if event.value is not None:
        facts.append(MessageFact("value", number(event.value)))
    if event.baseline is not None:
        facts.append(MessageFact("baseline", number(event.baseline)))
    return MessageItem(
        title=_heading(event),
        sentences=(event.explanation, *_sentences(event.traces[:TRACES_TOLD])),
        facts=tuple(facts),
        link=f"/api/v1/alerts/{event.id}",
    )


def _sentences(traces: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    for trace in traces:
        before = "" if trace["before"] is None else f", {number(trace['before'])} before"
        yield (
            f"{trace['metric']} of item {trace['itemId']} is {number(trace['value'])}{before}"
            f" (trace {trace['traceId']})."
        )
