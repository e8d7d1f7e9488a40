"""Evaluator `judge`: a model scores the answer; `min_score` decides between pass and fail."""

from typing import Any

from pydantic import JsonValue

from mosaico.harness.judge import JudgeError, read_score
from mosaico.harness.mcp.config import EvaluatorConfig
from mosaico.harness.mcp.evaluator_registry import (
    EVALUATORS,
    Evaluator,
    EvaluatorEvidence,
    EvaluatorResult,
)


def select_judge(evaluator: EvaluatorConfig) -> list[JsonValue]:
    if evaluator.prompt is None:
        return []
    return [{"scale": evaluator.scale, "min_score": evaluator.min_score}]


def check_score(expected: JsonValue, evidence: EvaluatorEvidence) -> EvaluatorResult:
    settings: Any = expected
    if evidence.judge_answer is None:
        raise JudgeError("no judge was called")
    judge_score = read_score(evidence.judge_answer, settings["scale"])
    min_score = settings["min_score"]
    return EvaluatorResult(
        None if min_score is None else judge_score.score >= min_score,
        f"{judge_score.score:g} of {settings['scale']}: {judge_score.reason}",
        score=judge_score.score / settings["scale"],
    )


EVALUATORS.register(
    "judge",
    Evaluator(
        summary="a model scores the answer; it passes from min_score on",
        select=select_judge,
        evaluate=check_score,
    ),
)
