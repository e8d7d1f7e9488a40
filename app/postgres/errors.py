"""What can be wrong with the embedded database, each with what to do about it."""

import errno
import pwd
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from app.core.errors import AppError, Conflict, Forbidden, Unavailable
from app.core.secret_files import UnsafeSecretFile


class NotRunning(Unavailable):
    """The embedded database is not running; start it with `mosaico db start` or `mosaico serve`."""

    code = "database-not-running"


class CannotStart(Unavailable):
    """The embedded database does not start; its log tells why."""

    code = "database-cannot-start"


class DiskFull(CannotStart):
    """The disk of the data folder is full; free some space and start again."""

    code = "disk-full"


class NoBinaries(CannotStart):
    """The Postgres programs are missing; install MOSAICO again, or set DATABASE_URL."""

    code = "no-database-programs"


class ForeignFolder(Conflict):
    """The folder holds something that MOSAICO did not put there; choose another one."""

    code = "foreign-folder"


class ForeignVersion(Conflict):
    """The data was written by another major version of Postgres."""

    code = "foreign-data-version"


class WrongOwner(Forbidden):
    """The data folder belongs to another user; run as that user or choose another folder."""

    code = "wrong-owner"


class ExternalDatabase(AppError):
    """DATABASE_URL names an external server, which MOSAICO neither starts nor stops."""

    code = "external-database"
    status = 409
    exit_code = 64


def user_name(uid: int) -> str:
    """`alice (uid 1000)`, or the number alone when the system knows no such user."""
    try:
        return f"{pwd.getpwuid(uid).pw_name} (uid {uid})"
    except KeyError:
        return f"uid {uid}"


@contextmanager
def clear_os_errors(path: Path) -> Iterator[None]:
    """Turn what the system says about a folder into an error that names the remedy."""
    try:
        yield
    except UnsafeSecretFile as error:
        if isinstance(error.__cause__, OSError):
            raise _explain(error.__cause__, path) from error
        raise
    except OSError as error:
        raise _explain(error, path) from error


def _explain(error: OSError, path: Path) -> AppError:
    what = f"{error.filename or path}: {error.strerror}"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DiskFull(f"the disk is full ({what}); free some space and start again")
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return WrongOwner(
            f"this user may not use the data folder ({what}); run as its owner, or set"
            " MOSAICO_DATA_DIR to a folder that you may write"
        )
    if error.errno in (errno.ENOTDIR, errno.EEXIST):
        return ForeignFolder(
            f"the data folder cannot be made, a file is in its place ({what}); set"
            " MOSAICO_DATA_DIR to another folder"
        )
    return CannotStart(f"the data folder {path} cannot be used ({what})")
