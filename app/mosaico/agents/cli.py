"""`mosaico agents`: manage the agents under test."""

from typing import Annotated

import typer

from mosaico.core.console.filter_options import flag_filter
from mosaico.core.console.generated_command import FieldOption
from mosaico.core.console.resource import Resource
from mosaico.core.console.resource_arguments import id_argument
from mosaico.core.console.service import open_api
from mosaico.core.console.table import (
    JSON,
    Column,
    field,
    format_cell,
    print_details,
    print_link,
    print_table,
    tabulate,
    time_field,
)
from mosaico.core.console.terminal import (
    EXIT_UNSUCCESSFUL,
    CommandGroup,
    Format,
    OutputFormat,
    print_json,
    print_status,
)
from mosaico.core.text import count_noun, format_number
from mosaico.core.web.page_paths import path_of

cli = CommandGroup("agents", help="Manage agents.")
PATH = "/agents"
agents = Resource(group=cli, noun="agent", path=PATH, page=PATH)

COLUMNS = (
    field("id"),
    field("name"),
    field("langfuseProjectName", "project"),
    Column("secret", lambda agent: "set" if agent["secretSet"] else "none"),
    time_field("createdAt", "created"),
)


def _describe_kpis(version: JSON) -> str:
    """The mean of each KPI with its interval."""
    return "; ".join(
        f"{kpi['name']} {format_number(kpi['mean'])}" + _describe_interval(kpi)
        for kpi in version["kpis"]
        if kpi["mean"] is not None
    )


def _describe_interval(kpi: JSON) -> str:
    low, high = kpi["intervalLow"], kpi["intervalHigh"]
    if low is None or high is None:
        return ""
    return f" (95 % CI {format_number(low)} to {format_number(high)})"


VERSION_COLUMNS = (
    field("prompt"),
    field("model"),
    time_field("firstAt", "first run"),
    time_field("lastAt", "last run"),
    field("runs"),
    Column("KPIs", _describe_kpis),
)
OPTIONS = {
    "source": FieldOption(
        help="Where the traces are, in another tool than Langfuse: kind, url, project, publicKey. Put a secretKey"
        " into --file."
    ),
    "langfuseProjectName": FieldOption(
        "--langfuse-project", help="Langfuse project that holds the traces of the agent."
    ),
    "otelServiceName": FieldOption(
        help="service.name of the agent's OpenTelemetry spans (default: the spans of every service)."
    ),
    "langfuseUrl": FieldOption(
        help="URL of the Langfuse server (default: the Langfuse server in the service settings)."
    ),
    "langfusePublicKey": FieldOption(help="Public key of the Langfuse project."),
    "runUrl": FieldOption(
        help="URL that runs the agent over a dataset when it receives a signed request."
    ),
    "owners": FieldOption(help="Address of a person whose agent it is."),
    "langfuseSecretKey": FieldOption(
        help="File with the secret key of the Langfuse project; - is stdin."
    ),
}


def describe_created(agent: JSON) -> list[str]:
    """Status lines after an agent was created."""
    agent_id = format_cell(agent["id"])
    return [f"agent {agent_id} is created", f"next: `mosaico runs start BENCHMARK {agent_id}`"]


agents.add_list(
    COLUMNS,
    filters={"archived": flag_filter("--archived", "List archived agents instead of active ones.")},
    help_text="List agents, newest first.",
)
agents.add_show(help_text="Show an agent. Its secret key is never shown.")
agents.add_create(
    "mosaico.agents.schemas:AgentCreate",
    options=OPTIONS,
    help_text="Create an agent and print its ID.",
    describe=describe_created,
)
agents.add_update("mosaico.agents.schemas:AgentPatch", options=OPTIONS)
agents.add_delete(
    help_text="Delete an agent that no run or benchmark refers to.",
    dependents="its schedules and alert rules",
)


@cli.command("check")
def check_agent(
    agent_id: Annotated[str, id_argument("agent", PATH)], output: Format = OutputFormat.TABLE
) -> None:
    """Check the credentials of an agent with the server that has its traces.

    Exit codes: 0 the server accepts them, 3 it does not; the reason is printed to standard error.
    """
    with open_api() as api:
        address = f"{PATH}{path_of(api.find_id(PATH, agent_id))}"
        check = api.post(f"{address}/check")
        page = f"{api.pages_url}{address}"
    if output is OutputFormat.JSON:
        print_json(check)
    elif check["ok"]:
        shown = {"source": "source", "langfuseUrl": "url", "project": "project", "api": "api"}
        print_details({label: check[name] for name, label in shown.items()})
    print_link(page, output)
    if not check["ok"]:
        print_status(f"error: {check['errorCode']}: {check['detail']}")
        raise typer.Exit(EXIT_UNSUCCESSFUL)


@cli.command("versions")
def list_versions(
    agent: Annotated[str, id_argument("agent", agents.path)],
    benchmark: Annotated[
        str,
        typer.Option(
            "--benchmark", metavar="ID", help="ID or name of the benchmark whose runs are read."
        ),
    ],
    days: Annotated[
        int, typer.Option("--days", min=1, help="Length of the period that is read.")
    ] = 60,
    output: Format = OutputFormat.TABLE,
) -> None:
    """List the versions of an agent that its traces record, newest first, with the mean of each KPI."""
    with open_api() as api:
        address = f"{PATH}{path_of(api.find_id(PATH, agent))}"
        versions = api.get(
            f"{address}/versions",
            benchmarkId=api.find_id("/benchmarks", benchmark),
            days=str(days),
        )
        page = f"{api.pages_url}{address}"
    if output is OutputFormat.JSON:
        print_json(versions)
        return
    print_table(tabulate(versions["versions"], VERSION_COLUMNS))
    if versions["unknownRuns"]:
        print_status(
            f"{count_noun(versions['unknownRuns'], 'run')} recorded neither a model nor a prompt;"
            " record both as metadata or tags of the traces (model:…, promptVersion:…)"
        )
    print_link(page, output)
