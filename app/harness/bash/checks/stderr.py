"""What calls printed on standard error."""

from app.harness.bash.checking import CHECKS, Check, CheckEvidence, CheckResult

SHOWN = 100  # characters


def stderr_empty(_: str, evidence: CheckEvidence) -> CheckResult:
    said = next((call.stderr for call in evidence.calls if call.stderr), None)
    return (
        CheckResult(True, "all stderr empty")
        if said is None
        else CheckResult(False, f"stderr: {said[:SHOWN]}")
    )


CHECKS.register(
    "stderr_empty", Check(summary="no call printed on standard error", find=stderr_empty)
)
