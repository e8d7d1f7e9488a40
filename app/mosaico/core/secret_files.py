"""Files that only their owner may read: the master key, the first admin key."""

import os
import secrets
import stat
from pathlib import Path

from mosaico.core.errors import Misconfigured

# The first admin key, in the data folder.
ADMIN_KEY_FILE = "admin.key"
MAX_BYTES = 4096
OTHER_USERS = stat.S_IRWXG | stat.S_IRWXO
# Kubernetes gives the group of a non-root process read access to a mounted secret.
OTHER_USERS_OF_MOUNT = OTHER_USERS & ~stat.S_IRGRP


class UnsafeSecretFile(Misconfigured):
    """A secret file has no key, or other users can access it; correct the file as described in the
    message.
    """


def read_secret_file(path: Path, *, mounted: bool = False) -> str | None:
    """The stripped text of the file; None when the file does not exist.

    The group may read a `mounted` file, which the platform provides.

    Raises: `UnsafeSecretFile` when other users have access to it, or when it cannot be read.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unusable_error(path, error) from error
    try:
        # Checked on the open descriptor: the file at the path could be exchanged in between.
        _reject_unsafe(
            path, os.fstat(descriptor).st_mode, OTHER_USERS_OF_MOUNT if mounted else OTHER_USERS
        )
        return os.read(descriptor, MAX_BYTES).decode("ascii").strip()
    except (OSError, UnicodeDecodeError):
        raise UnsafeSecretFile(
            f"{path} does not contain a key; delete it, and a new one is created at the next start"
        ) from None
    finally:
        os.close(descriptor)


def create_secret_file(path: Path, text: str) -> str:
    """Create the file unless it exists; returns the text of the file.

    When several processes do this at once, one of them creates the file and all return its text.
    """
    draft = _write_draft(path, text)
    # A hard link fails if the path exists: the first process wins, and no reader sees half a file.
    try:
        os.link(draft, path)
    except FileExistsError:
        pass
    except OSError as error:
        raise _unusable_error(path, error) from error
    finally:
        draft.unlink()
    sync_folder(path.parent)
    return read_secret_file(path) or text


def replace_secret_file(path: Path, text: str) -> None:
    """Write the file, or replace it atomically."""
    draft = _write_draft(path, text)
    try:
        draft.replace(path)
    except OSError as error:
        draft.unlink()
        raise _unusable_error(path, error) from error
    sync_folder(path.parent)


def _write_draft(path: Path, text: str) -> Path:
    # Beside the target, because links and atomic renames need the same file system.
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise _unusable_error(path, error) from error
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(f"{text}\n")
            file.flush()
            os.fsync(descriptor)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise _unusable_error(path, error) from error
    return draft


def _reject_unsafe(path: Path, mode: int, forbidden_bits: int) -> None:
    if not stat.S_ISREG(mode):
        raise UnsafeSecretFile(
            f"{path} is not a regular file; move it away, and a key is created there at the next start"
        )
    if mode & forbidden_bits:
        raise UnsafeSecretFile(
            f"{path} is accessible to other users of this machine (mode {stat.S_IMODE(mode):04o});"
            f" run `chmod 600 {path}`, and replace the key if another user may have read it"
        )


def sync_folder(folder: Path) -> None:
    """Make the names of the files in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _unusable_error(path: Path, error: OSError) -> UnsafeSecretFile:
    return UnsafeSecretFile(
        f"{path} cannot be used: {error.strerror}; let this user read and write its folder,"
        " or set MOSAICO_DATA_DIR to another folder"
    )
