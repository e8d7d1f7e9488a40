"""What a process loads: none loads numpy or scipy to answer or to parse, only the API loads FastAPI."""

import subprocess
import sys

import pytest

NUMERICAL = {"numpy", "scipy"}
SANDBOX = {"bashkit"}
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


def test_plugins__do_not_load_the_sandbox_into_processes_that_run_no_agent() -> None:
    program = "import sys, app.main; from app.plugins import load_plugins; load_plugins()"
    assert not _packages(f"{program}; print(*sys.modules)") & SANDBOX


def test_comparison__does_not_load_all_of_scipy() -> None:
    """`scipy.stats` takes half a second of CPU and 40 MiB in each metric process."""
    program = (
        "import sys; from app.comparison.child_computation import compute;"
        " from app.statistics.multiplicity import benjamini_hochberg; benjamini_hochberg([0.1]);"
        " print(*sys.modules)"
    )
    assert "scipy.stats" not in _modules(program)


def _packages_after_import(module: str) -> set[str]:
    return _packages(f"import sys, {module}; print(*sys.modules)")


def _packages(program: str) -> set[str]:
    return {name.partition(".")[0] for name in _modules(program)}


def _modules(program: str) -> set[str]:
    completed = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    return {*completed.stdout.split()}
