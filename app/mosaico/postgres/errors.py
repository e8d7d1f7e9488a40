"""The errors of the embedded database, each with its remedy."""

import errno
import pwd
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mosaico.core.errors import AppError, Conflict, Forbidden, Misconfigured, Unavailable
from mosaico.core.secret_files import UnsafeSecretFile


class DatabaseNotRunning(Misconfigured):
    """The embedded database is not running; run `mosaico serve` first."""


class DatabaseHasOwner(Conflict):
    """Another process owns the embedded database; stop that process first."""


class DatabaseStartError(Unavailable):
    """The embedded database does not start; see its log files."""

    code = "database-cannot-start"


class BlockedStart(DatabaseStartError):
    """The port or the files of the embedded database are in use; end the process that uses them."""

    code = DatabaseStartError.code


class DiskFull(DatabaseStartError):
    """The disk of the data folder is full; free some space and start again."""


class PostgresBinariesMissing(DatabaseStartError):
    """The Postgres programs are missing; reinstall MOSAICO, or set DATABASE_URL."""

    code = "no-database-programs"


class FolderNotOwned(Conflict):
    """The folder contains files that MOSAICO did not create; choose another folder."""

    code = "foreign-folder"


class DataVersionMismatch(Conflict):
    """Another major version of Postgres wrote the data; load a dump, or choose another folder."""

    code = "foreign-data-version"


class WrongOwner(Forbidden):
    """The data folder belongs to another user; run as that user or choose another folder."""


class ExternalDatabase(AppError):
    """DATABASE_URL names an external server; start or stop it with its own tools."""

    status = 409
    exit_code = 64


def user_name(uid: int) -> str:
    """`alice (uid 1000)`, or the number alone for an unknown user."""
    try:
        return f"{pwd.getpwuid(uid).pw_name} (uid {uid})"
    except KeyError:
        return f"uid {uid}"


@contextmanager
def translate_os_errors(path: Path) -> Iterator[None]:
    """Translate operating system errors about a folder into errors with a remedy."""
    try:
        yield
    except UnsafeSecretFile as error:
        if isinstance(error.__cause__, OSError):
            raise _translate_os_error(error.__cause__, path) from error
        raise
    except OSError as error:
        raise _translate_os_error(error, path) from error


def _translate_os_error(error: OSError, path: Path) -> AppError:
    what = f"{error.filename or path}: {error.strerror}"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DiskFull(f"the disk is full ({what}); free some space and start again")
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return WrongOwner(
            f"this user has no access to the data folder ({what}); run as its owner, or set"
            " MOSAICO_DATA_DIR to a writable folder"
        )
    if error.errno in (errno.ENOTDIR, errno.EEXIST):
        return FolderNotOwned(
            f"the data folder cannot be created because a file has its name ({what}); set"
            " MOSAICO_DATA_DIR to another folder"
        )
    return DatabaseStartError(f"the data folder {path} cannot be used ({what})")
