from datetime import datetime
from typing import Annotated, Any

from pydantic import Field
from pydantic import StringConstraints as Text

from app.core.schemas import WireModel
from app.notifications.rules import DeliveryStatus
from app.notifications.types import Severity

DAY_S = 24 * 3600
MAX_OVERLAP_S = 30 * DAY_S


class FactView(WireModel):
    name: str
    value: str


class ItemView(WireModel):
    title: str
    sentences: list[str]
    facts: list[FactView]
    link: str | None


class NotificationView(WireModel):
    """A message of the inbox. Its texts are those of users: show them as text, never as markup."""

    id: str
    topic: str
    severity: Severity
    title: str
    sentences: list[str]
    facts: list[FactView]
    items: list[ItemView]
    link: str | None
    created_at: datetime
    read_at: datetime | None


class InboxView(WireModel):
    """How many messages nobody has read, and the newest message."""

    unread: int
    newest: NotificationView | None


class TargetBody(WireModel):
    """Whom to tell."""

    channel: Annotated[str, Text(max_length=64)] = Field(examples=["EMAIL"])
    recipient: Annotated[str, Text(min_length=1, max_length=2048)] = Field(
        examples=["ops@example.org"]
    )


class EndpointBody(TargetBody):
    daily_summary: bool | None = Field(
        default=None, description="Whether the daily summary goes there. None: as it was."
    )


class EndpointView(WireModel):
    """Where messages of a channel go.

    `recipient` is cut where all of it would let its reader write there. `failingSince` is the first
    failure after the last success.
    """

    id: str
    channel: str
    recipient: str
    daily_summary: bool
    secret_set: bool
    failing_since: datetime | None
    delivered_at: datetime | None
    disabled_at: datetime | None
    disabled_reason: str | None
    created_at: datetime


class EndpointSecretRotation(WireModel):
    """How long the earlier secret still signs beside the new one."""

    earlier_ends_after_seconds: Annotated[int, Field(ge=0, le=MAX_OVERLAP_S)] = DAY_S


class EndpointSecretView(WireModel):
    """A new secret, which is shown this once."""

    secret: str


class DeliveryView(WireModel):
    """One notification on its way to one endpoint.

    `attempts` are the tries of the retry schedule so far, `detail` why the last one failed.
    """

    id: str
    notification_id: str
    endpoint_id: str
    channel: str
    recipient: str
    status: DeliveryStatus
    attempts: int
    detail: str | None
    due_at: datetime | None
    tried_at: datetime | None
    delivered_at: datetime | None
    created_at: datetime


def fact_views(document: dict[str, Any]) -> dict[str, Any]:
    """A stored message, or one of its items, with its facts as they are shown."""
    shown = {
        **document,
        "facts": [FactView(name=fact[0], value=fact[1]) for fact in document["facts"]],
    }
    if "items" in document:
        shown["items"] = [ItemView(**fact_views(item)) for item in document["items"]]
    return shown
