"""`mosaico keys`: API keys, given out and revoked. `mosaico audit`: what was done with them."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated

import typer

from app.core.console.shell_completion import ids_at
from app.core.console.table import Column, field, format_cell, print_page, time_field
from app.core.console.terminal import (
    CommandGroup,
    DryRun,
    Format,
    OutputFormat,
    Yes,
    confirm,
    print_json,
    print_result,
    print_status,
)

PATH = "/keys"
AUDIT_PATH = "/audit"

cli = CommandGroup("keys", help="API keys: give out, list, revoke.")


audit = CommandGroup("audit", help="Who changed what.")


class Role(StrEnum):
    """What a key may do; each role may do what the ones before it may."""

    READ = "read"
    RUN = "run"
    ADMIN = "admin"


COLUMNS = (
    field("id"),
    field("name"),
    field("role"),
    Column("state", lambda key: "revoked" if key["revokedAt"] else "active"),
    time_field("createdAt", "created"),
    time_field("lastUsedAt", "last used"),
    Column("expires", lambda key: key["expiresAt"]),
)


@cli.command("list")
def list_keys(
    limit: Annotated[int, typer.Option("--limit", min=1, help="The newest so many.")] = 50,
    output: Format = OutputFormat.TABLE,
) -> None:
    """List the keys, newest first, revoked ones too; their texts are not kept anywhere."""
    from app.core.console.api_client import open_api

    with open_api() as api:
        page = api.page(PATH, limit=limit)
    print_page(page, COLUMNS, output)


@cli.command("create")
def create_key(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What or whom the key is for.")],
    role: Annotated[Role, typer.Option("--role", help="What it may do.")] = Role.READ,
    expires_at: Annotated[
        datetime | None,
        typer.Option(
            "--expires-at",
            formats=["%Y-%m-%dT%H:%M:%S%z", "%Y-%m-%dT%H:%M%z"],
            help="When it ends, with its zone: 2027-01-31T12:00:00Z. Never if left out.",
        ),
    ] = None,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Give out a key and print it, this once."""
    from app.core.console.api_client import open_api

    body = {"name": name, "role": role, "expiresAt": expires_at and expires_at.isoformat()}
    with open_api() as api:
        created = api.post(PATH, body)
    if output is OutputFormat.JSON:
        print_json(created)
    else:
        print_result(format_cell(created["token"]))
    print_status(f"key {created['id']} with the role {role}; it is shown this once, keep it now")


@cli.command("revoke")
def revoke_key(
    *,
    key: Annotated[
        str, typer.Argument(metavar="KEY", help="Id of a key.", autocompletion=ids_at(PATH))
    ],
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """End a key for good, within a second."""
    from app.core.console.api_client import open_api, segment

    path = f"{PATH}/{segment(key)}"
    with open_api() as api:
        found = api.get(path)
        what = f"the key {format_cell(key)} ({format_cell(found['name'])}, {found['role']})"
        if dry_run:
            print_status(f"would revoke {what}; nothing was done")
            return
        confirm(f"revoke {what} for good?", yes=yes)
        api.delete(path)
    print_status(f"revoked {what}")


AUDIT_COLUMNS = (
    time_field("at", "when"),
    Column("who", lambda entry: f"{entry['actorType']} {entry['actorId']}"),
    field("action"),
    Column("what", lambda entry: f"{entry['resourceType']}/{entry['resourceId'] or ''}"),
    Column("fields", lambda entry: " ".join(entry["fields"])),
    field("outcome"),
    Column("request", lambda entry: entry["requestId"]),
)


@audit.command("audit")
def show_audit(
    actor: Annotated[
        str | None, typer.Option("--actor", help="Only what this one did: the id of a key.")
    ] = None,
    action: Annotated[
        str | None, typer.Option("--action", help="Only this, such as create_agent.")
    ] = None,
    resource: Annotated[
        str | None, typer.Option("--resource", help="Only on these, such as agents.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="The newest so many.")] = 50,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Show who changed what, newest first; needs an admin key."""
    from app.core.console.api_client import open_api

    with open_api() as api:
        page = api.page(
            AUDIT_PATH, limit=limit, actorId=actor, action=action, resourceType=resource
        )
    print_page(page, AUDIT_COLUMNS, output)
