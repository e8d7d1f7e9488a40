"""The judgement of a model; without a judge the check passes and has no weight."""

from app.harness.bash.check_registry import CHECKS, Check, CheckEvidence, CheckResult

PASS_MARK = 0.5
STUB = "llm_judge not implemented (stub, weight=0)"


def llm_judge(question: str, evidence: CheckEvidence) -> CheckResult:
    judgement = evidence.judgements.get(question)
    if judgement is None:
        return CheckResult(True, STUB, weight=0.0)
    passed = judgement.score >= PASS_MARK
    detail = f"judged {judgement.score:.2f}: {judgement.reason}"
    return CheckResult(passed, detail, judgement=judgement)


CHECKS.register(
    "llm_judge",
    Check(summary="a judge model scores this question 0.5 or more", evaluate=llm_judge),
)
