"""What a channel is made of; the entry point group `mosaico.channels` registers it."""

from app.core.http.client import outbound_client
from app.core.registry import AddPlugin
from app.core.resources import Resources
from app.notifications.message_layout import build_layout
from app.notifications.registry import CHANNELS, ChannelSpec, InvalidRecipient, OutgoingMessage
from app.notifications.types import (
    DeliveryFailed,
    DeliveryOutcome,
    DeliverySucceeded,
    MessageRejected,
    NotificationMessage,
    PublishedMessage,
    RecipientGone,
)
from app.notifications.webhook_client import parse_recipient_url, post

__all__ = (
    "CHANNELS",
    "AddPlugin",
    "ChannelSpec",
    "DeliveryFailed",
    "DeliveryOutcome",
    "DeliverySucceeded",
    "InvalidRecipient",
    "MessageRejected",
    "NotificationMessage",
    "OutgoingMessage",
    "PublishedMessage",
    "RecipientGone",
    "Resources",
    "build_layout",
    "outbound_client",
    "parse_recipient_url",
    "post",
)
