"""Processes that answer requests or parse command lines load neither numpy nor scipy."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize("module", ["app.main", "app.worker", "app.gate.cli", "app.gate.rules"])
def test_process__does_not_import_numerical_libraries(module: str) -> None:
    program = f"import sys, {module}; print(*sys.modules)"
    completed = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    packages = {name.partition(".")[0] for name in completed.stdout.split()}
    assert not packages & {"numpy", "scipy"}
