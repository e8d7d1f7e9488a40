"""The standard error of the calls."""

from app.harness.bash.check_registry import CHECKS, Check, CheckEvidence, CheckResult

SHOWN = 100  # characters


def stderr_empty(_: str, evidence: CheckEvidence) -> CheckResult:
    first_text = next((call.stderr for call in evidence.calls if call.stderr), None)
    if first_text is None:
        return CheckResult(True, "all stderr empty")
    return CheckResult(False, f"stderr: {first_text[:SHOWN]}")


CHECKS.register(
    "stderr_empty", Check(summary="no call wrote to standard error", evaluate=stderr_empty)
)
