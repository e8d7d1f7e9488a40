"""What a process loads: none loads numpy or scipy to answer or to parse, only the API loads FastAPI."""

import subprocess
import sys

import pytest

NUMERICAL = {"numpy", "scipy"}
WEB = {"fastapi", "starlette"}


@pytest.mark.parametrize(
    ("module", "unused"),
    [
        ("app.main", NUMERICAL),
        ("app.worker", NUMERICAL | WEB),
        ("app.serve", WEB),
        ("app.scheduler", WEB),
        ("app.gate.cli", NUMERICAL),
        ("app.gate.rules", NUMERICAL),
    ],
)
def test_process__does_not_import_what_it_does_not_use(module: str, unused: set[str]) -> None:
    assert not _packages_after_import(module) & unused


def _packages_after_import(module: str) -> set[str]:
    program = f"import sys, {module}; print(*sys.modules)"
    completed = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    return {name.partition(".")[0] for name in completed.stdout.split()}
