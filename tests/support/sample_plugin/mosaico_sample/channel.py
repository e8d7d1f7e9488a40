"""A channel that stores messages in memory; one recipient raises an error."""

from mosaico.plugins import (
    AddPlugin,
    ChannelSpec,
    DeliveryOutcome,
    DeliverySucceeded,
    InvalidRecipient,
    OutgoingMessage,
    PublishedMessage,
    Resources,
)

ARRIVED: list[OutgoingMessage] = []


def check(recipient: str) -> None:
    if not recipient.startswith("loft-"):
        raise InvalidRecipient("is no loft; write it as loft-7")


def render(notice: PublishedMessage) -> bytes:
    return notice.message.title.encode()


def send(_: Resources, outgoing: OutgoingMessage) -> DeliveryOutcome:
    if outgoing.recipient == "loft-lost":
        raise RuntimeError("no pigeon came back")
    ARRIVED.append(outgoing)
    return DeliverySucceeded()


def register(add: AddPlugin[ChannelSpec]) -> None:
    add("SAMPLE_PIGEON", ChannelSpec(check=check, render=render, send=send, host=lambda _: "sky"))
