"""`mosaico notify`: who is told, and whether it arrives. `mosaico inbox`: what there is to know."""

import time
from collections.abc import Callable
from enum import StrEnum
from typing import Annotated, Any

import typer

from app.core.console.shell_completion import ids_at
from app.core.console.table import (
    JSON,
    Column,
    field,
    format_cell,
    format_time,
    print_page,
    time_field,
)
from app.core.console.terminal import (
    ENDED_BADLY,
    CommandGroup,
    Format,
    OutputFormat,
    WrongUsage,
    print_json,
    print_result,
    print_status,
)

INBOX = "/notifications"
DELIVERIES = "/deliveries"
ENDPOINTS = "/endpoints"
PATIENCE_S = 20.0
LOOK_S = 0.2

cli = CommandGroup("notify", help="Who is told what happens, and whether it arrives.")
inbox = CommandGroup("inbox", help="What there is to know.")


class Action(StrEnum):
    """What to do with the inbox."""

    LIST = "list"
    SHOW = "show"
    READ = "read"


EndpointId = Annotated[
    str,
    typer.Argument(metavar="ENDPOINT", help="Id of an endpoint.", autocompletion=ids_at(ENDPOINTS)),
]
Limit = Annotated[int, typer.Option("--limit", min=1, help="The newest so many.")]
COLUMNS = (
    field("id"),
    field("severity"),
    field("title"),
    time_field("createdAt", "came"),
    Column("read", lambda item: item["readAt"] is not None),
)
DELIVERY_COLUMNS = (
    field("id"),
    field("channel"),
    field("recipient"),
    field("status"),
    field("attempts"),
    field("dueAt", "next try"),
    field("detail"),
)
ENDPOINT_COLUMNS = (
    field("id"),
    field("channel"),
    field("recipient"),
    field("dailySummary", "summary"),
    time_field("deliveredAt", "delivered"),
    time_field("firstFailedAt", "failing since"),
    field("disabledReason", "disabled"),
)


@inbox.command("inbox")
def show_inbox(
    *,
    action: Annotated[
        Action, typer.Argument(help="`read` marks as read, without MESSAGE all of it.")
    ] = Action.LIST,
    message: Annotated[
        str | None, typer.Argument(metavar="MESSAGE", help="Id of a message.")
    ] = None,
    unread: Annotated[bool, typer.Option("--unread", help="Only what nobody has read.")] = False,
    limit: Limit = 20,
    output: Format = OutputFormat.TABLE,
) -> None:
    """List the inbox, newest first; show a message; mark as read."""
    if action is Action.LIST:
        _list_inbox(output, limit=limit, unread=unread)
    elif action is Action.SHOW:
        _show_message(_required(message), output)
    elif message is None:
        _read_all()
    else:
        _read(message, output)


@cli.command("test")
def send_test(
    channel: Annotated[str, typer.Option("--channel", help="EMAIL, SLACK, TEAMS, WEBHOOK, …")],
    recipient: Annotated[str, typer.Option("--recipient", help="An address of that channel.")],
    output: Format = OutputFormat.TABLE,
) -> None:
    """Send a message and say whether it arrived.

    Exit codes: 0 it did, 3 it did not within 20 s.
    """
    from app.core.console.api_client import open_api

    with open_api() as api:
        sent = api.post(f"{INBOX}/test", {"channel": channel.upper(), "recipient": recipient})
        tried = _once_tried(lambda: api.get(f"{DELIVERIES}/{sent['id']}"))
    if output is OutputFormat.JSON:
        print_json(tried)
    else:
        print_result(format_cell(tried["status"]))
    print_status(
        f"delivery {format_cell(tried['id'])} to {format_cell(tried['recipient'])}: {_how(tried)}"
    )
    if tried["status"] != "DELIVERED":
        raise typer.Exit(ENDED_BADLY)


@cli.command("deliveries")
def list_deliveries(
    status: Annotated[
        str | None, typer.Option("--status", help="PENDING, DELIVERED, FAILED or HELD.")
    ] = None,
    limit: Limit = 20,
    output: Format = OutputFormat.TABLE,
) -> None:
    """List messages on their way to somebody, newest first."""
    from app.core.console.api_client import open_api

    with open_api() as api:
        page = api.page(DELIVERIES, limit=limit, status=status)
    print_page(page, DELIVERY_COLUMNS, output)


@cli.command("redeliver")
def redeliver(
    delivery: Annotated[str, typer.Argument(metavar="DELIVERY", help="Id of a delivery.")],
    output: Format = OutputFormat.TABLE,
) -> None:
    """Send a message again, now; it keeps its id."""
    from app.core.console.api_client import open_api, segment

    with open_api() as api:
        again = api.post(f"{DELIVERIES}/{segment(delivery)}/redeliver")
    if output is OutputFormat.JSON:
        print_json(again)
    print_status(f"delivery {format_cell(delivery)} is sent again")


@cli.command("endpoints")
def list_endpoints(
    *,
    disabled: Annotated[
        bool, typer.Option("--disabled", help="Only those that nothing is sent to.")
    ] = False,
    limit: Limit = 50,
    output: Format = OutputFormat.TABLE,
) -> None:
    """List where messages go, and how that answers."""
    from app.core.console.api_client import open_api

    with open_api() as api:
        page = api.page(ENDPOINTS, limit=limit, disabled=disabled or None)
    print_page(page, ENDPOINT_COLUMNS, output)


@cli.command("enable")
def enable_endpoint(endpoint: EndpointId, output: Format = OutputFormat.TABLE) -> None:
    """Send to an endpoint again, first what was held."""
    from app.core.console.api_client import open_api, segment

    with open_api() as api:
        enabled = api.post(f"{ENDPOINTS}/{segment(endpoint)}/enable")
    if output is OutputFormat.JSON:
        print_json(enabled)
    print_status(f"endpoint {format_cell(endpoint)} is enabled")


@cli.command("secret")
def rotate_secret(endpoint: EndpointId, output: Format = OutputFormat.TABLE) -> None:
    """Make and print, this once, what messages to a webhook are signed with.

    The earlier secret still signs beside it for a day.
    """
    from app.core.console.api_client import open_api, segment

    with open_api() as api:
        made = api.post(f"{ENDPOINTS}/{segment(endpoint)}/secret", {})
    if output is OutputFormat.JSON:
        print_json(made)
    else:
        print_result(format_cell(made["secret"]))


def _list_inbox(output: OutputFormat, *, limit: int, unread: bool) -> None:
    from app.core.console.api_client import open_api

    with open_api() as api:
        page = api.page(INBOX, limit=limit, unread=unread or None)
    print_page(page, COLUMNS, output)


def _show_message(message: str, output: OutputFormat) -> None:
    from app.core.console.api_client import open_api, segment

    with open_api() as api:
        found = api.get(f"{INBOX}/{segment(message)}")
    if output is OutputFormat.JSON:
        print_json(found)
        return
    print_result(
        f"{found['severity']} {format_cell(found['title'])} ({format_time(found['createdAt'])})"
    )
    for part in (found, *found["items"]):
        _answer_part(part, "" if part is found else "  ")


def _answer_part(part: JSON, indent: str) -> None:
    if indent:
        print_result(format_cell(part["title"]))
    for sentence in part["sentences"]:
        print_result(f"{indent}{format_cell(sentence)}")
    for fact in part["facts"]:
        print_result(f"{indent}{format_cell(fact['name'])}: {format_cell(fact['value'])}")
    if part["link"]:
        print_result(f"{indent}{format_cell(part['link'])}")


def _read(message: str, output: OutputFormat) -> None:
    from app.core.console.api_client import open_api, segment

    with open_api() as api:
        read = api.post(f"{INBOX}/{segment(message)}/read")
    if output is OutputFormat.JSON:
        print_json(read)
    print_status(f"message {format_cell(message)} is read")


def _read_all() -> None:
    from app.core.console.api_client import open_api

    with open_api() as api:
        api.post(f"{INBOX}/read-all")
    print_status("all messages are read")


def _required(message: str | None) -> str:
    if message is None:
        raise WrongUsage("no message is named", hint="`mosaico inbox` lists their ids")
    return message


def _once_tried(look: Callable[[], JSON], *, sleep: Callable[[float], Any] = time.sleep) -> JSON:
    """The delivery after its first try, or as it is after 20 s."""
    ends_at = time.monotonic() + PATIENCE_S
    found = look()
    while not found["attempts"] and found["status"] == "PENDING" and time.monotonic() < ends_at:
        sleep(LOOK_S)
        found = look()
    return found


def _how(tried: JSON) -> str:
    if tried["status"] == "DELIVERED":
        return "it arrived"
    if not tried["attempts"] and tried["status"] == "PENDING":
        return "no worker has tried it yet; is one running?"
    later = f"; next try at {tried['dueAt']}" if tried["dueAt"] else ""
    return f"{format_cell(tried['detail']) or 'nothing is sent there until it is enabled'}{later}"
