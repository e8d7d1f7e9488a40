"""What `mosaico init` writes: one agent, one benchmark with an alert and a schedule, as YAML with comments; pure."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from mosaico.metrics.measures import Measure
from mosaico.statistics.verdict_rules import MIN_EFFECT

# A night that is missed by half a day is told.
HOURS_WITHOUT_RUN: Final = 36
CRON: Final = "0 0 3 * * *"
_PLAIN: Final = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*( [A-Za-z0-9_./-]+)*")
# Words that readers of YAML take for another type than a text.
_TYPED: Final = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectDraft:
    """The content of a file: fields as JSON with the names of the API, and what to say about them.

    `measures` are the KPIs, the one that decides first. `guesses` are what nobody said and nothing showed; `extra_files`
    are other files that the benchmark needs, by name. `next_commands` come before `mosaico apply`, `later_commands` after it.
    """

    agent: str
    agent_fields: Mapping[str, Any] = field(default_factory=dict)
    agent_comment: str | None = None
    benchmark_fields: Mapping[str, Any]
    benchmark_comment: str
    measures: Sequence[Measure]
    guesses: Sequence[str] = ()
    next_commands: Sequence[str] = ()
    later_commands: Sequence[str] = ()
    extra_files: Mapping[str, str] = field(default_factory=dict)


def write_project(
    draft: ProjectDraft, name: str, zone: str, endpoints: Mapping[str, Mapping[str, Any]]
) -> str:
    """The text of the file, without its first line. `name` owns the objects, `zone` is that of the schedule."""
    return "\n".join(_lines(draft, name, zone, endpoints)) + "\n"


def _lines(
    draft: ProjectDraft, name: str, zone: str, endpoints: Mapping[str, Mapping[str, Any]]
) -> Iterator[str]:
    yield "# Written by `mosaico init`. `mosaico apply mosaico.yaml --dry-run` shows what the file would create."
    yield f"name: {flow_text(literal(name))}  # the objects that this file creates belong to it"
    if endpoints:
        yield "endpoints:"
        yield from (f"  {flow_text(key)}: {flow_text(fields)}" for key, fields in endpoints.items())
    # A reference to it must not read as a variable.
    agent = flow_text(draft.agent.replace("${", "{"))
    yield "agents:"
    yield f"  {agent}:"
    if draft.agent_comment:
        yield f"    # {draft.agent_comment}"
    yield from _fields(draft.agent_fields, 4)
    yield "benchmarks:"
    # A service has one benchmark of a name, and may have several projects.
    yield f"  {flow_text(f'{name}-nightly')}:"
    yield f"    agents: [{agent}]"
    yield f"    # {draft.benchmark_comment}"
    yield from _fields(draft.benchmark_fields, 4)
    metrics = {json.dumps(measure.metric): measure.metric for measure in draft.measures}
    yield f"    metrics: {flow_text([*metrics.values()])}"
    yield from _kpis(draft.measures)
    yield from _rule(draft.measures[0], endpoints)
    yield "    schedules:"
    yield "      every-night:"
    yield f"        agent: {agent}"
    yield f'        cronExpression: "{CRON}"  # second, minute, hour, day of month, month, day of week'
    yield f"        timezone: {flow_text(zone)}"


def _fields(fields: Mapping[str, Any], indent: int) -> Iterator[str]:
    return (f"{' ' * indent}{name}: {flow_text(value)}" for name, value in fields.items())


def _kpis(measures: Sequence[Measure]) -> Iterator[str]:
    yield "    kpis:"
    for index, measure in enumerate(measures):
        fields: dict[str, Any] = {"formula": measure.formula, "direction": str(measure.direction)}
        if measure.unit:
            fields["unit"] = measure.unit
        if index == 0:
            yield f"      # Decides: {measure.text}. A smaller change than minEffect does not count."
            fields["gate"] = True
            # A score may have any scale: its default is 2 %.
            if not measure.key.startswith("score:"):
                fields["minEffect"] = MIN_EFFECT
        yield f"      {flow_text(measure.name)}: {flow_text(fields)}"


def _rule(decider: Measure, endpoints: Mapping[str, Any]) -> Iterator[str]:
    yield "    rules:"
    yield f"      {flow_text(f'{decider.name} regressed')}:"
    yield f"        kpi: {flow_text(decider.name)}"
    yield "        condition: REGRESSED"
    yield f"        maxHoursWithoutRun: {HOURS_WITHOUT_RUN}  # a missing night is told, too"
    if endpoints:
        yield f"        endpoints: {flow_text([*endpoints])}"
    else:
        yield "        channels: [IN_APP]  # the inbox; with SLACK_WEBHOOK_URL or WEBHOOK_URL set, init adds it"


def flow_text(value: Any) -> str:
    """A JSON value on one line of YAML; a text without quotes where it stays a text."""
    if isinstance(value, Mapping):
        pairs = (f"{flow_text(key)}: {flow_text(item)}" for key, item in value.items())
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(flow_text, value))}]"
    if not isinstance(value, str):
        return json.dumps(value)
    is_plain = _PLAIN.fullmatch(value) and value.casefold() not in _TYPED
    return value if is_plain else json.dumps(value, ensure_ascii=False)


def literal(text: str) -> str:
    """A text that somebody else chose: a `${` in it names no variable."""
    return text.replace("${", "$${")
