"""The programs `bashkit-eval` and `ot-bench` beside `mosaico`: their version and what they need."""

import subprocess
import sys
from importlib.metadata import version

import pytest

from tests.support.waiting import LIVENESS_S

PROGRAMS = {
    "bashkit-eval": "mosaico.harness.bash.cli",
    "ot-bench": "mosaico.harness.mcp.cli.ot_bench",
}


def run(module: str, *words: str, missing: str = "") -> "subprocess.CompletedProcess[str]":
    """Run the program of a module, as if a package were not installed."""
    program = (
        f"import mosaico.core.extras as extras; installed = extras._is_installed\n"
        f"extras._is_installed = lambda module: module != {missing!r} and installed(module)\n"
        f"from {module} import main; main()"
    )
    return subprocess.run(
        [sys.executable, "-c", program, *words],
        capture_output=True, text=True, check=False, timeout=LIVENESS_S,
    )  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS)
def test_program__version_names_the_command_that_installs_what_is_missing(program: str) -> None:
    shown = run(PROGRAMS[program], "--version", "run", missing="questionary")
    assert shown.returncode == 0
    assert shown.stdout.startswith(f"{program} of mosaico {version('mosaico')}")
    assert f"mosaico[harness]=={version('mosaico')}" in shown.stderr


def test_program__help_has_the_version_and_the_text_of_the_group() -> None:
    shown = run(PROGRAMS["ot-bench"], "--help")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "--version" in shown.stdout
    assert "Evaluate models and MCP servers" in shown.stdout
    wrong = run(PROGRAMS["ot-bench"], "nothing")
    assert wrong.returncode == 2
    assert wrong.stderr.startswith("error: ")
