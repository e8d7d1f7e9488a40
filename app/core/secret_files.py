"""Small files that only their owner may read: the master key, the first admin key."""

import os
import secrets
import stat
from pathlib import Path

from app.core.errors import AppError

MOST_BYTES = 4096
OTHERS = stat.S_IRWXG | stat.S_IRWXO
# Kubernetes gives a mounted secret to the group of a process that is not root.
OTHERS_OF_A_MOUNT = OTHERS & ~stat.S_IRGRP


class UnsafeSecretFile(AppError):
    """A file with a secret cannot be trusted or used; its owner alone may read it (mode 0600)."""

    code = "unsafe-secret-file"
    exit_code = 78


def read_secret_file(path: Path, *, mounted: bool = False) -> str | None:
    """The text of the file without the space around it; None when there is no such file.

    Its group may read it when it is `mounted`, put there by whoever runs the machine.

    Raises: `UnsafeSecretFile` when others may read or change it, or when it cannot be read.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unusable(path, error) from error
    try:
        _refuse_unsafe(path, os.fstat(descriptor).st_mode, OTHERS_OF_A_MOUNT if mounted else OTHERS)
        return os.read(descriptor, MOST_BYTES).decode("ascii").strip()
    except (OSError, UnicodeDecodeError):
        raise UnsafeSecretFile(
            f"{path} does not hold a key; delete it to have a new one made"
        ) from None
    finally:
        os.close(descriptor)


def create_secret_file(path: Path, text: str) -> str:
    """Write the file unless there is one; the text that stands in it afterwards.

    Of several processes at once one wins, and all of them return the winner's text.
    """
    draft = _draft(path, text)
    try:
        os.link(draft, path)
    except FileExistsError:
        pass
    except OSError as error:
        raise _unusable(path, error) from error
    finally:
        draft.unlink()
    _sync_folder(path)
    return read_secret_file(path) or text


def replace_secret_file(path: Path, text: str) -> None:
    """Write the file at once, whole, over any earlier one."""
    draft = _draft(path, text)
    try:
        draft.replace(path)
    except OSError as error:
        draft.unlink()
        raise _unusable(path, error) from error
    _sync_folder(path)


def _draft(path: Path, text: str) -> Path:
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise _unusable(path, error) from error
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(f"{text}\n")
            file.flush()
            os.fsync(descriptor)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise _unusable(path, error) from error
    return draft


def _refuse_unsafe(path: Path, mode: int, others: int) -> None:
    if not stat.S_ISREG(mode):
        raise UnsafeSecretFile(f"{path} is not a file; move it away to have a key made there")
    if mode & others:
        raise UnsafeSecretFile(
            f"{path} is open to other users of this machine (mode {stat.S_IMODE(mode):04o});"
            f" run `chmod 600 {path}`, and replace the key if somebody may have read it"
        )


def _sync_folder(path: Path) -> None:
    descriptor = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _unusable(path: Path, error: OSError) -> UnsafeSecretFile:
    return UnsafeSecretFile(
        f"{path} cannot be used: {error.strerror}; let this user read and write its folder,"
        " or name another one in MOSAICO_DATA_DIR"
    )
