"""The entry points of the programs."""

import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from mosaico import programs

ROOT = Path(__file__).resolve().parents[3]

INTERRUPTED_IMPORT = """
import signal
import mosaico.programs as programs
programs.import_module = lambda _: signal.raise_signal(signal.SIGINT)
programs.{program}()
"""


@pytest.mark.parametrize("program", ["mosaico", "ot_bench", "bashkit_eval"])
def test_programs__interrupted_import_ends_without_traceback(program: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_IMPORT.format(program=program)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_programs__import_nothing_heavy_before_they_are_interruptible() -> None:
    code = (
        "import sys, mosaico.programs; print(sorted({name.split('.')[0] for name in sys.modules}))"
    )
    done = subprocess.run(
        # Without `site`, whose .pth files may import packages.
        [sys.executable, "-S", "-c", f"import sys; sys.path.insert(0, {str(ROOT / 'app')!r}); {code}"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "typer" not in done.stdout
    assert "pydantic" not in done.stdout


def test_programs__every_script_is_an_entry_point() -> None:
    scripts = {
        script.name: script.value.partition(":")[2]
        for script in entry_points(group="console_scripts")
        if script.value.startswith("mosaico.programs:")
    }
    assert scripts.keys() == {"mosaico", "ot-bench", "bashkit-eval"}
    assert all(callable(getattr(programs, function)) for function in scripts.values())
