"""Messages of alerts: who reads one for five seconds knows what happened, to what, and how much."""

import math
from datetime import timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from mosaico.alerts.details import AlertDetails
from mosaico.alerts.messages import render_alerts
from mosaico.kpis.series_types import SeriesEvent
from mosaico.notifications.message_layout import message_title
from mosaico.notifications.types import MessageSeverity
from tests.support.fake_alerts import CHANGE_LINE, DETAILS, EVIDENCE, NAMES, NOW, FakeAlert, render
from tests.support.texts import assert_names
from tests.unit.cli.test_named_commands import resolve


def test_render_alerts__a_drop_says_value_baseline_interval_since_change_items_and_advice() -> None:
    message = render(FakeAlert())
    assert (
        message_title(message)
        == "[CRITICAL] Support bot: answer quality 0.900 → 0.620 (nightly-support)"
    )
    [item] = message.items
    assert item.sentences == (
        CHANGE_LINE,
        "Changes since the run before: agent revision 14 → 15; model small-1 → small-2.",
        "Alert rule: quality falls.",
    )
    assert item.links == (
        ("Item refund-17: EXACT_MATCH is 0, was 1", "/runs/run-1/traces/t-17"),
        ("Item refund-18: EXACT_MATCH is 0", "/runs/run-1/traces/t%2F18"),
    )
    assert item.advice == (
        "See what changed: mosaico runs show run-1",
        "If nothing is wrong: mosaico incidents noise e-1",
        "If the new level is right: mosaico incidents accept e-1",
    )
    assert [tuple(fact) for fact in message.facts] == [
        ("benchmark", "nightly-support (bench-001)"),
        ("agent", "Support bot (agent-001)"),
        ("run", "run-1"),
    ]


def test_render_alerts__times_are_in_the_zone_of_the_schedule() -> None:
    names = NAMES._replace(zone=ZoneInfo("Europe/Rome"))
    details = DETAILS.model_copy(update={"since": NOW - timedelta(days=3)})
    alerts = [FakeAlert(), FakeAlert(state="RESOLVED", id="e-2", details=details)]
    firing, resolved = render_alerts(alerts, lambda _: names).items
    assert "since 2026-11-22 03:00 Europe/Rome." in firing.sentences[0]
    assert (
        "The incident lasted 3 days, from 2026-11-19 03:00 Europe/Rome to 2026-11-22 03:00 Europe/Rome."
        in resolved.sentences
    )


def with_evidence(details: AlertDetails = DETAILS, **changed: Any) -> AlertDetails:
    """The details with other evidence."""
    return details.model_copy(update={"runs": EVIDENCE.model_copy(update=changed)})


def first_line_and_title(alert: FakeAlert) -> tuple[str, str]:
    message = render(alert)
    return message.items[0].sentences[0], message.title


def test_render_alerts__several_runs_are_told_with_their_level() -> None:
    """A drop that one run does not show: the value of the last run alone would not add up."""
    details = with_evidence(
        width=8, reference=52, level=0.74, reference_level=0.8, effect=-0.06, low=-0.09, high=-0.03
    )

    line, title = first_line_and_title(FakeAlert(value=0.79, baseline=0.8, details=details))

    assert title == "Support bot: answer quality 0.800 → 0.740 in 8 runs (nightly-support)"
    assert_names(
        line,
        "0.740 in the last 8 runs",
        "0.800 in the 52 runs before",
        "−0.060, likely −0.090 to −0.030",
        "0.790 in the last one",
        "since 2026-11-22 02:00 UTC",
    )


def test_render_alerts__a_change_of_a_time_is_told_in_percent_of_the_time() -> None:
    """From 1,000 to 2,000 ms the logarithm rises by 0.693, and the time by 100 %."""
    details = with_evidence(
        AlertDetails(value_name="latency", unit="ms", is_relative=True, since=NOW),
        level=math.log(2000),
        reference_level=math.log(1000),
        effect=math.log(2),
        low=math.log(1.5),
        high=math.log(2.6),
    )

    line, title = first_line_and_title(FakeAlert(value=2000, baseline=1000, details=details))

    assert title == "Support bot: latency 1,000 → 2,000 ms (nightly-support)"
    assert_names(
        line,
        "is 2,000 ms",
        "was 1,000 ms in the 25 runs before",
        "+100.0 %, likely +50.0 % to +160.0 %",
    )


@pytest.mark.parametrize(
    ("state", "event", "width", "title", "line"),
    [
        (
            "WORSE",
            SeriesEvent.WORSE,
            1,
            "Worse: Support bot: answer quality 0.700 → 0.200 (nightly-support)",
            "is 0.200, was 0.700 earlier in the incident",
        ),
        (
            "PARTLY_BACK",
            SeriesEvent.PARTLY_BACK,
            3,
            "Partly recovered: Support bot: answer quality 0.700 → 0.200 in 3 runs (nightly-support)",
            "was 0.200 in the last 3 runs, 0.700 earlier in the incident",
        ),
    ],
)
def test_render_alerts__a_change_inside_an_incident_begins_with_its_level(
    state: str, event: SeriesEvent, width: int, title: str, line: str
) -> None:
    details = with_evidence(
        event=event, width=width, level=0.2, effect=-0.7, low=-0.8, high=-0.6, earlier_level=0.7
    )
    alert = FakeAlert(state=state, value=0.2 if width == 1 else 0.21, details=details)

    first_line, alert_title = first_line_and_title(alert)

    assert alert_title == title
    assert_names(first_line, line, "0.900 in the 25 runs before", "−0.800 to −0.600")


def test_render_alerts__a_resolved_message_has_no_severity_and_names_the_duration() -> None:
    details = DETAILS.model_copy(update={"since": NOW - timedelta(days=3)})
    resolved = FakeAlert(state="RESOLVED", value=0.91, explanation="It is back.", details=details)
    message = render(resolved)
    assert (
        message_title(message)
        == "Resolved after 3 days: Support bot: answer quality is 0.910 (nightly-support)"
    )
    [item] = message.items
    assert item.sentences == (
        "It is back.",
        "The incident lasted 3 days, from 2026-11-19 02:00 UTC to 2026-11-22 02:00 UTC.",
        "Alert rule: quality falls.",
    )
    assert (item.links, item.advice, item.facts) == ((), (), ())


@pytest.mark.parametrize(
    ("alert", "title"),
    [
        (FakeAlert(state="WORSE"), "[CRITICAL] Worse: Support bot: answer quality 0.900 → 0.620"),
        (
            FakeAlert(state="PARTLY_BACK"),
            "Partly recovered: Support bot: answer quality 0.900 → 0.620",
        ),
        (FakeAlert(state="NO_DATA"), "[CRITICAL] Support bot: answer quality has no value"),
        (
            FakeAlert(
                state="RUN_FAILED",
                name="run failed",
                rule_id=None,
                value=None,
                details=AlertDetails(title_note="SOURCE_UNREACHABLE"),
            ),
            "[CRITICAL] Support bot: run failed: SOURCE_UNREACHABLE",
        ),
        (
            FakeAlert(state="SCHEDULE_MISSED", name="every night", rule_id=None, value=None),
            "[CRITICAL] Support bot: schedule every night did not run",
        ),
        (
            FakeAlert(
                state="SCHEDULE_MISSED",
                name="every night",
                rule_id=None,
                value=None,
                details=AlertDetails(title_note="is disabled: 3 runs failed in a row"),
            ),
            "[CRITICAL] Support bot: schedule every night is disabled: 3 runs failed in a row",
        ),
        (
            FakeAlert(
                value=0.7,
                baseline=None,
                details=AlertDetails(
                    value_name="answer quality", is_share=True, title_note="below 0.85"
                ),
            ),
            "[CRITICAL] Support bot: answer quality 0.70, below 0.85",
        ),
        (
            FakeAlert(
                state="RESOLVED",
                value=0.91,
                details=AlertDetails(
                    value_name="answer quality", is_share=True, title_note="above 0.85"
                ),
            ),
            "Resolved: Support bot: answer quality 0.91, above 0.85",
        ),
        (
            FakeAlert(
                state="RUN_MISSED",
                severity="WARNING",
                value=None,
                details=AlertDetails(
                    since=NOW - timedelta(hours=47), title_note="the limit is 26 hours"
                ),
            ),
            "[WARNING] Support bot: no new data for 47 hours, the limit is 26 hours",
        ),
        (
            FakeAlert(
                value=5010,
                baseline=None,
                severity="WARNING",
                details=AlertDetails(value_name="LATENCY_MS", unit="ms"),
            ),
            "[WARNING] Support bot: LATENCY_MS is 5,010 ms",
        ),
        (
            FakeAlert(
                value=0.15,
                baseline=0.02,
                details=AlertDetails(value_name="ERROR_COUNT", unit="errors per trace"),
            ),
            "[CRITICAL] Support bot: ERROR_COUNT 0.02 → 0.15 errors per trace",
        ),
        (
            # Rounded to three digits this would be 0.900, as the baseline: a fall must be visible.
            FakeAlert(value=0.8995, baseline=0.9, severity="INFO"),
            "Support bot: answer quality 0.900 → 0.899",
        ),
    ],
)
def test_message_title__of_each_state(alert: FakeAlert, title: str) -> None:
    assert message_title(render(alert)) == f"{title} (nightly-support)"


def test_render_alerts__rules_about_one_number_are_one_item() -> None:
    message = render(
        FakeAlert(name="10 % drop", id="e-1", severity="WARNING"),
        FakeAlert(name="regression", id="e-2"),
        FakeAlert(name="threshold", id="e-3", severity="INFO"),
        FakeAlert(name="slow", id="e-4", value=9.0, details=AlertDetails(value_name="LATENCY")),
    )
    assert_names(message_title(message), "answer quality 0.900 → 0.620", "1 more")
    assert [item.sentences[-1] for item in message.items] == [
        "Alert rules: regression, 10 % drop, threshold.",
        "Alert rule: slow.",
    ]


def test_render_alerts__the_title_of_a_cause_has_the_limit_of_its_most_severe_rule() -> None:
    drop, floor = (
        AlertDetails(value_name="answer quality", is_share=True, since=NOW, title_note=note)
        for note in ("limit 10 %", "below 0.85")
    )
    message = render(
        FakeAlert(name="regression", id="e-1", severity="WARNING"),
        FakeAlert(name="10 % drop", id="e-2", severity="WARNING", details=drop),
        FakeAlert(name="floor", id="e-3", baseline=None, details=floor),
    )
    title = "Support bot: answer quality 0.900 → 0.620, below 0.85"
    assert message_title(message) == f"[CRITICAL] {title} (nightly-support)"
    assert [item.title for item in message.items] == [title]


def test_render_alerts__two_values_that_are_equal_by_chance_are_two_items() -> None:
    safety = AlertDetails(value_name="safety", is_share=True, since=NOW)
    message = render(
        FakeAlert(value=0.0, baseline=0.9),
        FakeAlert(id="e-2", name="safety falls", value=0.0, baseline=0.99, details=safety),
        FakeAlert(id="e-3", name="low safety", value=0.0, baseline=None, details=safety),
    )
    assert [item.title for item in message.items] == [
        "Support bot: safety 0.990 → 0.000",
        "Support bot: answer quality 0.900 → 0.000",
    ]
    assert message.items[0].sentences[-1] == "Alert rules: safety falls, low safety."


def test_render_alerts__a_kpi_and_its_only_metric_are_one_item_with_both_names() -> None:
    metric = AlertDetails(value_name="ROUGE mean", since=NOW)
    [item] = render(FakeAlert(), FakeAlert(id="e-2", name="metric", details=metric)).items
    assert "The same is true of ROUGE mean." in item.sentences


def test_render_alerts__the_line_of_a_cause_has_the_interval_of_any_of_its_rules() -> None:
    without_interval = AlertDetails(value_name="answer quality", since=NOW)
    message = render(
        FakeAlert(name="10 % drop", id="e-1", details=without_interval),
        FakeAlert(name="regression", id="e-2", severity="WARNING"),
    )
    [item] = message.items
    assert (item.sentences[0], message.severity) == (CHANGE_LINE, MessageSeverity.CRITICAL)


def test_render_alerts__firing_alerts_come_first_and_give_the_severity() -> None:
    message = render(
        FakeAlert(name="a", state="RESOLVED"),
        FakeAlert(name="b", severity="WARNING", value=0.3),
        FakeAlert(name="c", severity="INFO", value=0.2),
    )
    assert (message.topic, message.severity) == ("alert.firing", MessageSeverity.WARNING)
    assert [item.sentences[-1] for item in message.items] == [
        "Alert rule: b.", "Alert rule: c.", "Alert rule: a.",
    ]  # fmt: skip


def test_render_alerts__of_the_runs_of_two_benchmarks_names_both() -> None:
    names = {"bench-001": NAMES, "bench-002": NAMES._replace(benchmark="nightly-billing")}
    billing = FakeAlert(
        id="e-2", benchmark_id="bench-002", run_id="run-2", value=0.5, severity="WARNING"
    )
    message = render_alerts([billing, FakeAlert()], lambda alert: names[alert.benchmark_id])
    assert_names(message_title(message), "0.900 → 0.620 (nightly-support)", "1 more")
    assert [item.title for item in message.items] == [
        "Support bot: answer quality 0.900 → 0.620 (nightly-support)",
        "Support bot: answer quality 0.900 → 0.500 (nightly-billing)",
    ]
    assert [tuple(fact) for fact in message.facts] == [
        ("benchmark", "nightly-support (bench-001)"),
        ("benchmark", "nightly-billing (bench-002)"),
        ("agent", "Support bot (agent-001)"),
        ("run", "run-1"),
        ("run", "run-2"),
    ]


@pytest.mark.parametrize(
    ("alert", "link", "advice"),
    [
        (
            FakeAlert(baseline=None),
            "/runs/run-1",
            [
                "See what changed: mosaico runs show run-1",
                "If it is known: mosaico alerts silences create --rule rule-1 --hours 24",
                "If the limit is wrong: mosaico alerts rules update rule-1 --threshold NUMBER",
            ],
        ),
        (
            FakeAlert(state="NO_DATA", value=None),
            "/runs/run-1",
            [
                "See what was computed: mosaico runs show run-1",
                "If this is expected: mosaico alerts rules update rule-1 --no-data KEEP",
            ],
        ),
        (
            FakeAlert(state="RUN_INVALID", rule_id=None, value=None),
            "/runs/run-1",
            [
                "See what is missing: mosaico runs show run-1",
                "When the cause is fixed, start a new run: mosaico runs start bench-001 agent-001",
            ],
        ),
        (
            FakeAlert(state="RUN_FAILED", rule_id=None, value=None),
            "/runs/run-1",
            [
                "See the error: mosaico runs show run-1",
                "When the cause is fixed: mosaico runs retry run-1",
            ],
        ),
        (
            FakeAlert(
                state="SCHEDULE_MISSED", rule_id=None, run_id=None, value=None,
                details=AlertDetails(schedule_id="s-1"),
            ),
            "/schedules/s-1",
            ["See its due times: mosaico schedules fires s-1"],
        ),
        (FakeAlert(state="RUN_MISSED", run_id=None, value=None), "/alerts/rule-1", []),
    ],
    ids=lambda value: value.state if isinstance(value, FakeAlert) else "",
)  # fmt: skip
def test_render_alerts__every_problem_has_a_page_and_a_next_step(
    alert: FakeAlert, link: str, advice: list[str]
) -> None:
    message = render(alert)
    [item] = message.items
    assert (message.link, item.link, list(item.advice)) == (link, link, advice)
    for line in item.advice:
        resolve(line.rpartition(": ")[2])
