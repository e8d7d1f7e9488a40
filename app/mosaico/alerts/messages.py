"""Notification messages of alerts: all alerts of one run for one recipient are one message, and so are
those of the runs of one agent that end together.

A message answers in this order: what happened to what, how much, since when, what changed, which
items, and what to do. Alerts with one cause are told once, with the names of all their rules.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, tzinfo
from typing import NamedTuple, TypeAlias

from mosaico.alerts.details import AlertDetails
from mosaico.alerts.level_change import BAD_STATES, AlertFields, describe_change, describe_levels
from mosaico.alerts.rules import AlertEventState
from mosaico.comparison.attribute_text import describe_fallen_slice, describe_what_changed
from mosaico.comparison.judge_text import describe_weak_judges
from mosaico.core.text import describe_duration, format_in_zone, format_number
from mosaico.core.web.page_paths import (
    rule_page_path,
    run_page_path,
    schedule_page_path,
    trace_page_path,
)
from mosaico.notifications.types import (
    MessageFact,
    MessageItem,
    MessageLink,
    MessageSeverity,
    NotificationMessage,
)

MAX_TRACES = 3
SEVERITIES = list(MessageSeverity)
# The alerts of a message are listed in this order: what needs attention comes first.
STATES = list(AlertEventState)
GOOD_STATES = frozenset(
    {AlertEventState.RESOLVED, AlertEventState.PARTLY_BACK, AlertEventState.DISMISSED}
)


class DisplayNames(NamedTuple):
    """Display names of the benchmark and the agent of an alert, and the zone of its times."""

    benchmark: str
    agent: str
    zone: tzinfo = UTC
    """The zone of the times that are said of the alert."""
    assignee: str = ""
    """The name of the person to whom its incident is assigned."""


NamesOf: TypeAlias = Callable[[AlertFields], DisplayNames]


@dataclass(frozen=True, slots=True)
class AlertCause:
    """Alerts of several rules about one change; the most specific alert comes first."""

    alerts: tuple[AlertFields, ...]

    @property
    def first(self) -> AlertFields:
        return self.alerts[0]

    @property
    def headline(self) -> str:
        """What happened, with the limit of the most severe alert that has one."""
        return headline_of(self.first, self.title_note)

    @property
    def rule_names(self) -> list[str]:
        return list(dict.fromkeys(alert.name for alert in self.alerts))

    @property
    def title_note(self) -> str | None:
        """The limit of the most severe alert that has one."""
        notes = (alert.details.title_note for alert in sorted(self.alerts, key=_rank))
        return next(filter(None, notes), None)

    @property
    def other_value_names(self) -> list[str]:
        """The names of further values with the same number and baseline."""
        names = dict.fromkeys(alert.details.value_name for alert in self.alerts)
        return [name for name in names if name and name != self.first.details.value_name]


def render_alerts(alerts: Sequence[AlertFields], names_of: NamesOf) -> NotificationMessage:
    """Render one message for alerts of some runs of one agent, or of several schedules; the most severe
    comes first.

    The text contains display names; the facts also contain IDs, for programs.
    """
    causes = group_causes(alerts)
    first = causes[0].first
    names = names_of(first)
    with_benchmark = len({cause.first.benchmark_id for cause in causes}) > 1
    return NotificationMessage(
        topic=f"alert.{first.state.lower()}",
        title=_title(causes, names),
        severity=_severity(alerts),
        facts=tuple(dict.fromkeys(_origin_facts(causes, names_of))),
        items=tuple(
            _render_item(
                cause,
                names_of(cause.first),
                with_severity=len(causes) > 1,
                with_benchmark=with_benchmark,
            )
            for cause in causes
        ),
        link=_run_link(first),
    )


def _origin_facts(causes: Sequence[AlertCause], names_of: NamesOf) -> Iterator[MessageFact]:
    """Benchmarks, agents and runs of the alerts, each kind together."""
    first_alerts = [cause.first for cause in causes]
    for alert in first_alerts:
        name = names_of(alert).benchmark
        yield MessageFact("benchmark", _name_with_id(name, alert.benchmark_id))
    for alert in first_alerts:
        yield MessageFact("agent", _name_with_id(names_of(alert).agent, alert.agent_id))
    for alert in first_alerts:
        if alert.run_id:
            yield MessageFact("run", alert.run_id)


def group_causes(alerts: Sequence[AlertFields]) -> list[AlertCause]:
    """Alerts about one value of one agent have one cause, whatever their rules are; so have alerts
    without a number that say the same.
    """
    by_value: dict[object, list[AlertFields]] = {}
    for alert in sorted(alerts, key=_rank):
        what = alert.value if alert.value is not None else alert.explanation
        by_value.setdefault((*_place(alert), alert.details.value_name, what), []).append(alert)
    groups: dict[object, list[AlertFields]] = {}
    for key, group in by_value.items():
        groups.setdefault(_same_change(group) or key, []).extend(group)
    return [
        # The evidence over runs has an interval, and a change says more than a value.
        AlertCause(
            tuple(
                sorted(
                    group, key=lambda alert: (alert.details.runs is None, alert.baseline is None)
                )
            )
        )
        for group in groups.values()
    ]


def _place(alert: AlertFields) -> tuple[object, ...]:
    return alert.state, alert.benchmark_id, alert.agent_id, alert.run_id


def _same_change(alerts: Sequence[AlertFields]) -> tuple[object, ...] | None:
    """What the alerts of a KPI and of its only metric have in common: the number and its baseline.

    None without a baseline: two values can be equal by chance.
    """
    first = alerts[0]
    baseline = next((alert.baseline for alert in alerts if alert.baseline is not None), None)
    if first.value is None or baseline is None:
        return None
    return *_place(first), first.value, baseline, first.details.unit


def render_rule_test(
    rule_id: str, name: str, benchmark_name: str, sentences: Sequence[str]
) -> NotificationMessage:
    """The test message that the recipients of a rule get."""
    return NotificationMessage(
        topic="alert.test",
        title=f"Test of the alert rule {name} ({benchmark_name})",
        sentences=("This is a test of the alert rule; nothing has happened.", *sentences),
        facts=(MessageFact("benchmark", benchmark_name),),
        link=rule_page_path(rule_id),
    )


def _rank(alert: AlertFields) -> tuple[int, int, str]:
    return (
        STATES.index(AlertEventState(alert.state)),
        -SEVERITIES.index(MessageSeverity(alert.severity)),
        alert.name,
    )


def _severity(alerts: Iterable[AlertFields]) -> MessageSeverity:
    """The severity of the worst alert; INFO if there is only good news."""
    bad = [MessageSeverity(alert.severity) for alert in alerts if alert.state not in GOOD_STATES]
    return max(bad, key=SEVERITIES.index, default=MessageSeverity.INFO)


def _title(causes: Sequence[AlertCause], names: DisplayNames) -> str:
    first, further_count = causes[0].first, len(causes) - 1
    if first.state == AlertEventState.SCHEDULE_MISSED and further_count:
        return f"{len(causes)} schedules did not run: {first.name} and {further_count} more"
    more = f" and {further_count} more" if further_count else ""
    headline, benchmark_suffix = (
        f"{_prefix(first)}{names.agent}: {causes[0].headline}",
        f" ({names.benchmark})",
    )
    # The further alerts may be of other benchmarks.
    is_one_benchmark = len({cause.first.benchmark_id for cause in causes}) == 1
    return (
        f"{headline}{more}{benchmark_suffix}"
        if is_one_benchmark
        else f"{headline}{benchmark_suffix}{more}"
    )


def _prefix(alert: AlertFields) -> str:
    match AlertEventState(alert.state):
        case AlertEventState.RESOLVED:
            return f"Resolved{_after(alert)}: "
        case AlertEventState.PARTLY_BACK:
            return "Partly recovered: "
        case AlertEventState.WORSE:
            return "Worse: "
        case AlertEventState.DISMISSED:
            return "False alarm: "
        case AlertEventState.LATE:
            return "Late run: "
        case _:
            return ""


def _after(alert: AlertFields, preposition: str = "after") -> str:
    since = alert.details.since
    if since is None:
        return ""
    return f" {preposition} {describe_duration(alert.created_at - since)}"


def headline_of(alert: AlertFields, title_note: str | None) -> str:
    """The name and the change of the watched value, with its limit; for a notice, the problem of the run or schedule."""
    match AlertEventState(alert.state):
        case AlertEventState.NO_DATA:
            return f"{alert.details.value_name or alert.name} has no value"
        case AlertEventState.SCHEDULE_MISSED:
            return f"schedule {alert.name} {alert.details.title_note or 'did not run'}"
        case AlertEventState.RUN_MISSED | AlertEventState.STALE:
            return f"no new data{_after(alert, 'for')}{_noted(alert, ', ')}"
        case AlertEventState.RUN_INVALID | AlertEventState.RUN_FAILED:
            return f"{alert.name}{_noted(alert, ': ')}"
        case AlertEventState.RESOLVED | AlertEventState.DISMISSED:
            return describe_levels(alert, title_note, with_baseline=False)
        case _:
            return describe_levels(alert, title_note, with_baseline=True)


def _noted(alert: AlertFields, separator: str) -> str:
    return f"{separator}{alert.details.title_note}" if alert.details.title_note else ""


def _render_item(
    cause: AlertCause, names: DisplayNames, *, with_severity: bool, with_benchmark: bool
) -> MessageItem:
    alert = cause.first
    # The title of the message has that of the worst alert; good news has none.
    has_severity = with_severity and AlertEventState(alert.state) not in GOOD_STATES
    is_bad = AlertEventState(alert.state) in BAD_STATES
    return MessageItem(
        title=f"{names.agent}: {cause.headline}"
        + (f" ({names.benchmark})" if with_benchmark else ""),
        sentences=tuple(_sentences(cause, names)),
        facts=(MessageFact("severity", _severity(cause.alerts)),) if has_severity else (),
        link=_run_link(alert),
        links=tuple(_trace_links(alert)) if is_bad else (),
        advice=tuple(_advice(alert)),
    )


def _sentences(cause: AlertCause, names: DisplayNames) -> Iterator[str]:
    alert, zone = cause.first, names.zone
    line = _first_line(alert, zone)
    yield line
    for sentence in describe_weak_judges(alert.details.weak_judges):
        if sentence.removesuffix(".") not in line:
            yield sentence
    if cause.other_value_names:
        yield f"The same is true of {', '.join(cause.other_value_names)}."
    if AlertEventState(alert.state) in BAD_STATES:
        yield from _changes(alert.details)
    if alert.state == AlertEventState.RESOLVED and alert.details.since is not None:
        yield (
            f"The incident lasted {describe_duration(alert.created_at - alert.details.since)}, from"
            f" {format_in_zone(alert.details.since, zone)} to {format_in_zone(alert.created_at, zone)}."
        )
    if alert.rule_id is not None:
        rules = cause.rule_names
        yield f"Alert rule{'' if len(rules) == 1 else 's'}: {', '.join(rules)}."
    if names.assignee:
        yield f"Assigned to {names.assignee}."


def _first_line(alert: AlertFields, zone: tzinfo) -> str:
    """Value, unit, baseline, interval and since when; the stored explanation where there is no
    interval.
    """
    line = describe_change(alert) or alert.explanation
    since = alert.details.since
    if AlertEventState(alert.state) not in BAD_STATES or since is None:
        return line
    return f"{line.removesuffix('.')}; since {format_in_zone(since, zone)}."


def _changes(details: AlertDetails) -> Iterator[str]:
    if details.fallen_slice is not None:
        yield describe_fallen_slice(details.fallen_slice)
    changed = details.what_changed
    if changed is not None:
        prefix = "Changed: " if changed.differences else ""
        lines = describe_what_changed(changed)
        yield from (f"{prefix}{line.removesuffix('.')}." for line in lines)
    elif details.changes:
        yield f"Changes since the run before: {'; '.join(details.changes)}."
    else:
        yield "What changed is not known: there is no run before this one to compare its traces with."


def _trace_links(alert: AlertFields) -> Iterator[MessageLink]:
    """The page of each trace: uploads and harnesses have no page of their own, and other sources ask
    for another login.
    """
    for trace in alert.details.traces[:MAX_TRACES]:
        before = "" if trace.before is None else f", was {format_number(trace.before)}"
        text = f"Item {trace.item_id}: {trace.metric} is {format_number(trace.value)}{before}"
        page = trace_page_path(alert.run_id, trace.trace_id) if alert.run_id is not None else ""
        yield MessageLink(text, page)


def _advice(alert: AlertFields) -> Iterator[str]:
    """What to do about an alert; nothing about good news."""
    match AlertEventState(alert.state):
        case AlertEventState.FIRING | AlertEventState.WORSE:
            yield from _incident_advice(alert)
        case AlertEventState.LATE:
            yield f"See the run: mosaico runs show {alert.run_id}"
        case AlertEventState.STALE:
            yield f"See its runs: mosaico runs list --benchmark {alert.benchmark_id} --agent {alert.agent_id}"
        case AlertEventState.NO_DATA:
            yield f"See what was computed: mosaico runs show {alert.run_id}"
            yield f"If this is expected: mosaico alerts rules update {alert.rule_id} --no-data KEEP"
        case AlertEventState.RUN_INVALID:
            yield f"See what is missing: mosaico runs show {alert.run_id}"
            yield (
                "When the cause is fixed, start a new run: mosaico runs start"
                f" {alert.benchmark_id} {alert.agent_id}"
            )
        case AlertEventState.RUN_FAILED:
            yield f"See the error: mosaico runs show {alert.run_id}"
            yield f"When the cause is fixed: mosaico runs retry {alert.run_id}"
        case AlertEventState.SCHEDULE_MISSED if alert.details.schedule_id is not None:
            yield f"See its due times: mosaico schedules fires {alert.details.schedule_id}"


def _incident_advice(alert: AlertFields) -> Iterator[str]:
    if alert.run_id is not None:
        yield f"See what changed: mosaico runs show {alert.run_id}"
    if alert.incident_id is None:
        return
    # Without a baseline there is no level to accept, and a fixed threshold stays exceeded whatever people say.
    if alert.baseline is None:
        yield f"If it is known: mosaico alerts silences create --rule {alert.rule_id} --hours 24"
        yield f"If the limit is wrong: mosaico alerts rules update {alert.rule_id} --threshold NUMBER"
        return
    yield f"If nothing is wrong: mosaico incidents noise {alert.incident_id}"
    yield f"If the new level is right: mosaico incidents accept {alert.incident_id}"


def _run_link(alert: AlertFields) -> str | None:
    """The page of the run; of a missed run, that of its schedule or of the rule that expects it."""
    if alert.run_id is not None:
        return run_page_path(alert.run_id)
    if alert.details.schedule_id is not None:
        return schedule_page_path(alert.details.schedule_id)
    return rule_page_path(alert.rule_id) if alert.rule_id is not None else None


def _name_with_id(name: str, resource_id: str) -> str:
    return name if name == resource_id else f"{name} ({resource_id})"
