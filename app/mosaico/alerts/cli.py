"""`mosaico alerts`: read alerts, manage alert rules and silences."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from mosaico.alerts.rules import AlertEventState
from mosaico.alerts.why_cli import why
from mosaico.core.console.files import read_object
from mosaico.core.console.filter_options import choice_filter, flag_filter, id_filter, text_filter
from mosaico.core.console.generated_command import FieldOption
from mosaico.core.console.resource import Resource
from mosaico.core.console.resource_arguments import id_argument, note_option
from mosaico.core.console.service import complete_ids, open_api
from mosaico.core.console.table import (
    JSON,
    field,
    format_cell,
    print_change,
    print_link,
    print_page,
    time_field,
)
from mosaico.core.console.terminal import (
    CommandGroup,
    Format,
    OutputFormat,
    WrongUsage,
    Yes,
    confirm,
    print_json,
    print_result,
    print_status,
)
from mosaico.core.defaults import BACKTEST_DAYS
from mosaico.core.web.page_paths import alert_page_path, path_of, rule_page_path
from mosaico.notifications.types import MessageSeverity

RULES = "/alert-configs"

cli = CommandGroup("alerts", help="Read alerts; manage alert rules and silences.")
rules_cli = CommandGroup("rules", help="Manage alert rules.")
silences_cli = CommandGroup("silences", help="Manage silences.")
cli.add_group(rules_cli)
cli.add_group(silences_cli)

alerts = Resource(
    group=cli, noun="alert", path="/alerts", page="/alerts/events", list_page="/alert-history"
)
rules = Resource(group=rules_cli, noun="alert rule", path=RULES, page="/alerts")
silences = Resource(
    group=silences_cli, noun="silence", path="/silences", page="/silences", page_suffix="/edit",
    list_page="/inbox?tab=silenced",
)  # fmt: skip

ALERT_COLUMNS = (
    field("id"),
    field("state"),
    field("name"),
    field("severity"),
    field("agentId", "agent"),
    field("runId", "run"),
    field("value"),
    field("baseline"),
    field("verdict"),
    time_field("createdAt", "created"),
)
RULE_COLUMNS = (
    field("id"),
    field("name"),
    field("benchmarkId", "benchmark"),
    field("agentId", "agent"),
    field("metric"),
    field("kpi"),
    field("condition"),
    field("threshold"),
    field("severity"),
    field("enabled"),
)
SILENCE_COLUMNS = (
    field("id"),
    field("startsAt", "from"),
    field("endsAt", "until"),
    field("comment"),
)
REPLAY_COLUMNS = (
    field("runId", "run"),
    field("completedAt", "completed"),
    field("outcome"),
    field("state"),
    field("notified"),
    field("value"),
    field("baseline"),
)
FILTERS = {
    "benchmarkId": id_filter("benchmark", "/benchmarks"),
    "agentId": id_filter("agent", "/agents"),
}
RULE_OPTIONS = {
    "benchmarkId": FieldOption(help="ID of the benchmark whose runs the rule watches."),
    "agentId": FieldOption(help="ID of the agent to watch (default: each agent separately)."),
    "condition": FieldOption(help="Condition under which the rule fires."),
    "severity": FieldOption(help="Severity of the alerts."),
    "channels": FieldOption(help="Channel to notify, such as EMAIL or SLACK.", parse=str.upper),
    "recipients": FieldOption(
        help="Address to notify, through each named channel that accepts it."
    ),
    "noData": FieldOption(help="How a run without a value is handled."),
}


def parse_hours(hours: float) -> str:
    """The time that many hours from now. Raises: `WrongUsage`."""
    if not 0 < hours < 24 * 366 * 10:
        raise WrongUsage(f"--hours {hours} is out of range", hint="use a number such as 0.5 or 12")
    return (datetime.now(UTC) + timedelta(hours=hours)).isoformat()


SILENCE_OPTIONS = {
    "matchers": FieldOption(is_flattened=True),
    "alertConfigId": FieldOption("--rule", help="Silence the alerts of this alert rule."),
    "benchmarkId": FieldOption(help="Silence the alerts of this benchmark."),
    "agentId": FieldOption(help="Silence the alerts of this agent."),
    "severity": FieldOption(help="Silence the alerts of this severity."),
    "name": FieldOption(help="Silence the alerts whose name matches this glob, such as nightly-*."),
    "startsAt": FieldOption(help="Start of the silence (default: now)."),
    "endsAt": FieldOption(
        "--hours",
        type=float,
        parse=parse_hours,
        metavar="N",
        help="End the silence N hours from now.",
    ),
    "comment": FieldOption(help="Reason for the silence."),
}


def describe_rule(rule: JSON) -> list[str]:
    """Status lines after an alert rule was created."""
    rule_id = format_cell(rule["id"])
    return [f"alert rule {rule_id} is created", f"next: `mosaico alerts rules backtest {rule_id}`"]


def describe_silence(silence: JSON) -> list[str]:
    """Status lines after a silence was created."""
    return [
        f"silence {silence['id']} is created; it ends at {silence['endsAt']}",
        f"to end it now: `mosaico alerts silences delete {silence['id']}`",
    ]


def report_trial(trial: JSON) -> None:
    """Print what a rule decides on the newest runs, one line per agent."""
    for assessment in trial["assessments"]:
        cells = [assessment[name] for name in ("agentId", "outcome", "explanation")]
        print_result("\t".join(map(format_cell, cells)))
    print_status(f"sent as notification {format_cell(trial['notificationId'])}")


alerts.add_list(
    ALERT_COLUMNS,
    filters={
        **FILTERS,
        "runId": id_filter("run", "/benchmark-runs"),
        "alertConfigId": id_filter("rule", "/alert-configs"),
        "silenceId": id_filter("silence", "/silences"),
        "state": choice_filter("--state", AlertEventState, "Filter by state."),
        "severity": choice_filter("--severity", MessageSeverity, "Filter by severity."),
        "text": text_filter("--text", "Filter by a part of the ID, the name or the explanation."),
        "from": text_filter("--from", "Only alerts at or after this time."),
        "to": text_filter("--to", "Only alerts before this time."),
        "sort": text_filter("--sort", "Sort key, for example agent or -created."),
    },
    help_text="List alerts, newest first.",
    limit=20,
)
alerts.add_show(help_text="Show an alert: its explanation and the traces that changed.")


@cli.command("ack")
def acknowledge_alert(
    *,
    alert: Annotated[str, id_argument("alert", "/alerts")],
    verdict: Annotated[
        Literal["true", "noise"],
        typer.Option("--verdict", help="Whether the alert reported a real change."),
    ],
    note: Annotated[str | None, note_option("alert")] = None,
    yes: Yes = False,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Acknowledge an alert as true or noise.

    Runs of true incidents are excluded from the baseline. Noise closes the incident.
    """
    with open_api() as api:
        if verdict == "noise":
            question = "as noise? The runs of its incident count as ordinary runs again."
            confirm(f"Acknowledge alert {format_cell(alert)} {question}", yes=yes)
        body = {"verdict": verdict, "note": note}
        acknowledged = api.post(f"/alerts{path_of(alert)}/ack", body)
        address = f"{api.pages_url}{alert_page_path(acknowledged['id'])}"
    line = f"alert {format_cell(alert)} is acknowledged as {verdict}"
    print_change(acknowledged, output, [line])
    print_link(address, output)


cli.command("why")(why)

rules.add_list(RULE_COLUMNS, filters=FILTERS, help_text="List alert rules, newest first.")
rules.add_show(help_text="Show an alert rule: its state per agent and the precision of its alerts.")
rules.add_create(
    "mosaico.alerts.schemas:AlertConfigCreate",
    options=RULE_OPTIONS,
    help_text="Create an alert rule and print its ID.",
    describe=describe_rule,
)
rules.add_update("mosaico.alerts.schemas:AlertConfigPatch", options=RULE_OPTIONS)
rules.add_switches(
    enable="Enable an alert rule for the runs that end from now on.",
    disable="Disable an alert rule and resolve its open incidents.",
)
rules.add_delete(
    help_text="Delete an alert rule and resolve its open incidents. Its alerts are kept."
)
rules.add_action(
    "test",
    help_text="Evaluate an alert rule on the newest runs and send a test message to its recipients.",
    report=report_trial,
)


@rules_cli.command("backtest")
def backtest_rule(
    *,
    rule: Annotated[
        str | None,
        typer.Argument(
            metavar="RULE", help="ID or name of the alert rule.", autocompletion=complete_ids(RULES)
        ),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option("--file", help="An alert rule that is not stored, as JSON; - is stdin."),
    ] = None,
    agent: Annotated[
        str | None,
        typer.Option(
            "--agent",
            help="ID or name of the agent to replay.",
            autocompletion=complete_ids("/agents"),
        ),
    ] = None,
    days: Annotated[
        int, typer.Option("--days", min=1, help="Days of history to replay.")
    ] = BACKTEST_DAYS,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Replay an alert rule over stored runs and estimate its false alarm rate.

    Prints one row per run; the estimates are printed to standard error.
    """
    if (rule is None) == (file is None):
        raise WrongUsage(
            "give either a rule ID or --file", hint="mosaico alerts rules backtest RULE"
        )
    content = None if file is None else read_object(file)
    with open_api() as api:
        rule_id = rule and api.find_id(RULES, rule)
        body: JSON = {"alertConfigId": rule_id} if content is None else {"rule": content}
        body |= {"days": days} | ({"agentId": api.find_id("/agents", agent)} if agent else {})
        backtest = api.post(f"{RULES}/backtest", body)
        pages_url = api.pages_url
    if output is OutputFormat.JSON:
        print_json(backtest)
        return
    _print_coverage(backtest["coverage"])
    print_page({"items": backtest["runs"], "nextCursor": None}, REPLAY_COLUMNS, output)
    _print_estimates(backtest)
    if rule_id is not None:
        print_link(f"{pages_url}{rule_page_path(rule_id)}", output)


silences.add_list(
    SILENCE_COLUMNS,
    filters={
        "active": flag_filter("--active", "List only the silences in effect now."),
        "ended": flag_filter("--ended", "List only the silences that have ended."),
    },
    help_text="List silences, newest first.",
)
silences.add_show(help_text="Show a silence.")
silences.add_create(
    "mosaico.alerts.schemas:SilenceCreate",
    options=SILENCE_OPTIONS,
    help_text="Silence the notifications of matching alerts and print the ID of the silence."
    "\n\nThe alerts are still recorded.",
    describe=describe_silence,
)
silences.add_update("mosaico.alerts.schemas:SilencePatch", options=SILENCE_OPTIONS)
silences.add_delete(help_text="End a silence now.")


def _print_coverage(coverage: dict[str, Any]) -> None:
    print_status(
        f"{coverage['runs']} runs: {coverage['withValue']} evaluated,"
        f" {coverage['warmup']} warm-up, {coverage['noData']} without a value,"
        f" {coverage['invalid']} invalid, {coverage['failed']} failed"
    )


def _print_estimates(backtest: JSON) -> None:
    print_status(
        f"fired {backtest['fired']}, resolved {backtest['resolved']}, no data {backtest['noData']}"
    )
    if backtest["falseAlarmsPerMonth"] is not None:
        rate = f"{backtest['falseAlarmsPerMonth']:.2f}"
        print_status(
            f"false alarms per month, assuming that no change in these runs was real: {rate}"
        )
    if backtest["minDetectableEffect"] is not None:
        print_status(f"minimum detectable effect: {backtest['minDetectableEffect']:.4g}")
