"""A model's score of the answer, from 0 to 1 or to 100; `min_score` makes it a pass or a fail."""

from typing import Any

from pydantic import JsonValue

from app.harness.judge import JudgeError, read_score
from app.harness.mcp.config import Evaluator
from app.harness.mcp.evaluating import EVALUATORS, Criterion, Evidence, Found


def judged(evaluator: Evaluator) -> list[JsonValue]:
    if evaluator.prompt is None:
        return []
    return [{"scale": evaluator.scale, "min_score": evaluator.min_score}]


def score(wanted: JsonValue, evidence: Evidence) -> Found:
    asked: Any = wanted
    if evidence.judge_answer is None:
        raise JudgeError("the judge was not asked")
    found = read_score(evidence.judge_answer, asked["scale"])
    least = asked["min_score"]
    return Found(
        None if least is None else found.score >= least,
        f"{found.score:g} of {asked['scale']}: {found.reason}",
        score=found.score / asked["scale"],
    )


EVALUATORS.register(
    "judge",
    Criterion(
        summary="a model scores the answer; with min_score that is a pass or a fail",
        wanted=judged,
        find=score,
    ),
)
