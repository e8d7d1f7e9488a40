"""The judge_score of a model; without a judge the check passes and has no weight."""

from mosaico.harness.bash.check_registry import CHECKS, Check, CheckEvidence, CheckResult

PASS_MARK = 0.5
STUB = "llm_judge not implemented (stub, weight=0)"


def llm_judge(question: str, evidence: CheckEvidence) -> CheckResult:
    judge_score = evidence.judge_scores.get(question)
    if judge_score is None:
        return CheckResult(True, STUB, weight=0.0)
    passed = judge_score.score >= PASS_MARK
    detail = f"judged {judge_score.score:.2f}: {judge_score.reason}"
    return CheckResult(passed, detail, judge_score=judge_score)


CHECKS.register(
    "llm_judge",
    Check(summary="a judge model scores this question 0.5 or more", evaluate=llm_judge),
)
