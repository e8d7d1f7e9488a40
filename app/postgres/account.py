"""The account that the server runs as: Postgres refuses to be root."""

import os
import pwd
import stat
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from app.postgres.errors import CannotStart, WrongOwner, user_name

PREFERRED = ("mosaico", "nobody")
NO_UID = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """An unprivileged user of the system, known by its numbers."""

    uid: int
    gid: int

    def own(self, path: Path) -> None:
        """Give this account a file or folder that we made."""
        os.chown(path, self.uid, NO_UID)


def server_account(cluster: Path) -> Account | None:
    """Whom the server of a cluster runs as; None for the caller itself.

    Root hands over to the owner of an existing cluster; a new one goes to the account `mosaico`
    where the system has it, else to `nobody`.
    """
    if os.geteuid() != 0:
        if not cluster.exists():
            _check_named(os.geteuid())
        return None
    if cluster.exists():
        return _owner(cluster)
    for name in PREFERRED:
        try:
            known = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(uid=known.pw_uid, gid=known.pw_gid)
    raise CannotStart(
        "Postgres does not run as root, and this system has no account `mosaico` or `nobody`;"
        " create one, run MOSAICO as an ordinary user, or set DATABASE_URL"
    )


def check_owner(path: Path) -> None:
    """Raise `WrongOwner` unless the folder belongs to the caller."""
    owner = path.stat().st_uid
    if owner != os.geteuid():
        raise WrongOwner(
            f"{path} belongs to {user_name(owner)}, and this is {user_name(os.geteuid())};"
            " run as that user, or set MOSAICO_DATA_DIR to a folder of your own"
        )


def can_enter(path: Path, account: Account) -> bool:
    """Whether the modes of a folder and of all above it let the account in."""
    return all(_lets_in(folder, account) for folder in (path, *path.parents))


def run_as(
    account: Account | None,
    command: Sequence[str | Path],
    *,
    cwd: Path,
    pass_fds: Sequence[int] = (),
) -> subprocess.CompletedProcess[str]:
    """Run a program of Postgres to its end, apart from our terminal and our environment.

    The working folder is entered before the rights are dropped, so it may lie below folders
    that the account cannot enter.
    """
    return subprocess.run(  # noqa: S603 - programs of the package, arguments of our own
        [str(part) for part in command],
        cwd=cwd,
        user=account.uid if account else None,
        group=account.gid if account else None,
        extra_groups=() if account else None,
        pass_fds=pass_fds,
        env={"PATH": os.defpath, "LC_ALL": "C"},
        umask=0o077,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        start_new_session=True,
        check=False,
    )


def _owner(cluster: Path) -> Account:
    found = cluster.stat()
    if found.st_uid == 0:
        raise WrongOwner(
            f"{cluster} belongs to root, and Postgres does not run as root; give it back to the"
            f" account it had, for example `chown -R nobody {cluster}`"
        )
    try:
        gid = pwd.getpwuid(found.st_uid).pw_gid
    except KeyError:
        gid = found.st_gid
    return Account(uid=found.st_uid, gid=gid)


def _check_named(uid: int) -> None:
    try:
        pwd.getpwuid(uid)
    except KeyError:
        raise CannotStart(
            f"this user (uid {uid}) has no entry among the users of the system, and Postgres makes"
            f" no database for it; add one (`useradd --uid {uid} mosaico`), run as another user,"
            " or set DATABASE_URL"
        ) from None


def _lets_in(folder: Path, account: Account) -> bool:
    found = folder.stat()
    if found.st_uid == account.uid:
        return bool(found.st_mode & stat.S_IXUSR)
    if found.st_gid == account.gid:
        return bool(found.st_mode & stat.S_IXGRP)
    return bool(found.st_mode & stat.S_IXOTH)
