"""Which channels there are, and what a channel promises."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final
from urllib.parse import urlsplit

from app.core.encryption import Secret
from app.core.errors import ErrorItem, Invalid, NotFound
from app.core.registry import LoadedPlugin, Registry
from app.core.resources import Resources
from app.notifications.types import Notice, Outcome, Target


class UnfitRecipient(Invalid):
    """The channel does not know such a recipient; write one of the form that `errors` tells."""

    code = "unfit-recipient"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """One try: what `render` made of the notice, and what it is signed with if it is signed.

    `id` is the same on every try, so that a recipient can tell that it has the message already.
    """

    id: str
    recipient: str
    body: bytes
    now: datetime
    keys: tuple[Secret, ...] = ()


def _as_it_is(recipient: str) -> str:
    return recipient


def host_of(recipient: str) -> str:
    """What messages to a URL share with others: its server."""
    return urlsplit(recipient).netloc.lower()


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelSpec:
    """How messages go out.

    `check` raises `UnfitRecipient`. `render` is pure, and makes every text of a user inert; what it
    gives is the same for the same notice. `send` goes over the network, takes at most 15 s, and
    tells failures by what it returns. `host` names what recipients share: messages to one host go
    one after the other. `shown` is a recipient as it may be shown, where it is as good as a
    password. `signed` channels are given keys to sign with.
    """

    check: Callable[[str], None]
    render: Callable[[Notice], bytes]
    send: Callable[[Resources, Outgoing], Outcome]
    host: Callable[[str], str] = host_of
    shown: Callable[[str], str] = _as_it_is
    signed: bool = False


def _require_spec(name: str, channel: object) -> None:
    if not isinstance(channel, ChannelSpec):
        raise TypeError(f"the channel {name} is to be a ChannelSpec, not {channel!r:.80}")


CHANNELS: Final[Registry[ChannelSpec]] = Registry(
    "channel", group="mosaico.channels", names=r"[A-Z][A-Z0-9_]*", check=_require_spec
)

IN_APP: Final = "IN_APP"
"""Every message is in the inbox; whoever names this channel asks for nothing beside that."""


def load_channels(warn: Callable[[LoadedPlugin], None]) -> None:
    """Find the built-in channels and those of other distributions, once in a process."""
    CHANNELS.load("app.notifications.channels", warn)


def require_target(target: Target) -> None:
    """Raise `UnfitRecipient` unless there is this channel and it knows such a recipient."""
    channel = CHANNELS.find(target.channel)
    if channel is None:
        faults = _unknown_channels([target.channel]) or _in_app_has_no_recipients()
        detail = "there is no such channel; see `errors`"
        raise UnfitRecipient(detail, errors=[replace(faults[0], pointer="/channel")])
    fault = _fault(target.channel, target.recipient)
    if fault is not None:
        error = ErrorItem(pointer="/recipient", detail=fault)
        raise UnfitRecipient(f"{target.channel} has no such recipients", errors=[error])


def targets_of(channels: Sequence[str], recipients: Sequence[str]) -> list[Target]:
    """Whom a rule with these fields tells: each recipient by every one of the channels that knows
    such recipients. `IN_APP` needs none.

    Raises: `UnfitRecipient`, which tells what is wrong with each entry: a channel that is not
            known or has nobody to tell, a recipient that none of the channels knows.
    """
    errors = _unknown_channels(channels)
    named = [name for name in dict.fromkeys(channels) if name in CHANNELS.names()]
    found: list[Target] = []
    for place, recipient in enumerate(recipients):
        reasons = {name: _fault(name, recipient) for name in named}
        fitting = [name for name, fault in reasons.items() if fault is None]
        found += [Target(name, recipient) for name in fitting]
        if not fitting:
            errors.append(ErrorItem(pointer=f"/recipients/{place}", detail=_told(reasons)))
    errors += _lonely(channels, found)
    if errors:
        raise UnfitRecipient("recipients and channels do not fit; see `errors`", errors=errors)
    return list(dict.fromkeys(found))


def _unknown_channels(channels: Sequence[str]) -> list[ErrorItem]:
    errors = []
    for place, name in enumerate(channels):
        try:
            if name != IN_APP:
                CHANNELS.get(name)
        except NotFound as error:
            errors.append(ErrorItem(pointer=f"/channels/{place}", detail=error.detail))
    return errors


def _in_app_has_no_recipients() -> list[ErrorItem]:
    return [ErrorItem(pointer="", detail=f"{IN_APP} has one inbox for all; leave it out")]


def _lonely(channels: Sequence[str], found: Iterable[Target]) -> list[ErrorItem]:
    told = {target.channel for target in found}
    return [
        ErrorItem(
            pointer=f"/channels/{place}",
            detail=f"{name} has nobody to tell; add a recipient for it, or leave the channel out",
        )
        for place, name in enumerate(channels)
        if name in CHANNELS.names() and name not in told
    ]


def _fault(name: str, recipient: str) -> str | None:
    try:
        CHANNELS.get(name).check(recipient)
    except Invalid as error:
        return error.detail
    return None


def _told(reasons: dict[str, str | None]) -> str:
    if not reasons:
        return "no channel is named that could tell it; add one to `channels`"
    return "; ".join(f"{name}: {fault}" for name, fault in reasons.items())
