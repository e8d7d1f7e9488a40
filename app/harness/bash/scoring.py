"""From what happened to a score: every expectation of a task, asked of the evidence."""

from app.harness.bash.checking import Evidence, run_check
from app.harness.bash.types import EvalTask, TaskScore


def score_task(task: EvalTask, evidence: Evidence) -> TaskScore:
    """What was met of a task; a check may have taken its own weight away."""
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
