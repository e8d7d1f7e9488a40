"""Audit log: one entry per change, written in the transaction of the change."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from mosaico.access.models import AuditEntry
from mosaico.core import correlation
from mosaico.core.batch_delete import BATCH_ROWS
from mosaico.core.defaults import KEEP_AUDIT_ENTRIES

ActorType = Literal["key", "person", "schedule", "webhook", "event", "operator"]
CallerType = Literal["key", "person"]
AuditOutcome = Literal["done", "refused"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditActor:
    """Actor of a change (an API key, a person, a schedule, the sender of a webhook, …) with its ID."""

    type: ActorType
    id: str


class AuditResource(NamedTuple):
    """The changed resource; `id` is None for a whole collection."""

    type: str
    id: str | None


def record_action(
    session: Session,
    actor: AuditActor,
    action: str,
    resource: AuditResource,
    *,
    fields: Sequence[str] = (),
    outcome: AuditOutcome = "done",
    method: str | None = None,
    path: str | None = None,
) -> None:
    """Write one audit entry, with the id of the current request.

    `action` is verb and noun (`create_agent`), `fields` the names of the sent fields. Actions of
    API keys are recorded by `audit_request`; call this for other actors.
    """
    session.add(
        AuditEntry(
            actor_type=actor.type,
            actor_id=actor.id,
            action=action,
            resource_type=resource.type,
            resource_id=resource.id,
            outcome=outcome,
            fields=list(fields),
            method=method,
            path=path,
            request_id=correlation.current_request_id(),
        )
    )


def delete_old_entries(session: Session, now: datetime) -> int:
    """Delete a batch of the entries that are older than `KEEP_AUDIT_ENTRIES`; returns the number deleted."""
    # A function of the database: the log refuses every other deletion.
    deleted = func.delete_old_audit_entries(now - KEEP_AUDIT_ENTRIES, BATCH_ROWS)
    return int(session.scalars(select(deleted)).one())
