"""The registry of channels, the check of recipients against them, and the servers of the operator that accept the webhooks of Slack or Teams."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final
from urllib.parse import urlsplit

from mosaico.core.encryption import Secret
from mosaico.core.errors import ErrorItem, Invalid, NotFound
from mosaico.core.registry import LoadedPlugin, Registry
from mosaico.core.resources import Resources
from mosaico.core.text import join_words
from mosaico.notifications.types import DeliveryOutcome, DeliveryTarget, PublishedMessage


class InvalidRecipient(Invalid):
    """The channel does not accept the recipient; `errors` describes the expected form."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutgoingMessage:
    """The message of one attempt: the body from `render`, and the secrets that sign it.

    `message_id` is the same for every attempt, so that a recipient can recognize a repetition.
    """

    message_id: str
    recipient: str
    body: bytes
    sent_at: datetime
    signing_secrets: tuple[Secret, ...] = ()


def _unredacted(recipient: str) -> str:
    return recipient


def url_host(recipient: str) -> str:
    """The server of a recipient URL."""
    return urlsplit(recipient).netloc.lower()


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelSpec:
    """A channel: how to check a recipient, and how to render and send a message.

    `check` raises `InvalidRecipient`. `render` is pure and deterministic, and escapes every text
    that a user may have written. `send` uses the network, takes at most 15 s, and returns failures
    instead of raising them. `host` is what recipients share: messages to one host are sent one
    after the other. `redact` returns what may be shown of a recipient that is a credential.
    Messages of `signed` channels get secrets to sign with. The servers of `domains`, such as ".slack.com", accept this
    format only: WEBHOOK refuses them.
    """

    check: Callable[[str], None]
    render: Callable[[PublishedMessage], bytes]
    send: Callable[[Resources, OutgoingMessage], DeliveryOutcome]
    host: Callable[[str], str] = url_host
    redact: Callable[[str], str] = _unredacted
    signed: bool = False
    domains: tuple[str, ...] = ()


CHANNELS: Final[Registry[ChannelSpec]] = Registry(
    "channel",
    group="mosaico.channels",
    names=r"[A-Z][A-Z0-9_]*",
    item_type=ChannelSpec,
)

IN_APP: Final = "IN_APP"
"""The inbox: it holds every message, so this channel adds no delivery."""


IN_APP_ERROR: Final = ErrorItem(
    pointer="", detail=f"{IN_APP} has one shared inbox and no recipients; choose another channel"
)


def load_channels(warn: Callable[[LoadedPlugin], None]) -> None:
    """Load the built-in channels and those of plugins, once per process."""
    CHANNELS.load("mosaico.notifications.channels", warn)


def require_target(target: DeliveryTarget) -> None:
    """Raise `InvalidRecipient` unless the channel exists and accepts the recipient."""
    channel = CHANNELS.find(target.channel)
    if channel is None:
        errors = _unknown_channel_errors([target.channel]) or [IN_APP_ERROR]
        detail = "the channel is not valid; see `errors`"
        raise InvalidRecipient(detail, errors=[replace(errors[0], pointer="/channel")])
    problem = _recipient_error(target.channel, target.recipient)
    if problem is not None:
        error = ErrorItem(pointer="/recipient", detail=problem)
        raise InvalidRecipient(f"{target.channel} does not accept the recipient", errors=[error])


def resolve_targets(channels: Sequence[str], recipients: Sequence[str]) -> list[DeliveryTarget]:
    """The targets of an alert rule: each recipient with the one channel that accepts it.

    `IN_APP` needs no recipient.
    Raises: `InvalidRecipient` with an error for each unknown channel, each channel without a
            recipient, and each recipient that none of the channels accepts, or several.
    """
    errors = _unknown_channel_errors(channels)
    channel_names = [name for name in dict.fromkeys(channels) if name in CHANNELS.names()]
    targets: list[DeliveryTarget] = []
    for index, recipient in enumerate(recipients):
        problems = {name: _recipient_error(name, recipient) for name in channel_names}
        # A list of recipients may mix addresses and URLs; each goes to the channel that accepts its
        # form.
        accepting = [name for name, problem in problems.items() if problem is None]
        targets += [DeliveryTarget(name, recipient) for name in accepting]
        if not accepting:
            detail = _describe_errors(problems)
            errors.append(ErrorItem(pointer=f"/recipients/{index}", detail=detail))
        if len(accepting) > 1:
            detail = (
                f"{join_words(accepting, 'and')} accept it, and it would get each message {len(accepting)} times;"
                " keep the channel of its format, and give the others a rule of their own"
            )
            errors.append(ErrorItem(pointer=f"/recipients/{index}", detail=detail))
    errors += _unused_channel_errors(channels, targets)
    if errors:
        raise InvalidRecipient("recipients and channels do not match; see `errors`", errors=errors)
    # A recipient that is listed twice gets one message.
    return list(dict.fromkeys(targets))


def _unknown_channel_errors(channels: Sequence[str]) -> list[ErrorItem]:
    errors = []
    for index, name in enumerate(channels):
        try:
            if name != IN_APP:
                CHANNELS.get(name)
        except NotFound as error:
            errors.append(ErrorItem(pointer=f"/channels/{index}", detail=error.detail))
    return errors


def _unused_channel_errors(
    channels: Sequence[str], targets: Iterable[DeliveryTarget]
) -> list[ErrorItem]:
    used_channels = {target.channel for target in targets}
    return [
        ErrorItem(
            pointer=f"/channels/{index}",
            detail=f"{name} has no recipient; add a recipient for it, or remove the channel",
        )
        for index, name in enumerate(channels)
        if name in CHANNELS.names() and name not in used_channels
    ]


def _recipient_error(name: str, recipient: str) -> str | None:
    try:
        CHANNELS.get(name).check(recipient)
    except Invalid as error:
        return error.detail
    return None


def _describe_errors(problems: dict[str, str | None]) -> str:
    if not problems:
        return "no channel is given for the recipient; add one to `channels`"
    return "; ".join(f"{name}: {problem}" for name, problem in problems.items())


_own_hosts: set[str] = set()


def allow_chat_hosts(hosts: str) -> None:
    """Replace the allowed servers by those of a comma-separated list of host names."""
    _own_hosts.clear()
    _own_hosts.update(host.strip().lower() for host in hosts.split(",") if host.strip())


def is_own_chat_host(host: str) -> bool:
    """Return whether the operator allowed the formats of Slack and Teams for a server."""
    return host.lower() in _own_hosts
