"""Wire format of notifications, endpoints and deliveries."""

from datetime import datetime
from typing import Annotated, ClassVar, Literal

from pydantic import Field
from pydantic import StringConstraints as Text

from mosaico.core.defaults import MAX_SECRET_OVERLAP_S
from mosaico.core.edits import SERVICE_MOVES, EditBody, patch_of
from mosaico.core.schemas import WireModel
from mosaico.notifications.rules import DeliveryStatus
from mosaico.notifications.types import MessageSeverity

DAY_S = 24 * 3600


class MessageFactView(WireModel):
    """A name and a value of a message."""

    name: str
    value: str


class MessageLinkView(WireModel):
    """A line that links to a path of this service or to a URL."""

    text: str
    url: str


class MessageItemView(WireModel):
    """One subject of a message; `advice` lists possible actions of the reader."""

    title: str
    sentences: tuple[str, ...]
    facts: tuple[MessageFactView, ...]
    link: str | None
    links: tuple[MessageLinkView, ...]
    advice: tuple[str, ...]


class NotificationView(WireModel):
    """A message. It contains texts that users wrote: show them as plain text, never as markup."""

    id: str
    topic: str
    severity: MessageSeverity
    title: str
    sentences: tuple[str, ...]
    facts: tuple[MessageFactView, ...]
    items: tuple[MessageItemView, ...]
    link: str | None
    created_at: datetime
    read_at: datetime | None


class InboxView(WireModel):
    """The number of unread messages, counted up to 10,000, and the newest message."""

    unread: int
    newest: NotificationView | None


class TargetBody(WireModel):
    """A channel and a recipient."""

    channel: Annotated[str, Text(max_length=64)] = Field(examples=["EMAIL"])
    recipient: Annotated[str, Text(min_length=1, max_length=2048)] = Field(
        examples=["ops@example.org"]
    )


class EndpointBody(TargetBody):
    """A channel, a recipient, and whether it receives the daily summary."""

    daily_summary: bool | None = Field(
        default=None,
        description="Whether the endpoint receives the daily summary. null keeps the current value.",
    )


class EndpointView(WireModel):
    """A destination of messages.

    `recipient` is redacted if the full text is a credential. `firstFailedAt` is the first failure
    since the last success.
    """

    id: str
    channel: str
    recipient: str
    daily_summary: bool
    secret_set: bool
    first_failed_at: Annotated[datetime | None, SERVICE_MOVES]
    delivered_at: Annotated[datetime | None, SERVICE_MOVES]
    disabled_at: Annotated[datetime | None, SERVICE_MOVES]
    disabled_reason: Annotated[str | None, SERVICE_MOVES]
    created_at: datetime


@patch_of
class EndpointPatch(EditBody):
    """The fields to change. Another recipient is another endpoint."""

    shown_as: ClassVar = EndpointView

    daily_summary: bool


class EndpointSecretRotation(WireModel):
    """The time for which the previous secret also signs."""

    overlap_seconds: Annotated[int, Field(ge=0, le=MAX_SECRET_OVERLAP_S)] = DAY_S


class DeliveryRequestView(WireModel):
    """The request of a delivery, and the redacted response to its last attempt.

    `recipient` and the signature are redacted. `body` is null when the channel is not installed;
    `response` is null before the first attempt, and of a mail server that accepted the message.
    """

    method: Literal["POST", "SMTP"]
    recipient: str
    headers: dict[str, str]
    body: str | None
    status: DeliveryStatus
    response: str | None
    tried_at: datetime | None


class EndpointSecretView(WireModel):
    """A new signing secret; it is shown only once."""

    secret: str


class DeliveryView(WireModel):
    """The delivery of one notification to one endpoint.

    `attempts` counts the attempts of the retry schedule, `detail` is the redacted answer to the last one, or
    why it failed.
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
