"""Writes to silences."""

from datetime import datetime, timedelta
from typing import Final

from sqlalchemy import func, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from mosaico.agents.models import Agent
from mosaico.alerts import silence_queries
from mosaico.alerts.models import AlertRule, AlertSilence
from mosaico.alerts.schemas import SilenceCreate, SilencePatch
from mosaico.alerts.silence_matchers import SilenceMatchers
from mosaico.benchmarks.models import Benchmark
from mosaico.core.errors import Conflict, ErrorItem, Invalid
from mosaico.core.ids import new_id
from mosaico.core.row_counts import count_selected
from mosaico.core.schemas import changed_fields

MAX_SILENCE = timedelta(days=30)
# Each alert is matched with all of them.
MAX_SILENCES: Final = 1_000
# Of the advisory lock of those who count silences and add one.
_COUNT_LOCK: Final = 4_160_017_503


class TooManySilences(Conflict):
    """1,000 silences have not ended; delete some, or make one that holds back the alerts of several."""


def start_silence(
    session: Session, matchers: SilenceMatchers, hours: int, comment: str, by: str, now: datetime
) -> AlertSilence:
    """A silence from now on, by a person or an API key. Raises: `Invalid` for more than 30 days."""
    duration = timedelta(hours=hours)
    if not timedelta() < duration <= MAX_SILENCE:
        raise Invalid("a silence lasts from 1 to 720 hours; choose another duration")
    body = SilenceCreate(matchers=matchers, ends_at=now + duration, comment=comment)
    return create_silence(session, body, by, now)


def create_silence(session: Session, body: SilenceCreate, by: str, now: datetime) -> AlertSilence:
    """Raises: `Invalid` for a silence that matches everything, has already ended, or names what does not exist,
    `Conflict` when its ID is taken, `TooManySilences`.
    """
    silence = AlertSilence(
        id=body.id or new_id(),
        matchers=body.matchers,
        comment=body.comment,
        created_by=by,
        starts_at=body.starts_at or now,
        ends_at=body.ends_at,
        created_at=now,
    )
    _check_silence(silence, now)
    _require_matched(session, silence.matchers)
    _require_room(session, now)
    session.add(silence)
    try:
        session.flush()
    except IntegrityError:
        raise Conflict(f"the silence ID {silence.id!r} is taken; choose another") from None
    return silence


def update_silence(
    session: Session, silence_id: str, body: SilencePatch, now: datetime
) -> AlertSilence:
    """Change the sent fields of a silence; an ended silence is reopened by a later `endsAt`.

    Raises: `SilenceNotFound`; `Invalid` for a silence that matches everything or, when `endsAt` is
    sent, has already ended; `TooManySilences` for one that is reopened.
    """
    silence = silence_queries.get_silence(session, silence_id, for_update=True)
    fields = body.given_fields()
    if "matchers" in fields:
        new_matchers = changed_fields(fields["matchers"])
        silence.matchers = silence.matchers.model_copy(update=new_matchers)
    if silence.ends_at <= now < fields.get("ends_at", now):
        _require_room(session, now)
    silence.ends_at = fields.get("ends_at", silence.ends_at)
    silence.comment = fields.get("comment", silence.comment)
    _check_silence(silence, now if "ends_at" in fields else None)
    session.flush()
    return silence


def delete_silence(session: Session, silence_id: str) -> None:
    session.delete(silence_queries.get_silence(session, silence_id))
    session.flush()


def _require_room(session: Session, now: datetime) -> None:
    """Raise `TooManySilences` if no other silence fits; the count is locked until the transaction ends."""
    session.execute(select(func.pg_advisory_xact_lock(_COUNT_LOCK)))
    current = select(AlertSilence.id).where(AlertSilence.ends_at > now).limit(MAX_SILENCES)
    if count_selected(session, current) == MAX_SILENCES:
        raise TooManySilences


def _require_matched(session: Session, matchers: SilenceMatchers) -> None:
    """Raise `Invalid` for an ID that nothing has: the silence would hold back no alert."""
    named = (
        ("alertConfigId", "alert rule", AlertRule, matchers.alert_config_id),
        ("benchmarkId", "benchmark", Benchmark, matchers.benchmark_id),
        ("agentId", "agent", Agent, matchers.agent_id),
    )
    errors = [
        ErrorItem(pointer=f"/matchers/{field}", detail=f"no {noun} has the ID {object_id!r}")
        for field, noun, model, object_id in named
        if object_id is not None and session.get(model, object_id) is None
    ]
    if errors:
        raise Invalid("the silence would hold back no alert; see `errors`", errors=errors)


def _check_silence(silence: AlertSilence, now: datetime | None) -> None:
    """Raises: `Invalid`; a silence may have ended already if `now` is None."""
    errors = []
    if silence.matchers.is_empty:
        detail = "is empty and would silence every alert; send at least one field"
        errors.append(ErrorItem(pointer="/matchers", detail=detail))
    if now is not None and silence.ends_at <= max(silence.starts_at, now):
        detail = "is in the past or not after `startsAt`; send a later time"
        errors.append(ErrorItem(pointer="/endsAt", detail=detail))
    if errors:
        raise Invalid("the silence is not valid; see `errors`", errors=errors)
