"""The entry points of the programs."""

import os
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

# Its `main` asks a child of the pool.
PROGRAM_WITH_CHILD = """
import posixpath, sys, types
from mosaico import programs

def main():
    from mosaico.jobs.process_pool import ProcessPool
    pool = ProcessPool(1, warm_up=dict)
    print(sys.argv[1:], pool.run(posixpath.basename, "folder/file", timeout_s=60))
    pool.close()

if __name__ == "__main__":
    programs.import_module = lambda _: types.SimpleNamespace(main=main)
    programs.mosaico()
"""
WITHOUT_SAFE_PATH = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}


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


@pytest.fixture
def folder_of_namesakes(tmp_path: Path) -> Path:
    """A folder with files that have the names of modules of the standard library."""
    for name in ("queue", "socket", "pickle", "signal", "enum"):
        (tmp_path / f"{name}.py").write_text(
            "raise SystemExit('a file of the folder was imported')"
        )
    return tmp_path


def test_programs__start_children_that_ignore_the_current_folder(folder_of_namesakes: Path) -> None:
    """A child of `multiprocessing` imports the standard library, not files of its names."""
    script = folder_of_namesakes / "bin" / "program"
    script.parent.mkdir()
    script.write_text(PROGRAM_WITH_CHILD)
    done = subprocess.run(
        [sys.executable, script, "worker"],
        cwd=folder_of_namesakes, env=WITHOUT_SAFE_PATH, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "['worker'] file\n", "")


def test_programs__module_ignores_the_current_folder(folder_of_namesakes: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mosaico", "--help"],
        cwd=folder_of_namesakes, env=WITHOUT_SAFE_PATH, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
