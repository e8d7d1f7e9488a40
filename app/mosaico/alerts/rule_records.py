"""How often an alert rule fired and was right, beside its limit of false alarms."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from sqlalchemy import select, text
from sqlalchemy.orm import Session

from mosaico.alerts.models import FIRED, AlertRule
from mosaico.alerts.rules import Condition
from mosaico.core.batches import batched
from mosaico.core.text import format_number

RECORD_DAYS: Final = 90
# A rule that fired so often is wrong, however often it fired.
MAX_FIRED: Final = 1_000
_RULES_PER_STATEMENT: Final = 20
_RECORDS: Final = text(
    f"""
    SELECT rule.id, count(*), count(*) FILTER (WHERE verdict = 'true'), count(*) FILTER (WHERE verdict = 'noise')
    FROM unnest(CAST(:rule_ids AS text[])) AS rule (id) CROSS JOIN LATERAL (
        SELECT verdict FROM alert_events WHERE rule_id = rule.id AND {FIRED} AND created_at >= :since
        ORDER BY created_at DESC LIMIT :limit
    ) AS event GROUP BY rule.id
    """  # noqa: S608 - a constant
)


class RuleRecord(NamedTuple):
    """The number of times that a rule fired in `RECORD_DAYS`, `MAX_FIRED` at most, and how many of these
    alerts were acknowledged as true and as noise.
    """

    fired: int = 0
    true: int = 0
    noise: int = 0

    @property
    def text(self) -> str:
        """The record in words: "fired 3× in 90 days: 2 real, 1 false alarm"."""
        alarms = "false alarm" if self.noise == 1 else "false alarms"
        judged = f": {self.true} real, {self.noise} {alarms}" if self.true + self.noise else ""
        number = f"at least {MAX_FIRED:,}" if self.fired >= MAX_FIRED else str(self.fired)
        return f"fired {number}× in {RECORD_DAYS} days{judged}"


class RuleFalseAlarms(NamedTuple):
    """A rule by its name, its limit of false alarms in words (empty without one), and its record."""

    name: str
    limit: str
    record: RuleRecord


def read_records(session: Session, rule_ids: Sequence[str], now: datetime) -> dict[str, RuleRecord]:
    """The record of each rule that fired in the last `RECORD_DAYS`, with its newest `MAX_FIRED` alerts."""
    records: dict[str, RuleRecord] = {}
    for batch in batched(rule_ids, _RULES_PER_STATEMENT):
        since = now - timedelta(days=RECORD_DAYS)
        parameters = {"rule_ids": list(batch), "since": since, "limit": MAX_FIRED}
        for rule_id, *counts in session.execute(_RECORDS, parameters):
            records[rule_id] = RuleRecord(*counts)
    return records


def read_false_alarms(
    session: Session, rule_ids: Iterable[str | None], now: datetime, false_pages: float
) -> dict[str, RuleFalseAlarms]:
    """The limit of false alarms of each existing rule, and its record; `false_pages` is the limit of rules that
    set none.
    """
    existing = select(AlertRule).where(AlertRule.id.in_({id_ for id_ in rule_ids if id_}))
    rules = list(session.scalars(existing))
    if not rules:
        return {}
    records = read_records(session, [rule.id for rule in rules], now)
    return {
        rule.id: RuleFalseAlarms(
            rule.name, _describe_limit(rule, false_pages), records.get(rule.id, RuleRecord())
        )
        for rule in rules
    }


def false_pages_of(rule: AlertRule, default: float) -> float | None:
    """The most false alarms in 30 runs; None for a rule that does not judge several runs together."""
    if rule.condition != Condition.REGRESSED:
        return None
    return rule.false_pages_per_month or default


def _describe_limit(rule: AlertRule, default: float) -> str:
    pages = false_pages_of(rule, default)
    return "" if pages is None else f"at most {format_number(pages)} in 30 runs"
