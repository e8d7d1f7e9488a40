"""The part of a page that replays an alert rule, and others beside it."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from mosaico.alerts import rule_tests
from mosaico.alerts.backtest_schemas import BacktestRequest, BacktestView
from mosaico.alerts.pages.rule_text import describe_condition
from mosaico.alerts.rules import Condition
from mosaico.alerts.schemas import AlertConfigBody, AlertConfigView
from mosaico.core.errors import AppError, without_request
from mosaico.core.resources import Resources
from mosaico.core.web.form_words import FormWords, words_of
from mosaico.core.web.forms.sent_fields import check_form, number_or_text

# The names of the inputs that choose the rule to compare with.
COMPARED: Final = ("compareCondition", "compareThreshold")
CONDITIONS: Final = [("", "no other rule")] + [
    (str(condition), condition.replace("_", " ").lower()) for condition in Condition
]
_WORDS: Final = FormWords({}, {str(condition): words_of(condition) for condition in Condition})
_BODY_FIELDS: Final = {
    field.alias or name: name for name, field in AlertConfigBody.model_fields.items()
}


class BacktestOutcome(NamedTuple):
    """The result of a backtest on a page, or the reason why there is none."""

    backtest: BacktestView | None = None
    problem: str | None = None


class ComparedBacktest(NamedTuple):
    """The backtest of another rule over the same runs, and what that rule is."""

    text: str
    outcome: BacktestOutcome


def try_backtest(res: Resources, body: BacktestRequest) -> BacktestOutcome:
    """Replay a rule."""
    try:
        return BacktestOutcome(rule_tests.backtest_rule(body, res))
    except AppError as error:
        # The errors of fields say more than the sentence above them.
        reasons = [item.detail for item in error.errors] or [without_request(error.detail)]
        return BacktestOutcome(problem="; ".join(map(_WORDS.translate, reasons)))


def draft_rule(document: Mapping[str, Any]) -> AlertConfigBody | None:
    """The rule of a form or of a view of the API; None if it is not valid. It has no recipients:
    forms show addresses redacted.
    """
    fields = {name: value for name, value in document.items() if name in _BODY_FIELDS}
    silent = {"recipients": [], "channels": ["IN_APP"], "name": document.get("name") or "rule"}
    return check_form(AlertConfigBody, {**fields, **silent}).body


def compare_backtests(
    res: Resources,
    rule: AlertConfigBody,
    stored: AlertConfigView | None,
    choice: Mapping[str, str],
    *,
    name: str,
    agent_id: str | None,
    days: int,
) -> list[ComparedBacktest]:
    """Replay the stored revision of an edited rule, if it differs, and the rule with another condition
    that a reader chose. `name` is what the rule watches.
    """
    rivals: list[tuple[str, AlertConfigBody | None]] = []
    document = rule.model_dump(mode="json", by_alias=True)
    stored_rule = draft_rule(stored.model_dump(mode="json", by_alias=True)) if stored else None
    if stored and stored_rule and _spec(stored_rule) != _spec(rule):
        rivals.append((f"as stored, revision {stored.revision}", stored_rule))
    if choice.get(COMPARED[0]):
        threshold = number_or_text(choice.get(COMPARED[1], "").strip())
        other = draft_rule({**document, "condition": choice[COMPARED[0]], "threshold": threshold})
        rivals.append((describe_condition(name, other) if other else "the other rule", other))
    return [ComparedBacktest(text, _replay(res, rival, agent_id, days)) for text, rival in rivals]


def _replay(
    res: Resources, rule: AlertConfigBody | None, agent_id: str | None, days: int
) -> BacktestOutcome:
    if rule is None:
        return BacktestOutcome(problem="its threshold is not a number")
    return try_backtest(res, BacktestRequest(rule=rule, agent_id=agent_id, days=days))


def _spec(rule: AlertConfigBody) -> Sequence[Any]:
    """Return the fields of a rule that decide when it fires."""
    left_out = {"name", "severity", "enabled", "max_hours_without_run"}
    return list(rule.model_dump(exclude=left_out).items())
