"""`mosaico notify`: endpoints and deliveries. `mosaico inbox list`: notifications of the service."""

import time
from collections.abc import Callable
from typing import Annotated

import typer

from mosaico.core.console.filter_options import choice_filter, flag_filter
from mosaico.core.console.generated_command import FieldOption
from mosaico.core.console.resource import Resource
from mosaico.core.console.service import complete_ids, open_api
from mosaico.core.console.table import (
    JSON,
    Column,
    field,
    format_cell,
    format_time,
    print_change,
    print_link,
    time_field,
)
from mosaico.core.console.terminal import (
    EXIT_UNSUCCESSFUL,
    CommandGroup,
    Format,
    OutputFormat,
    print_result,
    print_status,
)
from mosaico.core.web.page_paths import path_of
from mosaico.notifications.rules import DeliveryStatus

INBOX = "/notifications"
DELIVERIES = "/deliveries"
ENDPOINTS = "/endpoints"
TEST_TIMEOUT_S = 20.0
POLL_INTERVAL_S = 0.2
CHANNEL_HELP = "Channel, such as EMAIL, SLACK, TEAMS or WEBHOOK."

cli = CommandGroup("notify", help="Manage notification endpoints and deliveries.")
endpoints_cli = CommandGroup("endpoints", help="Manage notification endpoints.")
deliveries_cli = CommandGroup("deliveries", help="List and resend deliveries.")
inbox = CommandGroup("inbox", help="Read the notifications of the service.")
cli.add_group(endpoints_cli)
cli.add_group(deliveries_cli)

endpoints = Resource(group=endpoints_cli, noun="endpoint", path=ENDPOINTS, page="/endpoints")
deliveries = Resource(
    group=deliveries_cli, noun="delivery", path=DELIVERIES, page="/deliveries",
    list_page="/deliveries",
)  # fmt: skip
notifications = Resource(group=inbox, noun="notification", path=INBOX, list_page="/inbox?tab=all")
# The messages of the list are those of the inbox, which knows the agents of their alerts.
inbox_entries = Resource(
    group=inbox, noun="notification", path="/inbox", list_page="/inbox?tab=all",
    flag_tabs=(("state", "tab", "open"),),
)  # fmt: skip

NOTIFICATION_COLUMNS = (
    field("id"),
    field("severity"),
    field("title"),
    time_field("createdAt", "created"),
    Column("read", lambda notification: notification["readAt"] is not None),
)
DELIVERY_COLUMNS = (
    field("id"),
    field("channel"),
    field("recipient"),
    field("status"),
    field("attempts"),
    field("dueAt", "next attempt"),
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
ENDPOINT_OPTIONS = {
    "channel": FieldOption(help=CHANNEL_HELP, parse=str.upper),
    "recipient": FieldOption(help="Address on that channel."),
    "dailySummary": FieldOption(help="Whether the daily summary is sent to the endpoint."),
}


@cli.command("test")
def send_test(
    channel: Annotated[str, typer.Option("--channel", help=CHANNEL_HELP)],
    recipient: Annotated[str, typer.Option("--recipient", help="Address on that channel.")],
    output: Format = OutputFormat.TABLE,
) -> None:
    """Send a test message and report whether it was delivered.

    Exit codes: 0 delivered, 3 not delivered within 20 s.
    """
    with open_api() as api:
        queued = api.post(f"{INBOX}/test", {"channel": channel.upper(), "recipient": recipient})
        delivery = _await_first_attempt(lambda: api.get(f"{DELIVERIES}/{queued['id']}"))
        address = f"{api.pages_url}{path_of('deliveries', delivery['id'])}"
    recipient_text, outcome = format_cell(delivery["recipient"]), _describe_outcome(delivery)
    line = f"delivery {format_cell(delivery['id'])} to {recipient_text}: {outcome}"
    print_change(delivery, output, [line], delivery["status"])
    print_link(address, output)
    if delivery["status"] != "DELIVERED":
        raise typer.Exit(EXIT_UNSUCCESSFUL)


def describe_endpoint(endpoint: JSON) -> list[str]:
    """Status line after an endpoint was created."""
    recipient = format_cell(endpoint["recipient"])
    return [f"endpoint {format_cell(endpoint['id'])} to {recipient} is created"]


def report_redelivery(delivery: JSON) -> None:
    """Status line after a delivery was requested again."""
    print_status(f"delivery {format_cell(delivery['id'])} is sent again")


def report_enabled(endpoint: JSON) -> None:
    """Status line after an endpoint was enabled."""
    print_status(f"endpoint {format_cell(endpoint['id'])} is enabled")


def report_secret(rotation: JSON) -> None:
    """Print a new signing secret."""
    print_result(format_cell(rotation["secret"]))


def print_notification(notification: JSON) -> None:
    """Print a notification with its items indented below."""
    created = format_time(notification["createdAt"])
    print_result(f"{notification['severity']} {format_cell(notification['title'])} ({created})")
    _print_body(notification, indent="")
    for item in notification["items"]:
        print_result(format_cell(item["title"]))
        _print_body(item, indent="  ")


deliveries.add_list(
    DELIVERY_COLUMNS,
    filters={"status": choice_filter("--status", DeliveryStatus, "Filter by status.")},
    help_text="List deliveries, newest first.",
    limit=20,
)
deliveries.add_show(help_text="Show a delivery.")
deliveries.add_action(
    "redeliver", help_text="Send a message again now, under the same ID.", report=report_redelivery
)
endpoints.add_list(
    ENDPOINT_COLUMNS,
    filters={"disabled": flag_filter("--disabled", "List only disabled endpoints.")},
    help_text="List endpoints and their delivery state, newest first.",
)
endpoints.add_show(help_text="Show an endpoint.")
endpoints.add_create(
    "mosaico.notifications.schemas:EndpointBody",
    options=ENDPOINT_OPTIONS,
    help_text="Create an endpoint, or update the existing one of the recipient, and print its ID.",
    describe=describe_endpoint,
)
endpoints.add_update("mosaico.notifications.schemas:EndpointPatch", options=ENDPOINT_OPTIONS)
endpoints.add_delete(
    help_text="Delete an endpoint that no alert rule notifies. Messages that wait for it are not sent.",
    describe=lambda endpoint: f"{endpoint['channel']} {endpoint['recipient']}",
)
endpoints.add_action(
    "enable",
    help_text="Enable an endpoint again and send the messages that were held for it.",
    report=report_enabled,
)
endpoints.add_action(
    "rotate-secret",
    endpoint="secret",
    body={},
    help_text="Create the secret that signs messages to a webhook, and print it. It is shown only once."
    "\n\nThe previous secret stays valid for a day.",
    report=report_secret,
)
_UNREAD = typer.Option(
    "--unread",
    help="List only unread notifications.",
    callback=lambda is_unread: "open" if is_unread else None,
)
inbox_entries.add_list(
    NOTIFICATION_COLUMNS,
    filters={
        "state": Annotated[bool | None, _UNREAD],
        "mine": flag_filter(
            "--mine", "List only notifications about your agents. The key must belong to a person."
        ),
    },
    help_text="List notifications, newest first.",
    limit=20,
)
notifications.add_show(help_text="Show a notification.", print_one=print_notification)


@inbox.command("read")
def mark_read(
    notification: Annotated[
        str | None,
        typer.Argument(
            metavar="NOTIFICATION",
            help="ID of the notification (default: all).",
            autocompletion=complete_ids(INBOX),
        ),
    ] = None,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Mark a notification, or all of them, as read."""
    path = "/read-all" if notification is None else f"{path_of(notification)}/read"
    with open_api() as api:
        response = api.post(f"{INBOX}{path}")
        address = f"{api.pages_url}{notifications.list_page}"
    line = "all notifications are read"
    if notification is not None:
        line = f"notification {format_cell(notification)} is read"
    print_change(response, output, [line])
    print_link(address, output)


def _print_body(section: JSON, *, indent: str) -> None:
    for sentence in section["sentences"]:
        print_result(f"{indent}{format_cell(sentence)}")
    for fact in section["facts"]:
        print_result(f"{indent}{format_cell(fact['name'])}: {format_cell(fact['value'])}")
    if section["link"]:
        print_result(f"{indent}{format_cell(section['link'])}")


def _await_first_attempt(read_delivery: Callable[[], JSON]) -> JSON:
    """The delivery after its first attempt, or its current state after 20 s."""
    deadline = time.monotonic() + TEST_TIMEOUT_S
    delivery = read_delivery()
    while _is_untried(delivery) and time.monotonic() < deadline:
        time.sleep(POLL_INTERVAL_S)
        delivery = read_delivery()
    return delivery


def _is_untried(delivery: JSON) -> bool:
    return not delivery["attempts"] and delivery["status"] == "PENDING"


def _describe_outcome(delivery: JSON) -> str:
    if delivery["status"] == "DELIVERED":
        return "delivered"
    if _is_untried(delivery):
        return "no worker has attempted it yet; check that `mosaico worker` or `mosaico serve` runs"
    retry = f"; next attempt at {delivery['dueAt']}" if delivery["dueAt"] else ""
    return f"{format_cell(delivery['detail']) or 'held until the endpoint is enabled'}{retry}"
