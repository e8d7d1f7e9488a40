"""What calls printed on standard error."""

from app.harness.bash.checking import CHECKS, Check, Evidence, Found

SHOWN = 100  # characters


def stderr_empty(_: str, evidence: Evidence) -> Found:
    said = next((call.stderr for call in evidence.calls if call.stderr), None)
    return (
        Found(True, "all stderr empty") if said is None else Found(False, f"stderr: {said[:SHOWN]}")
    )


CHECKS.register(
    "stderr_empty", Check(summary="no call printed on standard error", find=stderr_empty)
)
