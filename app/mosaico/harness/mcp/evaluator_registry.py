"""Evaluators of answers: their registry, and the evaluation of an attempt.

Each module of `evaluators/` registers evaluators. Other distributions add evaluators through the
entry points `mosaico.evaluators`, which also serve the checks of the bash harness.
"""

import json
import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Final, NamedTuple, TypeAlias

from pydantic import JsonValue

from mosaico.core.registry import LoadedPlugin, Registry, suggest_names
from mosaico.core.text import cut_middle
from mosaico.harness.judge import JudgeError, judge_system_prompt
from mosaico.harness.mcp.config import EvaluatorConfig
from mosaico.harness.mcp.types import OUTCOMES, AttemptError, Evaluation, McpToolCall
from mosaico.harness.results import AttemptOutcome

MAX_QUOTED_CHARS: Final = 2000  # of an answer in an evaluation
MAX_JUDGED_CHARS: Final = 100_000  # of an answer in the prompt of a judge


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatorEvidence:
    """Everything an evaluator can read: the answer, the tool calls in order, the judge's answer.

    `error` is the error of the attempt, if any; `judge_answer` is None without a judge.
    """

    response: str
    error: str | None = None
    tool_calls: Sequence[McpToolCall] = ()
    judge_answer: str | None = None


class EvaluatorResult(NamedTuple):
    """The outcome of an evaluation with its reason; `passed` is None for a score without a
    threshold.
    """

    passed: bool | None
    reason: str
    score: float | None = None


def _no_problems(_: JsonValue) -> Iterable[str]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluator:
    """One kind of evaluation.

    `select` returns the expected values of a configuration that this evaluator handles, `evaluate`
    compares one of them with the evidence, and `validate` lists the errors of one of them.
    """

    kind: ClassVar[str] = "evaluator"

    summary: str
    select: Callable[[EvaluatorConfig], Sequence[JsonValue]]
    evaluate: Callable[[JsonValue, EvaluatorEvidence], EvaluatorResult]
    validate: Callable[[JsonValue], Iterable[str]] = field(default=_no_problems)


EVALUATORS: Final[Registry[Evaluator]] = Registry(
    "evaluator",
    group="mosaico.evaluators",
    names=r"[a-z][a-z0-9_]*",
    item_type=Evaluator,
)

AskModel: TypeAlias = Callable[[str, str, str], Awaitable[str]]
"""Sends a system message and a prompt to the named model and returns its answer.

Raises JudgeError when the model does not answer.
"""


def expected_items(evaluator: EvaluatorConfig) -> list[JsonValue]:
    """The elements of `expected`; the answer must meet all of them.

    None with a judge: then `expected` is only the reference that the judge reads.
    """
    if evaluator.expected is None or evaluator.prompt is not None:
        return []
    return evaluator.expected if isinstance(evaluator.expected, list) else [evaluator.expected]


def is_pattern(item: JsonValue) -> bool:
    """Return whether an element of `expected` is a pattern, and not a mapping to find in JSON."""
    return isinstance(item, dict) and "regex" in item and item.keys() <= {"regex", "expect_match"}


def accepts_error(evaluator: EvaluatorConfig, error: AttemptError) -> bool:
    """Return whether an error that ended an attempt may be the expected error.

    An error of the agent, such as a timeout of a tool, may be. One of a server or provider must be
    named by `expected` with its literal text before the colon: a task that expects any error must
    not pass because a server is unreachable, and a pattern for tool errors could also match the
    details, such as the "No such file" of a missing program.
    """
    outcome = OUTCOMES[error.kind]
    if not evaluator.expect_error or outcome is AttemptOutcome.SKIPPED:
        return False
    if outcome.is_agent_failure:
        return True
    words = error.detail.partition(": ")[0]
    return any(isinstance(item, str) and words in item for item in expected_items(evaluator))


def select_check(name: str) -> Callable[[EvaluatorConfig], Sequence[JsonValue]]:
    """The `select` of an evaluator that is configured under `checks` by its name."""
    return lambda evaluator: [evaluator.checks[name]] if name in evaluator.checks else []


async def evaluate(
    evaluator: EvaluatorConfig, evidence: EvaluatorEvidence, ask: AskModel
) -> tuple[Evaluation, ...]:
    """The evaluations of an answer, in the order of the names of the evaluators.

    `ask` is called only for a judge. Raises JudgeError when the judge gives no valid score or when
    an evaluator raises an exception.
    """
    if evaluator.expect_error:
        if evidence.error is None:
            return (_missing_error(evidence),)
        evidence = replace(evidence, response=evidence.error)
    if evaluator.prompt is not None and evaluator.model is not None:
        answer = await ask(
            evaluator.model,
            judge_system_prompt(evaluator.scale),
            judge_prompt(evaluator, evidence.response),
        )
        evidence = replace(evidence, judge_answer=answer)
    evaluations = tuple(_evaluations(evaluator, evidence))
    return evaluations or (_any_error(evidence),)


def judge_prompt(evaluator: EvaluatorConfig, response: str) -> str:
    """The prompt of a judge: `{response}` and `{expected}` are replaced once; other braces stay.

    Without `expected` its place is empty.
    """
    expected = "" if evaluator.expected is None else evaluator.expected
    replacements = {
        "{response}": cut_middle(response, MAX_JUDGED_CHARS),
        "{expected}": expected if isinstance(expected, str) else json.dumps(expected),
    }
    template = evaluator.prompt or ""
    # One pass: braces inside the response must not be replaced again.
    return re.sub(r"\{response\}|\{expected\}", lambda match: replacements[match.group()], template)


def validate_evaluator(evaluator: EvaluatorConfig) -> Iterable[str]:
    """The errors that make a configuration unusable."""
    if evaluator.prompt is not None:
        yield from _validate_judge(evaluator, evaluator.prompt)
    elif evaluator.min_score is not None:
        yield "min_score needs a judge; add prompt and model, or remove min_score"
    elif evaluator.model is not None:
        yield "a judge model needs a prompt; add prompt, or remove model"
    if evaluator.min_score is not None and evaluator.min_score > evaluator.scale:
        yield f"min_score is outside the scale from 0 to {evaluator.scale}; set scale: 100"
    for name in evaluator.checks:
        if EVALUATORS.find(name) is None:
            yield f"unknown evaluator {name!r}.{suggest_names(name, EVALUATORS.names())}"
    selected_count = 0
    for criterion in EVALUATORS:
        for item in criterion.select(evaluator):
            selected_count += 1
            yield from criterion.validate(item)
    if not selected_count and not evaluator.expect_error and not evaluator.checks:
        yield "the evaluator is empty; add expected, regex, prompt, checks or expect_error"


def warn_evaluator(evaluator: EvaluatorConfig) -> Iterable[str]:
    """Remarks about a usable configuration that probably means something else."""
    prompt = evaluator.prompt
    if prompt is None:
        return
    if "{expected}" in prompt and evaluator.expected is None:
        yield "the judge prompt contains {expected}, which is empty without expected; add expected"
    if "{expected}" not in prompt and evaluator.expected is not None:
        yield "the judge does not read expected; add {expected} to its prompt, or remove expected"


def _validate_judge(evaluator: EvaluatorConfig, prompt: str) -> Iterable[str]:
    if evaluator.model is None:
        yield "a judge prompt needs a model; add model"
    if "{response}" not in prompt:
        yield "the judge prompt lacks the answer; add {response} to it"


def _evaluations(evaluator: EvaluatorConfig, evidence: EvaluatorEvidence) -> Iterable[Evaluation]:
    for name in sorted(EVALUATORS.names()):
        criterion = EVALUATORS.get(name)
        for item in criterion.select(evaluator):
            result = _run_evaluator(name, criterion, item, evidence)
            yield Evaluation(
                type=name,
                passed=result.passed,
                reason=result.reason,
                expected=format_expected(item),
                actual=evidence.response[:MAX_QUOTED_CHARS],
                score=result.score,
            )


def _run_evaluator(
    name: str, criterion: Evaluator, item: JsonValue, evidence: EvaluatorEvidence
) -> EvaluatorResult:
    try:
        return criterion.evaluate(item, evidence)
    except JudgeError:
        raise
    except Exception as error:  # noqa: BLE001 - a plugin failed: an error of its task, not of the run
        reason = f"{type(error).__name__}: {error}"[:300]
        raise JudgeError(f"the evaluator {name} failed: {reason}") from None


def format_expected(item: JsonValue) -> str:
    """An expected value for reports: text unchanged, anything else as JSON."""
    return item if isinstance(item, str) else json.dumps(item, ensure_ascii=False)


def _missing_error(evidence: EvaluatorEvidence) -> Evaluation:
    return Evaluation(
        type="expect_error",
        passed=False,
        reason="an error was expected, but none occurred",
        actual=evidence.response[:MAX_QUOTED_CHARS],
    )


def _any_error(evidence: EvaluatorEvidence) -> Evaluation:
    """The evaluation of `expect_error` without other expectations."""
    return Evaluation(
        type="expect_error", passed=True, reason="an error occurred", actual=evidence.error
    )


def _ignore_plugin(_: LoadedPlugin) -> None:
    """Ignore a plugin that cannot be loaded; `mosaico plugins` lists it."""


def load_evaluators(warn: Callable[[LoadedPlugin], None] = _ignore_plugin) -> None:
    """Register the built-in evaluators and those of other distributions, once per process."""
    EVALUATORS.load("mosaico.harness.mcp.evaluators", warn)
