"""`mosaico agents`: the agents that are benchmarked."""

from pathlib import Path
from typing import Annotated, Any

import typer

from app.core.console.shell_completion import ids_at
from app.core.console.table import (
    Column,
    field,
    format_cell,
    format_time,
    print_details,
    print_page,
    time_field,
)
from app.core.console.terminal import (
    CommandGroup,
    DryRun,
    Format,
    OutputFormat,
    Yes,
    print_json,
    print_result,
    print_status,
)

PATH = "/agents"

cli = CommandGroup("agents", help="The agents that are benchmarked.")


AgentId = Annotated[
    str,
    typer.Argument(metavar="AGENT", help="Id of an agent.", autocompletion=ids_at(PATH)),
]

COLUMNS = (
    field("id"),
    field("name"),
    field("langfuseProjectName", "project"),
    Column("secret", lambda agent: "set" if agent["secretSet"] else "none"),
    time_field("createdAt", "created"),
)


@cli.command("list")
def list_agents(
    *,
    limit: Annotated[int, typer.Option("--limit", min=1, help="The newest so many.")] = 50,
    archived: Annotated[bool, typer.Option("--archived", help="Those that were put away.")] = False,
    output: Format = OutputFormat.TABLE,
) -> None:
    """List the agents, newest first."""
    from app.core.console.api_client import open_api

    with open_api() as api:
        page = api.page(PATH, limit=limit, archived=archived)
    print_page(page, COLUMNS, output)


@cli.command("show")
def show_agent(agent: AgentId, output: Format = OutputFormat.TABLE) -> None:
    """Show one agent; its secret key is never shown."""
    from app.core.console.api_client import open_api, segment

    with open_api() as api:
        found = api.get(f"{PATH}/{segment(agent)}")
    if output is OutputFormat.JSON:
        print_json(found)
        return
    times = {name: format_time(found[name]) for name in ("createdAt", "updatedAt")}
    print_details(found | times)


@cli.command("create")
def create_agent(
    name: Annotated[str | None, typer.Option("--name", help="How people call it.")] = None,
    agent_id: Annotated[str | None, typer.Option("--id", help="Made when left out.")] = None,
    description: Annotated[str | None, typer.Option("--description", help="What it does.")] = None,
    project: Annotated[
        str | None, typer.Option("--langfuse-project", help="Project that holds its traces.")
    ] = None,
    url: Annotated[
        str | None, typer.Option("--langfuse-url", help="Server of that project.")
    ] = None,
    public_key: Annotated[
        str | None, typer.Option("--langfuse-public-key", help="Public key of that project.")
    ] = None,
    secret_file: Annotated[
        Path | None,
        typer.Option(
            "--langfuse-secret-key-file",
            help="File with the secret key; - is stdin. It is never an argument.",
        ),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option("--file", help="The agent as JSON, as the API takes it; - is stdin."),
    ] = None,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Register an agent and print its id; options win over the same fields of --file."""
    from app.core.console.api_client import open_api
    from app.core.console.input_files import read_object, read_secret

    given: dict[str, Any] = {
        "id": agent_id,
        "name": name,
        "description": description,
        "langfuseProjectName": project,
        "langfuseUrl": url,
        "langfusePublicKey": public_key,
        "langfuseSecretKey": read_secret(secret_file) if secret_file else None,
    }
    body = read_object(file) if file else {}
    body |= {key: value for key, value in given.items() if value is not None}
    with open_api() as api:
        created = api.post(PATH, body)
    if output is OutputFormat.JSON:
        print_json(created)
    else:
        print_result(format_cell(created["id"]))
    print_status(f"agent {format_cell(created['id'])} is registered")
    print_status(f"next: `mosaico runs start BENCHMARK {format_cell(created['id'])}`")


@cli.command("delete")
def delete_agent(*, agent: AgentId, yes: Yes = False, dry_run: DryRun = False) -> None:
    """Delete an agent that no run or benchmark refers to."""
    from app.core.console.api_client import delete_thing, segment

    delete_thing(
        f"{PATH}/{segment(agent)}", f"the agent {format_cell(agent)}", yes=yes, dry_run=dry_run
    )
