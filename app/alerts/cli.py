"""`mosaico alerts`: rules, what they told, and what they would have told."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Literal

import typer

from app.alerts.rules import Condition
from app.core.console.shell_completion import ids_at
from app.core.console.table import JSON, field, format_cell, print_details, print_page, time_field
from app.core.console.terminal import (
    CommandGroup,
    DryRun,
    Format,
    OutputFormat,
    WrongUsage,
    Yes,
    print_json,
    print_result,
    print_status,
)
from app.notifications.types import MessageSeverity

RULES = "/alert-configs"
ALERTS = "/alerts"
SILENCES = "/silences"

cli = CommandGroup("alerts", help="Alerts: rules about runs, and what they told.")

RuleId = Annotated[
    str, typer.Argument(metavar="RULE", help="Id of a rule.", autocompletion=ids_at(RULES))
]
AlertId = Annotated[
    str, typer.Argument(metavar="ALERT", help="Id of an alert.", autocompletion=ids_at(ALERTS))
]
SilenceId = Annotated[
    str,
    typer.Argument(metavar="SILENCE", help="Id of a silence.", autocompletion=ids_at(SILENCES)),
]
BenchmarkOption = Annotated[
    str | None,
    typer.Option("--benchmark", help="Of this one.", autocompletion=ids_at("/benchmarks")),
]
AgentOption = Annotated[
    str | None, typer.Option("--agent", help="Of this one.", autocompletion=ids_at("/agents"))
]
Limit = Annotated[int, typer.Option("--limit", min=1, help="The newest so many.")]
COLUMNS = (
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


@cli.command("list")
def list_alerts(
    *,
    benchmark: BenchmarkOption = None,
    agent: AgentOption = None,
    run: Annotated[
        str | None,
        typer.Option("--run", help="Of this one.", autocompletion=ids_at("/benchmark-runs")),
    ] = None,
    limit: Limit = 20,
    output: Format = OutputFormat.TABLE,
) -> None:
    """List what was told, newest first."""
    from app.core.console.api_client import open_api

    with open_api() as api:
        page = api.page(ALERTS, limit=limit, benchmarkId=benchmark, agentId=agent, runId=run)
    print_page(page, COLUMNS, output)


@cli.command("show")
def show_alert(alert: AlertId, output: Format = OutputFormat.TABLE) -> None:
    """Show one alert: why it was told, and which traces changed."""
    _show(f"{ALERTS}/{_segment(alert)}", output)


@cli.command("ack")
def acknowledge_alert(
    alert: AlertId,
    verdict: Annotated[
        Literal["true", "noise"], typer.Option("--verdict", help="Whether it was right.")
    ],
    output: Format = OutputFormat.TABLE,
) -> None:
    """Say whether an alert was right; what a true one told is not taken for normal."""
    from app.core.console.api_client import open_api

    with open_api() as api:
        found = api.post(f"{ALERTS}/{_segment(alert)}/ack", {"verdict": verdict})
    if output is OutputFormat.JSON:
        print_json(found)
    print_status(f"alert {format_cell(alert)} is acknowledged as {verdict}")


@cli.command("rules")
def list_rules(
    *,
    benchmark: BenchmarkOption = None,
    agent: AgentOption = None,
    limit: Limit = 50,
    output: Format = OutputFormat.TABLE,
) -> None:
    """List the rules, newest first."""
    from app.core.console.api_client import open_api

    with open_api() as api:
        page = api.page(RULES, limit=limit, benchmarkId=benchmark, agentId=agent)
    print_page(page, RULE_COLUMNS, output)


@cli.command("rule")
def show_rule(rule: RuleId, output: Format = OutputFormat.TABLE) -> None:
    """Show one rule, where it stands and how often it was right."""
    _show(f"{RULES}/{_segment(rule)}", output)


@cli.command("create")
def create_rule(
    *,
    rule_id: Annotated[str | None, typer.Option("--id", help="Made when left out.")] = None,
    name: Annotated[str | None, typer.Option("--name", help="What people call it.")] = None,
    benchmark: Annotated[
        str | None,
        typer.Option("--benchmark", help="Whose runs.", autocompletion=ids_at("/benchmarks")),
    ] = None,
    agent: Annotated[
        str | None,
        typer.Option("--agent", help="Of whom; else each one.", autocompletion=ids_at("/agents")),
    ] = None,
    metric: Annotated[
        str | None, typer.Option("--metric", help="A metric or a statistic, as ROUGE.p95.")
    ] = None,
    kpi: Annotated[str | None, typer.Option("--kpi", help="Id or name of a KPI.")] = None,
    condition: Annotated[
        Condition | None, typer.Option("--condition", case_sensitive=False, help="When it fires.")
    ] = None,
    threshold: Annotated[
        float | None, typer.Option("--threshold", help="A value, or percent.")
    ] = None,
    severity: Annotated[
        MessageSeverity | None,
        typer.Option("--severity", case_sensitive=False, help="How bad it is."),
    ] = None,
    channels: Annotated[
        list[str] | None, typer.Option("--channel", help="EMAIL, SLACK, …; repeat for more.")
    ] = None,
    recipients: Annotated[
        list[str] | None, typer.Option("--recipient", help="Whom to tell; repeat for more.")
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option("--file", help="The rule as JSON, as the API takes it; - is stdin."),
    ] = None,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Add a rule and print its id; options win over the fields of --file."""
    from app.core.console.api_client import open_api
    from app.core.console.input_files import read_object

    given = {
        "id": rule_id,
        "name": name,
        "benchmarkId": benchmark,
        "agentId": agent,
        "metric": metric,
        "kpi": kpi,
        "condition": condition,
        "threshold": threshold,
        "severity": severity,
        "channels": channels or None,
        "recipients": recipients or None,
    }
    body = read_object(file) if file else {}
    body |= {key: value for key, value in given.items() if value is not None}
    with open_api() as api:
        created = api.post(RULES, body)
    if output is OutputFormat.JSON:
        print_json(created)
    else:
        print_result(format_cell(created["id"]))
    print_status(f"next: `mosaico alerts backtest {format_cell(created['id'])}`")


@cli.command("enable")
def enable_rule(rule: RuleId, output: Format = OutputFormat.TABLE) -> None:
    """Let a rule judge the runs that end from now on."""
    _switch(rule, output, enabled=True)


@cli.command("disable")
def disable_rule(rule: RuleId, output: Format = OutputFormat.TABLE) -> None:
    """Let a rule judge nothing; what fires is resolved."""
    _switch(rule, output, enabled=False)


@cli.command("delete")
def delete_rule(*, rule: RuleId, yes: Yes = False, dry_run: DryRun = False) -> None:
    """Delete a rule; what fires is resolved, and its alerts stay."""
    from app.core.console.api_client import delete_thing

    path = f"{RULES}/{_segment(rule)}"
    delete_thing(path, f"the rule {format_cell(rule)}", yes=yes, dry_run=dry_run)


@cli.command("test")
def try_rule(rule: RuleId, output: Format = OutputFormat.TABLE) -> None:
    """Print what a rule says of the newest runs, and send its recipients a message for a trial."""
    from app.core.console.api_client import open_api

    with open_api() as api:
        tried = api.post(f"{RULES}/{_segment(rule)}/test")
    if output is OutputFormat.JSON:
        print_json(tried)
        return
    for found in tried["assessments"]:
        print_result(
            f"{format_cell(found['agentId'])}\t{found['outcome']}\t{format_cell(found['explanation'])}"
        )
    print_status(f"sent as notification {format_cell(tried['notificationId'])}")


@cli.command("backtest")
def backtest_rule(
    *,
    rule: Annotated[
        str | None,
        typer.Argument(metavar="RULE", help="Id of a rule.", autocompletion=ids_at(RULES)),
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--file", help="A rule that is not saved, as JSON; - is stdin.")
    ] = None,
    agent: AgentOption = None,
    days: Annotated[int, typer.Option("--days", min=1, help="How far to look back.")] = 90,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Replay a rule over stored history: one line a run; how often for nothing on stderr."""
    from app.core.console.api_client import open_api
    from app.core.console.input_files import read_object

    if (rule is None) == (file is None):
        raise WrongUsage("name either a rule or a --file", hint="mosaico alerts backtest RULE")
    body: JSON = {"alertConfigId": rule} if file is None else {"rule": read_object(file)}
    body |= {"days": days} | ({"agentId": agent} if agent else {})
    with open_api() as api:
        found = api.post(f"{RULES}/backtest", body)
    if output is OutputFormat.JSON:
        print_json(found)
        return
    covered = found["coverage"]
    print_status(
        f"{covered['runs']} runs: {covered['withValue']} judged, {covered['warmup']} warm-up,"
        f" {covered['noData']} without data, {covered['invalid']} invalid, {covered['failed']} failed"
    )
    print_page({"items": found["runs"], "nextCursor": None}, REPLAY_COLUMNS, output)
    print_status(f"fired {found['fired']}, resolved {found['resolved']}, no data {found['noData']}")
    if found["falseAlarmsPerMonth"] is not None:
        print_status(
            f"if nothing was wrong: {found['falseAlarmsPerMonth']:.2f} false alarms a month"
        )
    if found["minDetectableEffect"] is not None:
        print_status(
            f"smallest change for the worse that it sees: {found['minDetectableEffect']:.4g}"
        )


@cli.command("silences")
def list_silences(
    *,
    active: Annotated[bool, typer.Option("--active", help="Only those that hold now.")] = False,
    limit: Limit = 50,
    output: Format = OutputFormat.TABLE,
) -> None:
    """List the silences, newest first."""
    from app.core.console.api_client import open_api

    with open_api() as api:
        page = api.page(SILENCES, limit=limit, active="true" if active else None)
    print_page(page, SILENCE_COLUMNS, output)


@cli.command("silence")
def create_silence(
    *,
    hours: Annotated[float, typer.Option("--hours", min=0.01, help="For so long, from now.")],
    rule: Annotated[
        str | None,
        typer.Option("--rule", help="Alerts of this one.", autocompletion=ids_at(RULES)),
    ] = None,
    benchmark: BenchmarkOption = None,
    agent: AgentOption = None,
    name: Annotated[str | None, typer.Option("--name", help="Alerts of this name; a glob.")] = None,
    severity: Annotated[
        MessageSeverity | None, typer.Option("--severity", case_sensitive=False, help="Only these.")
    ] = None,
    comment: Annotated[str | None, typer.Option("--comment", help="Why.")] = None,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Tell nobody of some alerts for a while, and print the id; they are still recorded."""
    from app.core.console.api_client import open_api

    matchers = {
        "alertConfigId": rule,
        "benchmarkId": benchmark,
        "agentId": agent,
        "name": name,
        "severity": severity,
    }
    body = {
        "matchers": {key: value for key, value in matchers.items() if value is not None},
        "endsAt": (datetime.now(UTC) + timedelta(hours=hours)).isoformat(),
        "comment": comment,
    }
    with open_api() as api:
        created = api.post(SILENCES, body)
    if output is OutputFormat.JSON:
        print_json(created)
    else:
        print_result(format_cell(created["id"]))
    print_status(
        f"silent until {created['endsAt']}; end it: `mosaico alerts unsilence {created['id']}`"
    )


@cli.command("unsilence")
def delete_silence(*, silence: SilenceId, yes: Yes = False, dry_run: DryRun = False) -> None:
    """End a silence now."""
    from app.core.console.api_client import delete_thing

    path = f"{SILENCES}/{_segment(silence)}"
    delete_thing(path, f"the silence {format_cell(silence)}", yes=yes, dry_run=dry_run)


def _switch(rule: str, output: OutputFormat, *, enabled: bool) -> None:
    from app.core.console.api_client import open_api

    with open_api() as api:
        changed: JSON = api.patch(f"{RULES}/{_segment(rule)}", {"enabled": enabled})
    if output is OutputFormat.JSON:
        print_json(changed)
    print_status(f"rule {format_cell(rule)} is {'enabled' if enabled else 'disabled'}")


def _show(path: str, output: OutputFormat) -> None:
    from app.core.console.api_client import open_api

    with open_api() as api:
        found = api.get(path)
    if output is OutputFormat.JSON:
        print_json(found)
    else:
        print_details(found)


def _segment(text: str) -> str:
    from app.core.console.api_client import segment

    return segment(text)
