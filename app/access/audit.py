"""Audit log: one entry per change, written in the transaction of the change."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from sqlalchemy.orm import Session

from app.access.models import AuditEntry
from app.core import correlation
from app.core.db import append_row

ActorType = Literal["key", "schedule", "webhook", "event", "operator"]
AuditOutcome = Literal["done", "refused"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditActor:
    """Who makes a change: an API key, a schedule, the sender of a webhook, …, by its id."""

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
    append_row(
        session,
        AuditEntry,
        {
            "actor_type": actor.type,
            "actor_id": actor.id,
            "action": action,
            "resource_type": resource.type,
            "resource_id": resource.id,
            "outcome": outcome,
            "fields": list(fields),
            "method": method,
            "path": path,
            "request_id": correlation.current_request_id(),
        },
    )
