"""Why a rule did not page about a run: one answer for the log of the service and for `mosaico alerts why`."""

from collections.abc import Collection
from enum import StrEnum
from typing import Final, NamedTuple

from mosaico.alerts.rules import Judgement


class PageReason(StrEnum):
    """What became of a page about a run; all but PAGED say why there was none.

    Those of `Judgement` have its names. ONGOING: a breach of an incident that was told before. SILENCED: a silence
    held it back. NO_RECIPIENTS: the rule names none, so that it is in the inbox only. WAITING: it waits for other runs
    of the agent. DISABLED, OTHER_AGENT and NOT_JUDGED: the rule did not judge the run.
    """

    PAGED = "PAGED"
    ONGOING = "ONGOING"
    PENDING = "PENDING"
    NO_BREACH = "NO_BREACH"
    SAME_DATA = "SAME_DATA"
    LATE = "LATE"
    NO_HISTORY = "NO_HISTORY"
    NO_VALUE = "NO_VALUE"
    SILENCED = "SILENCED"
    NO_RECIPIENTS = "NO_RECIPIENTS"
    WAITING = "WAITING"
    DISABLED = "DISABLED"
    OTHER_AGENT = "OTHER_AGENT"
    NOT_JUDGED = "NOT_JUDGED"


ADVICE: Final = {
    PageReason.PAGED: "Its recipients were sent a message; below is what became of it.",
    PageReason.ONGOING: "The incident was told when it began, and is told again only when it gets worse or ends.",
    PageReason.PENDING: "It waits for more bad runs (forRuns) or for the end of cooldownMinutes.",
    PageReason.NO_BREACH: "The condition does not hold. `mosaico alerts rules backtest` shows what would fire.",
    PageReason.SAME_DATA: "The run repeats the data of an earlier one, which was judged.",
    PageReason.LATE: "A later night was judged before, or the run was scored again.",
    PageReason.NO_HISTORY: "Too few comparable runs to decide; the next ones will.",
    PageReason.NO_VALUE: "The run has no value to judge; noData of the rule says what follows.",
    PageReason.SILENCED: "A silence held the message back: `mosaico alerts silences list --active`.",
    PageReason.NO_RECIPIENTS: "The rule has no recipients, so the alert is in the inbox only; add some to the rule.",
    PageReason.WAITING: "The message waits for other runs of the agent, 15 minutes at most.",
    PageReason.DISABLED: "The rule is disabled: `mosaico alerts rules enable RULE`.",
    PageReason.OTHER_AGENT: "The rule watches another agent.",
    PageReason.NOT_JUDGED: "The rule was made, enabled or edited after the run had ended.",
}


class SentAlert(NamedTuple):
    """An alert of a rule about the run: whether a silence held it back, and whether a message has it."""

    is_silenced: bool
    is_sent: bool


def reason_of(
    judgement: Judgement, alerts: Collection[SentAlert], *, has_recipients: bool
) -> PageReason:
    """What became of a page, given what the rule made of the run and the alerts that followed."""
    if not alerts:
        return PageReason.ONGOING if judgement is Judgement.FIRED else PageReason(judgement)
    if all(alert.is_silenced for alert in alerts):
        return PageReason.SILENCED
    if not has_recipients:
        return PageReason.NO_RECIPIENTS
    if not any(alert.is_sent for alert in alerts):
        return PageReason.WAITING
    return PageReason.PAGED


def reason_of_unjudged(*, is_enabled: bool, watches_agent: bool) -> PageReason:
    """Why a rule of the benchmark has not judged a completed valid run."""
    if not watches_agent:
        return PageReason.OTHER_AGENT
    return PageReason.NOT_JUDGED if is_enabled else PageReason.DISABLED
