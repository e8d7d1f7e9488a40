"""What a process loads: none loads numpy or scipy to answer or to parse, only the API loads FastAPI."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize("module", ["app.main", "app.worker", "app.gate.cli", "app.gate.rules"])
def test_process__does_not_import_numerical_libraries(module: str) -> None:
    assert not _packages_after_import(module) & {"numpy", "scipy"}


@pytest.mark.parametrize("module", ["app.serve", "app.worker", "app.scheduler"])
def test_process__that_answers_no_requests_does_not_import_fastapi(module: str) -> None:
    assert not _packages_after_import(module) & {"fastapi", "starlette"}


def _packages_after_import(module: str) -> set[str]:
    program = f"import sys, {module}; print(*sys.modules)"
    completed = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    return {name.partition(".")[0] for name in completed.stdout.split()}
