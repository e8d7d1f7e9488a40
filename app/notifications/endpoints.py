"""Where messages go: endpoints, whose addresses are sealed, because to know some is to write there."""

import hashlib
from collections.abc import Iterable
from datetime import datetime, timedelta

from sqlalchemy import select, tuple_
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from app.core.encryption import Secret, SecretBox
from app.core.ids import new_id
from app.notifications import queries
from app.notifications.models import Endpoint
from app.notifications.registry import CHANNELS, IN_APP
from app.notifications.types import Target
from app.notifications.webhook_signatures import new_secret


def ensure_endpoints(session: Session, targets: Iterable[Target], box: SecretBox) -> list[Endpoint]:
    """The endpoints of these targets, in their order, made where there are none yet; the inbox is
    none.
    """
    wanted = {_key(target): target for target in targets if target.channel != IN_APP}
    if not wanted:
        return []
    rows = [_row(wanted[key], box) for key in sorted(wanted)]
    session.execute(insert(Endpoint).values(rows).on_conflict_do_nothing())
    statement = select(Endpoint).where(tuple_(Endpoint.channel, Endpoint.digest).in_(wanted))
    found = {(each.channel, each.digest): each for each in session.scalars(statement)}
    for key, target in wanted.items():
        if found[key].address is None:  # given up with the master key that sealed it
            found[key].address = _seal(target.recipient, found[key].id, "address", box)
    session.flush()
    return [found[key] for key in wanted]


def set_up_endpoint(
    session: Session, target: Target, box: SecretBox, *, daily_summary: bool | None
) -> Endpoint:
    """The endpoint of a target; None leaves as it is whether the summary goes there."""
    [endpoint] = ensure_endpoints(session, [target], box)
    if daily_summary is not None:
        endpoint.daily_summary = daily_summary
        session.flush()
    return endpoint


def address_of(endpoint: Endpoint, box: SecretBox) -> Secret | None:
    """The whole recipient; None when it was given up with the master key that sealed it.

    Raises: `WrongMasterKey`, `BrokenSeal`.
    """
    sealed = endpoint.address
    return None if sealed is None else _open(sealed, endpoint, "address", box)


def rotate_secret(
    session: Session, endpoint_id: str, box: SecretBox, now: datetime, *, overlap: timedelta
) -> Secret:
    """Make a new secret, the only copy of which is the result; the earlier one signs, too, for a
    while.
    """
    endpoint = queries.get_endpoint(session, endpoint_id, for_update=True)
    if endpoint.secret is not None:
        earlier = _open(endpoint.secret, endpoint, "secret", box)
        endpoint.earlier_secret = _seal(earlier.reveal(), endpoint.id, "earlier_secret", box)
        endpoint.earlier_until = now + overlap
    made = Secret(new_secret())
    endpoint.secret = _seal(made.reveal(), endpoint.id, "secret", box)
    session.flush()
    return made


def signing_keys(
    session: Session, endpoint: Endpoint, box: SecretBox, now: datetime
) -> tuple[Secret, ...]:
    """What messages to an endpoint are signed with now; made where there is nothing yet."""
    if endpoint.secret is None:
        return (rotate_secret(session, endpoint.id, box, now, overlap=timedelta()),)
    keys = [_open(endpoint.secret, endpoint, "secret", box)]
    if endpoint.earlier_secret and endpoint.earlier_until and endpoint.earlier_until > now:
        keys.append(_open(endpoint.earlier_secret, endpoint, "earlier_secret", box))
    return tuple(keys)


def _key(target: Target) -> tuple[str, str]:
    return target.channel, hashlib.sha256(target.recipient.encode()).hexdigest()


def _row(target: Target, box: SecretBox) -> dict[str, str]:
    channel, digest = _key(target)
    spec, endpoint_id = CHANNELS.get(channel), new_id()
    return {
        "id": endpoint_id,
        "channel": channel,
        "digest": digest,
        "address": _seal(target.recipient, endpoint_id, "address", box),
        "recipient": spec.shown(target.recipient),
        "host": spec.host(target.recipient),
    }


def _seal(plain: str, endpoint_id: str, column: str, box: SecretBox) -> str:
    return box.encrypt(plain, table="endpoints", row=endpoint_id, column=column)


def _open(sealed: str, endpoint: Endpoint, column: str, box: SecretBox) -> Secret:
    return box.decrypt(sealed, table="endpoints", row=endpoint.id, column=column)
