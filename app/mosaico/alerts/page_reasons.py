"""Why a rule did not page about a run: one answer for the log of the service and for `mosaico alerts why`."""

from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from typing import Final, NamedTuple, TypeAlias

from mosaico.alerts.rules import RuleOutcome


class PageOutcome(StrEnum):
    """What became of a page that no `RuleOutcome` says; all but PAGED say why there was none.

    ONGOING: a breach of an incident that was told before. SILENCED: a silence held it back. NO_RECIPIENTS: the rule
    named none, so that it is in the inbox only. TOLD_BEFORE: another rule had told its recipients of the same
    collapse. WAITING: it waits for other runs of the agent. DISABLED, OTHER_AGENT and NOT_JUDGED: the rule did not
    judge the run.
    """

    PAGED = "PAGED"
    ONGOING = "ONGOING"
    SILENCED = "SILENCED"
    NO_RECIPIENTS = "NO_RECIPIENTS"
    TOLD_BEFORE = "TOLD_BEFORE"
    WAITING = "WAITING"
    DISABLED = "DISABLED"
    OTHER_AGENT = "OTHER_AGENT"
    NOT_JUDGED = "NOT_JUDGED"


PageReason: TypeAlias = PageOutcome | RuleOutcome

# FIRED is no reason: a rule that fired is PAGED, ONGOING, SILENCED, …
ADVICE: Final[Mapping[PageReason, str]] = {
    PageOutcome.PAGED: "Its recipients were sent a message; below is what became of it.",
    PageOutcome.ONGOING: "The incident was told when it began, and is told again only when it gets worse or ends.",
    RuleOutcome.PENDING: "It waits for more bad runs (forRuns) or for the end of cooldownMinutes.",
    RuleOutcome.NO_BREACH: "The condition does not hold. `mosaico alerts rules backtest` shows what would fire.",
    RuleOutcome.SAME_DATA: "The run repeats the data of an earlier one, which was judged.",
    RuleOutcome.LATE: "A later night was judged before, or the run was scored again.",
    RuleOutcome.NO_HISTORY: "Too few comparable runs to decide; the next ones will.",
    RuleOutcome.NO_VALUE: "The run has no value to judge; noData of the rule says what follows.",
    PageOutcome.SILENCED: "A silence held the message back: `mosaico alerts silences list`.",
    PageOutcome.NO_RECIPIENTS: "The rule named no recipients, so the alert is in the inbox only.",
    PageOutcome.TOLD_BEFORE: "Another rule had told its recipients of the same collapse.",
    PageOutcome.WAITING: "The message waits for other runs of the agent, 15 minutes at most.",
    PageOutcome.DISABLED: "The rule is disabled: `mosaico alerts rules enable RULE`.",
    PageOutcome.OTHER_AGENT: "The rule watches another agent.",
    PageOutcome.NOT_JUDGED: "The rule was made, enabled or edited after the run had ended.",
}


class SentAlert(NamedTuple):
    """An alert of a rule about the run: whether a silence held it back, whether it was published, and for each
    recipient that the rule named at that time the message that was sent, if any.
    """

    is_silenced: bool
    is_published: bool
    messages: Sequence[str | None]


def reason_of(judgement: RuleOutcome, alerts: Collection[SentAlert]) -> PageReason:
    """What became of a page, given what the rule made of the run and the alerts that followed."""
    if not alerts:
        return PageOutcome.ONGOING if judgement is RuleOutcome.FIRED else judgement
    if all(alert.is_silenced for alert in alerts):
        return PageOutcome.SILENCED
    messages = [message for alert in alerts for message in alert.messages]
    if not messages:
        return PageOutcome.NO_RECIPIENTS
    if any(messages):
        return PageOutcome.PAGED
    is_published = any(alert.is_published for alert in alerts)
    return PageOutcome.TOLD_BEFORE if is_published else PageOutcome.WAITING


def reason_of_unjudged(
    *, is_enabled: bool, watches_agent: bool, is_older_than_run: bool
) -> PageReason:
    """Why a rule of the benchmark has not judged a completed valid run."""
    if not watches_agent:
        return PageOutcome.OTHER_AGENT
    if is_enabled or not is_older_than_run:
        return PageOutcome.NOT_JUDGED
    return PageOutcome.DISABLED
