"""Endpoints: the destinations of deliveries, with encrypted recipients and signing secrets.

Recipients are encrypted because a chat webhook URL is a credential: the URL alone allows posting.
"""

import hashlib
from collections.abc import Iterable
from datetime import datetime, timedelta

from sqlalchemy import select, tuple_
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from mosaico.core.dependents import DeletedResource, find_obstacles, list_dependents
from mosaico.core.encryption import Secret, SecretBox
from mosaico.core.errors import Conflict
from mosaico.core.ids import new_id
from mosaico.jobs.declarations import DropDeliveries
from mosaico.jobs.queue import enqueue
from mosaico.notifications import queries
from mosaico.notifications.models import Endpoint
from mosaico.notifications.registry import CHANNELS, IN_APP
from mosaico.notifications.schemas import EndpointPatch
from mosaico.notifications.types import DeliveryTarget
from mosaico.notifications.webhook_signatures import new_secret


class EndpointInUse(Conflict):
    """Alert rules notify the endpoint; change or delete the rules first."""


class EndpointNotSigned(Conflict):
    """Messages of this channel are not signed; create secrets for endpoints of WEBHOOK."""


def ensure_endpoints(
    session: Session, targets: Iterable[DeliveryTarget], box: SecretBox
) -> list[Endpoint]:
    """The endpoints of the targets, in their order, created if they do not exist.

    The inbox is not an endpoint and is left out.
    """
    target_of = {_unique_key(target): target for target in targets if target.channel != IN_APP}
    if not target_of:
        return []
    # Sorted, so that two transactions insert in the same order and cannot deadlock.
    rows = [_insert_values(target_of[key], box) for key in sorted(target_of)]
    endpoint_of: dict[tuple[str, str], Endpoint] = {}
    # Once, unless another transaction deletes an endpoint between the insertion and the lock.
    while endpoint_of.keys() != target_of.keys():
        # The hash of the recipient is unique; the ciphertext cannot be, because each has a random
        # nonce.
        session.execute(insert(Endpoint).values(rows).on_conflict_do_nothing())
        statement = (
            select(Endpoint)
            .where(tuple_(Endpoint.channel, Endpoint.recipient_hash).in_(target_of))
            .order_by(Endpoint.channel, Endpoint.recipient_hash)
            # Not deleted before the caller has stored its ID.
            .with_for_update(read=True, key_share=True)
        )
        endpoint_of = {
            (endpoint.channel, endpoint.recipient_hash): endpoint
            for endpoint in session.scalars(statement)
        }
    for key, target in target_of.items():
        endpoint = endpoint_of[key]
        if endpoint.address is None:  # dropped when its master key was lost
            endpoint.address = _encrypt(target.recipient, endpoint.id, "address", box)
    session.flush()
    return [endpoint_of[key] for key in target_of]


def save_endpoint(
    session: Session, target: DeliveryTarget, box: SecretBox, *, daily_summary: bool | None
) -> Endpoint:
    """Create or update the endpoint of a target; `daily_summary` None keeps the current value."""
    [endpoint] = ensure_endpoints(session, [target], box)
    if daily_summary is not None:
        endpoint.daily_summary = daily_summary
        session.flush()
    return endpoint


def update_endpoint(session: Session, endpoint_id: str, body: EndpointPatch) -> Endpoint:
    """Change the sent fields of an endpoint. Raises: `EndpointNotFound`."""
    endpoint = queries.get_endpoint(session, endpoint_id, for_update=True)
    for name, value in body.given_fields().items():
        setattr(endpoint, name, value)
    session.flush()
    return endpoint


def delete_endpoint(session: Session, endpoint_id: str) -> None:
    """Delete an endpoint, and its deliveries by a job; those that wait are not sent.

    Raises: `EndpointNotFound`, `EndpointInUse` if something notifies it.
    """
    # The strongest lock: it waits for transactions that are about to store the ID in a rule or a
    # delivery. Later ones find no endpoint, so the job finds every delivery.
    endpoint = session.get(Endpoint, endpoint_id, with_for_update=True)
    if endpoint is None:
        raise queries.EndpointNotFound
    if users := find_obstacles(session, DeletedResource("endpoint", endpoint_id)):
        raise EndpointInUse(
            f"{list_dependents(users)} would no longer reach this endpoint; change or delete them first"
        )
    session.delete(endpoint)
    session.flush()
    enqueue(session, DropDeliveries(endpoint_id=endpoint_id))


def decrypt_recipient(endpoint: Endpoint, box: SecretBox) -> Secret | None:
    """The complete recipient; None if it was dropped because its master key was lost.

    Raises: `UnknownMasterKey`, `CorruptedSecret`.
    """
    encrypted = endpoint.address
    return None if encrypted is None else _decrypt(encrypted, endpoint, "address", box)


def rotate_secret(
    session: Session, endpoint_id: str, box: SecretBox, now: datetime, *, overlap: timedelta
) -> Secret:
    """Create a signing secret and return it; the previous one also signs for `overlap`.

    Raises: `EndpointNotFound`, `EndpointNotSigned`.
    """
    endpoint = queries.get_endpoint(session, endpoint_id, for_update=True)
    channel = CHANNELS.find(endpoint.channel)
    if channel is None or not channel.signed:
        raise EndpointNotSigned(
            f"messages of the channel {endpoint.channel} are not signed, so this endpoint needs "
            "no secret; create secrets for endpoints of a signed channel such as WEBHOOK"
        )
    if endpoint.secret is not None:
        # Encrypted again: the ciphertext is bound to the name of its column.
        previous = _decrypt(endpoint.secret, endpoint, "secret", box)
        endpoint.previous_secret = _encrypt(previous.reveal(), endpoint.id, "previous_secret", box)
        endpoint.previous_expires_at = now + overlap
    secret = Secret(new_secret())
    endpoint.secret = _encrypt(secret.reveal(), endpoint.id, "secret", box)
    session.flush()
    return secret


def get_signing_secrets(
    session: Session, endpoint: Endpoint, box: SecretBox, now: datetime
) -> tuple[Secret, ...]:
    """The secrets that sign messages to an endpoint now; the first one is created on demand."""
    if endpoint.secret is None:
        return (rotate_secret(session, endpoint.id, box, now, overlap=timedelta()),)
    secrets = [_decrypt(endpoint.secret, endpoint, "secret", box)]
    expires_at = endpoint.previous_expires_at
    if endpoint.previous_secret and expires_at and expires_at > now:
        secrets.append(_decrypt(endpoint.previous_secret, endpoint, "previous_secret", box))
    return tuple(secrets)


def _unique_key(target: DeliveryTarget) -> tuple[str, str]:
    return target.channel, hashlib.sha256(target.recipient.encode()).hexdigest()


def _insert_values(target: DeliveryTarget, box: SecretBox) -> dict[str, str]:
    channel, recipient_hash = _unique_key(target)
    spec, endpoint_id = CHANNELS.get(channel), new_id()
    return {
        "id": endpoint_id,
        "channel": channel,
        "recipient_hash": recipient_hash,
        "address": _encrypt(target.recipient, endpoint_id, "address", box),
        "recipient": spec.redact(target.recipient),
        "host": spec.host(target.recipient),
    }


def _encrypt(plain: str, endpoint_id: str, column: str, box: SecretBox) -> str:
    return box.encrypt(plain, table="endpoints", row=endpoint_id, column=column)


def _decrypt(encrypted: str, endpoint: Endpoint, column: str, box: SecretBox) -> Secret:
    return box.decrypt(encrypted, table="endpoints", row=endpoint.id, column=column)
