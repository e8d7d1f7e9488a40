"""From what happened to a score: every expectation of a task, asked of the evidence."""

from dataclasses import replace

from app.harness.bash.checking import CheckError, CheckEvidence, run_check
from app.harness.bash.types import EvalResult, EvalTask, TaskScore
from app.harness.results import AttemptOutcome


def scored(result: EvalResult, evidence: CheckEvidence) -> EvalResult:
    """An attempt with its score; one whose checks cannot tell has none, and says why."""
    try:
        return replace(result, score=score_task(result.task, evidence))
    except CheckError as error:
        return replace(result, score=None, outcome=AttemptOutcome.JUDGE_ERROR, reason=str(error))


def score_task(task: EvalTask, evidence: CheckEvidence) -> TaskScore:
    """What was met of a task; a check may have taken its own weight away. Raises CheckBroke."""
    results = tuple(
        run_check(expectation.check, expectation.weight, evidence)
        for expectation in task.expectations
    )
    return TaskScore(
        task_id=task.id,
        results=results,
        score=sum(result.weight for result in results if result.passed),
        max_score=sum(result.weight for result in results),
    )
