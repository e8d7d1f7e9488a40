"""How often an alert rule fired and was right, beside the false alarms that it promises."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from app.alerts.evaluation.run_evaluation import default_promise
from app.alerts.models import AlertEvent, AlertRule
from app.alerts.rules import AlertStatus, Condition
from app.core.text import format_number

RECORD_DAYS: Final = 90


class RuleRecord(NamedTuple):
    """The number of times that a rule fired in `RECORD_DAYS`, and how many of these alerts were
    acknowledged as true and as noise.
    """

    fired: int = 0
    true: int = 0
    noise: int = 0

    @property
    def text(self) -> str:
        """The record in words: "fired 3× in 90 days: 2 real, 1 false alarm"."""
        alarms = "false alarm" if self.noise == 1 else "false alarms"
        judged = f": {self.true} real, {self.noise} {alarms}" if self.true + self.noise else ""
        return f"fired {self.fired}× in {RECORD_DAYS} days{judged}"


class RulePromise(NamedTuple):
    """A rule by its name, what it promises in words (empty without a promise), and its record."""

    name: str
    promise: str
    record: RuleRecord


def read_records(session: Session, rule_ids: Iterable[str], now: datetime) -> dict[str, RuleRecord]:
    """The record of each rule that fired in the last `RECORD_DAYS`."""
    statement = (
        select(
            AlertEvent.rule_id,
            func.count(),
            func.count().filter(AlertEvent.verdict == "true"),
            func.count().filter(AlertEvent.verdict == "noise"),
        )
        .where(
            AlertEvent.rule_id.in_(list(rule_ids)),
            AlertEvent.created_at >= now - timedelta(days=RECORD_DAYS),
            AlertEvent.state == AlertStatus.FIRING,
        )
        .group_by(AlertEvent.rule_id)
    )
    return {str(rule_id): RuleRecord(*counts) for rule_id, *counts in session.execute(statement)}


def read_promises(
    session: Session, rule_ids: Iterable[str | None], now: datetime, budget: float | None
) -> dict[str, RulePromise]:
    """What each existing rule promises, and its record; `budget` is that of the service for all
    series together.
    """
    existing = select(AlertRule).where(AlertRule.id.in_({id_ for id_ in rule_ids if id_}))
    rules = list(session.scalars(existing))
    if not rules:
        return {}
    records = read_records(session, [rule.id for rule in rules], now)
    promise = default_promise(session, budget)
    return {
        rule.id: RulePromise(
            rule.name, _describe_promise(rule, promise), records.get(rule.id, RuleRecord())
        )
        for rule in rules
    }


def promised_pages(rule: AlertRule, default: float) -> float | None:
    """Only rules that judge several runs together promise a number of false alarms."""
    if rule.condition != Condition.REGRESSED:
        return None
    return rule.false_pages_per_month or default


def _describe_promise(rule: AlertRule, default: float) -> str:
    pages = promised_pages(rule, default)
    return "" if pages is None else f"at most {format_number(pages)} in 30 runs"
