"""`mosaico init`: writes a `mosaico.yaml` for what the current folder and the environment hold."""

import os
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import typer

from mosaico.core.console.files import write_text
from mosaico.core.console.terminal import (
    CommandGroup,
    WrongUsage,
    escape_line,
    is_interactive,
    print_result,
    print_status,
)
from mosaico.core.errors import BadUsage
from mosaico.project_file.benchmark_options import FILE_NAME

if TYPE_CHECKING:
    from mosaico.project_file.discoveries import Discovery, Question, Surroundings
    from mosaico.project_file.project_draft import ProjectDraft

ZONES: Final = Path("/usr/share/zoneinfo")
# The endpoints of the variables that name a recipient: their names and channels.
ENDPOINTS: Final = {
    "SLACK_WEBHOOK_URL": ("team-slack", "SLACK"),
    "WEBHOOK_URL": ("webhook", "WEBHOOK"),
}
COLUMNS: Final = "output=COLUMN,expected=COLUMN,item=COLUMN"

cli = CommandGroup(
    "init", help="Write a mosaico.yaml for what this folder and the environment hold."
)


AgentCommand = Annotated[
    str | None,
    typer.Option(
        "--agent-command",
        metavar="COMMAND",
        help="Command that runs your agent: it gets an item as {input}, or on standard input.",
    ),
]
MapColumns = Annotated[
    list[str] | None,
    typer.Option(
        "--map",
        metavar="FIELD=COLUMN",
        help="Columns of the files of results that are not recognized, as `compare` has them. Repeatable.",
    ),
]
ChosenKind = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="KIND",
        help="What to use when several things are found: command, bash, mcp, files, langfuse or otel.",
    ),
]


@cli.command("init")
def init_project(
    *,
    agent_command: AgentCommand = None,
    chosen_kind: ChosenKind = None,
    name: Annotated[
        str | None,
        typer.Option(
            "--name", metavar="NAME", help="Name of the project (default: that of the folder)."
        ),
    ] = None,
    map_columns: MapColumns = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite existing files.")] = False,
) -> None:
    """Write a mosaico.yaml for what this folder and the environment hold.

    Two files of results, keys of Langfuse, a service of OpenTelemetry, an agent's command, or a bash or ot-bench
    benchmark: agent, benchmark with KPIs, alert rule and schedule. On a terminal it asks at most one thing.

    Exit codes: 0 written, 2 nothing was found, or the file exists.
    """
    from mosaico.project_file.discoveries import Surroundings
    from mosaico.traces.files.column_mapping import parse_mapping

    _require_new(FILE_NAME, force=force)
    around = Surroundings(
        folder=Path(), environment=os.environ, agent_command=agent_command,
        name=name or _folder_name(), columns=parse_mapping(map_columns or ()),
    )  # fmt: skip
    if around.columns:
        chosen_kind = _require_files(chosen_kind, agent_command)
    asker = _Asker()
    draft = _choose(_discover(around, chosen_kind, asker), chosen_kind, asker).draft(asker)
    for file in draft.extra_files:
        _require_new(file, force=force)
    _write(draft, around.name, asker.guesses)
    _print_next(draft)


def _write(draft: "ProjectDraft", name: str, guesses: list[str]) -> None:
    """Write the files of a draft, and say what was guessed."""
    from mosaico.project_file.discoveries import unknown_directions
    from mosaico.project_file.project_draft import write_project
    from mosaico.project_file.reading import parse_project_file
    from mosaico.project_file.shipped_schema import schema_line

    zone, zone_guess = _local_zone(os.environ)
    text = write_project(draft, name, zone, _endpoints(os.environ))
    text = f"{schema_line(os.environ.get('MOSAICO_URL'))}\n{text}"
    # What is written passes the reader of `mosaico apply`.
    parse_project_file(text.encode(), os.environ, FILE_NAME)
    for file, content in {FILE_NAME: text, **draft.extra_files}.items():
        write_text(Path(file), content)
        print_result(file)
    for guess in (*guesses, *draft.guesses, *unknown_directions(draft.measures), *zone_guess):
        print_status(f"guessed: {escape_line(guess)}")


def _require_new(name: str, *, force: bool) -> None:
    if Path(name).exists() and not force:
        raise BadUsage(f"{name} exists", hint="edit it, or overwrite it with --force")


def _require_files(kind: str | None, agent_command: str | None) -> str:
    """The kind of the benchmark if columns are named: that of files of results. Raises: `WrongUsage`."""
    from mosaico.project_file.discoveries import SetupKind

    if agent_command is not None or kind not in (None, SetupKind.FILES):
        raise WrongUsage(
            "--map names columns of files of results, which nothing else has",
            hint=f"leave --map out, or write only --from {SetupKind.FILES} beside it",
        )
    return SetupKind.FILES


def _discover(around: "Surroundings", kind: str | None, asker: "_Asker") -> "list[Discovery]":
    """What was found; asks for the columns of results where nothing else was found. Raises: `BadUsage`."""
    from mosaico.project_file.discoveries import Question, SetupKind, discover
    from mosaico.traces.files.column_mapping import parse_mapping

    discoveries = discover(around)
    kinds = {discovery.kind for discovery in discoveries}
    # An agent's command has its questions in a table, which holds no results.
    has_command = kind is None and SetupKind.COMMAND in kinds
    if has_command or SetupKind.FILES in kinds or kind not in (None, SetupKind.FILES):
        return discoveries
    unknown_columns = around.search.explain_unread()
    if unknown_columns is None:
        return discoveries
    if kinds and kind is None:
        print_status(f"not used: {escape_line(unknown_columns)}")
        print_status(f"hint: mosaico init --force --map {COLUMNS}")
        return discoveries
    if around.columns or not asker.may_ask:
        raise BadUsage(unknown_columns, hint=f"mosaico init --map {COLUMNS}")
    columns = parse_mapping([asker(Question(unknown_columns, COLUMNS))])
    return _discover(replace(around, columns=columns), kind, asker)


def _choose(discoveries: "list[Discovery]", kind: str | None, asker: "_Asker") -> "Discovery":
    """The thing to use; says what else was found. Raises: `BadUsage`, `WrongUsage`."""
    from mosaico.project_file.discoveries import Question, SetupKind

    if kind is not None and kind not in {*SetupKind}:
        raise WrongUsage(f"--from {kind} is unknown", hint=f"one of {', '.join(SetupKind)}")
    for discovery in discoveries:
        print_status(f"found: {escape_line(discovery.text)}")
    usable = [discovery for discovery in discoveries if kind in (None, discovery.kind)]
    if not usable:
        what = f"nothing for --from {kind}" if kind else "nothing that a benchmark can be made of"
        raise BadUsage(
            f"{what} is in this folder and the environment",
            hint="two files of results of the same items (docs/import.md), LANGFUSE_PUBLIC_KEY and LANGFUSE_SECRET_KEY,"
            " OTEL_SERVICE_NAME, a file of bash tasks or of ot-bench, or --agent-command './my-agent {input}'",
        )
    if len(usable) == 1 or usable[0].kind is SetupKind.COMMAND:
        return usable[0]
    kinds = [str(discovery.kind) for discovery in usable]
    question = Question("Which of them is the benchmark about? --from names it", kinds[0], kinds)
    answer = asker(question)
    return next(discovery for discovery in usable if discovery.kind == answer)


class _Asker:
    """Asks on a terminal, once; otherwise takes the default, which is a guess."""

    def __init__(self) -> None:
        self.guesses: list[str] = []
        self.may_ask = is_interactive(sys.stdin) and is_interactive(sys.stderr)

    def __call__(self, question: "Question") -> str:
        if not self.may_ask:
            rejected = [choice for choice in question.choices if choice != question.default]
            rest = f", not {', '.join(rejected[:5])}" if rejected else ""
            self.guesses.append(f"{question.text} {question.default}{rest}")
            return question.default
        self.may_ask = False
        choices = f" ({', '.join(question.choices)})" if question.choices else ""
        while True:
            print_status(
                f"{escape_line(question.text)}{escape_line(choices)} [{question.default}] "
            )
            line = sys.stdin.readline()
            answer = line.strip() or question.default
            if not line or not question.choices or answer in question.choices:
                return answer
            print_status(f"{escape_line(answer)} is not one of them")


def _folder_name() -> str:
    """The name of the current folder as that of a project."""
    return re.sub(r"[^\w.-]+", "-", Path.cwd().name).strip("-._")[:64] or "my-agent"


def _local_zone(environment: Mapping[str, str]) -> tuple[str, list[str]]:
    """The time zone of this machine for the schedule, and that it is guessed."""
    zone = environment.get("TZ", "").removeprefix(":")
    if not zone:
        link = Path("/etc/localtime").resolve()
        zone = str(link.relative_to(ZONES)) if link.is_relative_to(ZONES) else ""
    try:
        ZoneInfo(zone or "UTC")
    except (ValueError, ZoneInfoNotFoundError):
        zone = ""
    zone = zone or "UTC"
    return zone, [f"the schedule is in the time zone {zone}, at 03:00"]


def _endpoints(environment: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """The recipients that the environment names."""
    return {
        name: {"channel": channel, "recipient": f"${{{variable}}}"}
        for variable, (name, channel) in ENDPOINTS.items()
        if environment.get(variable)
    }


def _print_next(draft: "ProjectDraft") -> None:
    for command in [*_commands_before(draft), f"mosaico apply {FILE_NAME}", *draft.later_commands]:
        print_status(f"next: {command}")


def _commands_before(draft: "ProjectDraft") -> Iterator[str]:
    """What to do before `mosaico apply`: a service that is known runs already, perhaps without its variables."""
    for command in draft.next_commands:
        variables, serve, _ = command.partition("mosaico serve")
        if not serve or not os.environ.get("MOSAICO_URL"):
            yield command
        elif variables:
            yield f"start the workers of the service with {variables.strip()}"
