"""`mosaico incidents`: read incidents, acknowledge them, and accept new levels."""

from typing import Annotated, Final

import typer

from mosaico.alerts.rules import Condition, IncidentState
from mosaico.core.console.filter_options import choice_filter, id_filter, text_filter
from mosaico.core.console.resource import Resource
from mosaico.core.console.resource_arguments import note_option
from mosaico.core.console.table import JSON, field, format_cell, format_time, time_field
from mosaico.core.console.terminal import CommandGroup
from mosaico.notifications.types import MessageSeverity

cli = CommandGroup(
    "incidents", help="Read incidents; acknowledge and assign them; accept new levels."
)
incidents = Resource(group=cli, noun="incident", path="/incidents", page="/incidents")

NOTE: Final = {"note": Annotated[str | None, note_option("incident")]}
INCIDENT_COLUMNS = (
    field("id"),
    field("state"),
    field("resolution"),
    field("name"),
    field("agentId", "agent"),
    field("assigneeName", "assigned to"),
    field("valueName", "value of"),
    field("baseline"),
    field("value"),
    field("runs"),
    time_field("startedAt", "started"),
    time_field("resolvedAt", "resolved"),
)

incidents.add_list(
    INCIDENT_COLUMNS,
    filters={
        "benchmarkId": id_filter("benchmark", "/benchmarks"),
        "agentId": id_filter("agent", "/agents"),
        "alertConfigId": id_filter("rule", "/alert-configs"),
        "kpi": text_filter("--kpi", "Filter by the ID of a KPI."),
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


def describe_accepted(incident: JSON) -> list[str]:
    """The status line of an incident whose level was accepted."""
    return [_line(incident, "is closed; its level is the new baseline")]


def describe_acknowledged(incident: JSON) -> list[str]:
    """The status line of an incident that was real."""
    if incident["state"] == IncidentState.OPEN:
        return [_line(incident, "is acknowledged; it stays open until it recovers")]
    return [_line(incident, f"is acknowledged; it ended at {format_time(incident['resolvedAt'])}")]


def describe_noise(incident: JSON) -> list[str]:
    """What became of an incident that was noise, and what helps where it stays open."""
    if Condition(incident["condition"]).excludes_incidents:
        return [
            _line(incident, "is noise; its runs count as ordinary runs again"),
            "falls of this size are ordinary now, and page later or not at all",
        ]
    line = _line(incident, "counts as noise in the precision of its rule")
    if incident["state"] != IncidentState.OPEN or incident["alertConfigId"] is None:
        return [line]
    rule = format_cell(incident["alertConfigId"])
    return [
        f"{line}; it stays open until the value is within the threshold again",
        f"to silence the rule: `mosaico alerts silences create --rule {rule} --hours 24`",
        f"to change the threshold: `mosaico alerts rules update {rule} --threshold NUMBER`",
    ]


def describe_undone(incident: JSON) -> list[str]:
    """The status line of an incident that nobody has judged again."""
    state = "is open" if incident["state"] == IncidentState.OPEN else "has ended"
    return [_line(incident, f"{state}, and nobody has judged it")]


def describe_assigned(incident: JSON) -> list[str]:
    """The status line of an incident that somebody looks after, or nobody."""
    who = incident["assigneeName"]
    return [_line(incident, f"is assigned to {format_cell(who) if who else 'nobody'}")]


def _line(incident: JSON, outcome: str) -> str:
    return f"incident {format_cell(incident['id'])} {outcome}"


incidents.add_action(
    "acknowledge",
    help_text="Acknowledge an incident as a real change.\n\nAn open incident stays open until the"
    " runs recover. Of an incident that was noise, the bad runs leave the history again.",
    parameters=NOTE,
    describe=describe_acknowledged,
)
incidents.add_action(
    "noise",
    help_text="Acknowledge an incident as noise and close it."
    "\n\nIts runs count as ordinary runs again, until `mosaico incidents acknowledge`, which does not"
    " open it again. An incident of a fixed threshold stays open until the value is within the"
    " threshold again.",
    question="Acknowledge {} as noise? Its runs count as ordinary runs again, and it is closed unless"
    " its threshold is fixed.",
    parameters=NOTE,
    describe=describe_noise,
)
incidents.add_action(
    "assign",
    help_text="Assign an incident to a person, who then looks after it. The person must see the benchmark.",
    parameters={
        "assignee": Annotated[
            str, typer.Option("--to", metavar="PERSON", help="Address or ID of the person.")
        ]
    },
    describe=describe_assigned,
)
incidents.add_action(
    "unassign", help_text="Assign an incident to nobody.", describe=describe_assigned
)
incidents.add_action(
    "accept",
    help_text="Accept the new level of an open incident and close it. `mosaico incidents undo` takes it"
    " back, until the next run is judged."
    "\n\nLater runs are compared with the runs of the incident. Requires the role admin.",
    parameters=NOTE,
    describe=describe_accepted,
    question="Accept the level of {}? It is closed, and later runs are compared with it.",
)
incidents.add_action(
    "undo",
    help_text="Take back what was said of an incident: real, noise, or the new level is correct."
    "\n\nAn incident that was closed by it is open again. That is possible until the next run of the"
    " agent is judged.",
    describe=describe_undone,
)
