"""`make install`: what it prints while pip works, and that a failure of pip is one of `make`."""

import subprocess
from pathlib import Path

import pytest

from tests.support.processes import LIVENESS_S, ROOT

# Of pip 23 and 26: packages of an index, of the cache, small ones, and the last step.
PRINTED = r"""
Collecting numpy==2.4.6
  Downloading numpy-2.4.6-cp311-cp311-manylinux_2_27_x86_64.whl (16.4 MB)
     ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━ 16.4/16.4 MB 88.6 MB/s eta 0:00:00
  Using cached scipy-1.17.1-cp311-cp311-manylinux_2_27_x86_64.whl (35.3 MB)
  Downloading idna-3.20-py3-none-any.whl (71 kB)
  Downloading sqlalchemy-2.1.9-cp311-cp311-manylinux_2_17_x86_64.whl.metadata (9.5 kB)
Requirement already satisfied: rich==15.0.0
Installing collected packages: numpy, scipy, idna
Successfully installed idna-3.20 numpy-2.4.6 scipy-1.17.1
"""


def make(folder: Path, pip: str) -> subprocess.CompletedProcess[str]:
    """The target of `make install` with another program instead of pip, for an environment in `folder`."""
    (folder / "build").mkdir()
    return subprocess.run(
        # Inside of `make test`, too, make says nothing of folders.
        ["make", "--no-print-directory", f"{folder}/.runtime", f"VENV={folder}", "PYTHON=true", f"PIP={pip}"],
        cwd=ROOT, check=False, capture_output=True, text=True, timeout=LIVENESS_S,
    )  # fmt: skip


def test_install__prints_the_large_packages_and_the_last_step(tmp_path: Path) -> None:
    pip = tmp_path / "pip"
    pip.write_text(f"#!/bin/sh\ncase $* in *requirements.lock) cat <<'END'\n{PRINTED}\nEND\nesac\n")
    pip.chmod(0o755)
    done = make(tmp_path, str(pip))
    assert done.returncode == 0, done.stderr
    announced, *steps = done.stdout.splitlines()
    assert str(tmp_path) in announced
    assert [line.split()[0].partition("-")[0] for line in steps] == ["numpy", "scipy", "unpacking"]
    assert "(35.3 MB)" in steps[1]
    assert (tmp_path / ".runtime").exists()


@pytest.mark.parametrize("failing", ["requirements.lock", "requirements-build.lock", "--editable"])
def test_install__fails_with_pip_and_starts_again_next_time(tmp_path: Path, failing: str) -> None:
    pip = tmp_path / "pip"
    pip.write_text(f'#!/bin/sh\ncase " $* " in *" {failing} "*) exit 1; esac\n')
    pip.chmod(0o755)
    assert make(tmp_path, str(pip)).returncode != 0
    assert not (tmp_path / ".runtime").exists()
