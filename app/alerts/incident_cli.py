"""`mosaico incidents`: read incidents, acknowledge them, and accept new levels."""

from typing import Annotated

import typer

from app.alerts.rules import IncidentState
from app.core.console.list_filters import choice_filter, id_filter, text_filter
from app.core.console.resource import Resource, id_argument, print_change
from app.core.console.service import open_api
from app.core.console.table import JSON, field, format_cell, time_field
from app.core.console.terminal import CommandGroup, Format, OutputFormat
from app.core.web.page_paths import path_of
from app.notifications.types import MessageSeverity

cli = CommandGroup("incidents", help="Read incidents; acknowledge them; accept new levels.")
incidents = Resource(group=cli, noun="incident", path="/incidents", page="/incidents")

INCIDENT_COLUMNS = (
    field("id"),
    field("state"),
    field("resolution"),
    field("name"),
    field("agentId", "agent"),
    field("valueName", "value of"),
    field("baseline"),
    field("value"),
    field("runs"),
    time_field("startedAt", "started"),
    time_field("resolvedAt", "resolved"),
)
IncidentId = Annotated[str, id_argument("incident", "/incidents")]

incidents.add_list(
    INCIDENT_COLUMNS,
    filters={
        "benchmarkId": id_filter("benchmark", "/benchmarks"),
        "agentId": id_filter("agent", "/agents"),
        "alertConfigId": id_filter("rule", "/alert-configs"),
        "state": choice_filter("--state", IncidentState, "Filter by state."),
        "severity": choice_filter("--severity", MessageSeverity, "Filter by severity."),
        "text": text_filter("--text", "Filter by a part of the ID, the name or the explanation."),
        "from": text_filter("--from", "Only incidents opened at or after this time."),
        "to": text_filter("--to", "Only incidents opened before this time."),
        "sort": text_filter("--sort", "Sort key, for example agent or -opened."),
    },
    help_text="List incidents, newest first.",
    limit=20,
)
incidents.add_show(help_text="Show an incident: its runs, its level before and now, how it ended.")


@cli.command("acknowledge")
def acknowledge_incident(incident: IncidentId, output: Format = OutputFormat.TABLE) -> None:
    """Acknowledge an incident as a real change.

    It stays open until the runs recover.
    """
    _post(incident, "acknowledge", None, "is acknowledged; it stays open until it recovers", output)


@cli.command("noise")
def dismiss_incident(incident: IncidentId, output: Format = OutputFormat.TABLE) -> None:
    """Acknowledge an incident as noise and close it.

    Its runs count as ordinary runs again.
    """
    _post(incident, "noise", None, "is noise; its runs count as ordinary runs again", output)


@cli.command("accept")
def accept_incident(
    incident: IncidentId,
    note: Annotated[
        str | None, typer.Option("--note", help="Reason, stored with the incident.")
    ] = None,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Accept the new level of an open incident and close it.

    Later runs are compared with the runs of the incident. Requires the role admin.
    """
    _post(incident, "accept", {"note": note}, "is closed; its level is the new baseline", output)


def _post(
    incident: str, action: str, body: JSON | None, outcome: str, output: OutputFormat
) -> None:
    with open_api() as api:
        changed = api.post(f"/incidents{path_of(incident)}/{action}", body)
    print_change(changed, output, [f"incident {format_cell(incident)} {outcome}"])
