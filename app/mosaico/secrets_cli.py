"""`mosaico secrets`: the master keys of stored secrets, key rotation and lost keys."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from mosaico.core.console.table import field, print_page
from mosaico.core.console.terminal import (
    EXIT_UNSUCCESSFUL,
    CommandGroup,
    Format,
    OutputFormat,
    Yes,
    confirm,
    print_status,
    print_warning,
)
from mosaico.core.errors import Conflict

if TYPE_CHECKING:
    from mosaico.core.db import Database
    from mosaico.core.encryption import SecretBox
    from mosaico.core.key_rotation import EncryptedColumn

cli = CommandGroup("secrets", help="Manage the master keys that encrypt stored secrets.")


class SecretStore(NamedTuple):
    """The database, the master keys, and every column whose values are encrypted."""

    db: "Database"
    box: "SecretBox"
    columns: "list[EncryptedColumn]"


@cli.command("status")
def status(output: Format = OutputFormat.TABLE) -> None:
    """Show which master key encrypts how many secrets. Needs the database, but no server.

    Exit codes: 0 all secrets can be decrypted, 3 a master key is missing.
    """
    from mosaico.core.key_rotation import count_key_usage

    with _open_store() as store:
        uses = count_key_usage(store.db, store.columns)
    items = [
        {
            "column": use.column,
            "key": use.key_id,
            "texts": use.text_count,
            "state": _describe_key(use.key_id, store.box),
        }
        for use in uses
    ]
    columns = [field(name) for name in ("column", "key", "texts", "state")]
    print_page({"items": items, "nextCursor": None}, columns, output)
    if any(item["state"] == "missing" for item in items):
        raise typer.Exit(EXIT_UNSUCCESSFUL)


@cli.command("rotate")
def rotate(output: Format = OutputFormat.TABLE) -> None:
    """Encrypt every stored secret with MOSAICO_MASTER_KEY, while the service runs.

    Exit codes: 0 no previous key is needed any more, 3 some secrets still need one.
    """
    from mosaico.core.key_rotation import rotate_keys

    with _open_store() as store:
        rotations = rotate_keys(store.db, store.columns, store.box)
    items = [
        {
            "column": rotation.column,
            "reencrypted": rotation.reencrypted,
            "remaining": rotation.remaining,
        }
        for rotation in rotations
    ]
    columns = [field(name) for name in ("column", "reencrypted", "remaining")]
    print_page({"items": items, "nextCursor": None}, columns, output)
    if any(rotation.remaining for rotation in rotations):
        print_warning(
            "some secrets are still encrypted with a previous key: see `mosaico secrets status`"
        )
        raise typer.Exit(EXIT_UNSUCCESSFUL)
    print_status(f"all secrets are encrypted with master key {store.box.encryption_key_id}")
    print_status("next: remove MOSAICO_MASTER_KEYS_OLD (and master.key) from every process")


@cli.command("drop-lost")
def drop_lost(
    *,
    key: Annotated[str, typer.Argument(metavar="KEY", help="ID of the lost master key.")],
    yes: Yes = False,
) -> None:
    """Delete the secrets that a lost master key encrypts. They have to be entered again."""
    from mosaico.core.key_rotation import drop_lost_secrets

    with _open_store() as store:
        if key in store.box.key_ids:
            raise Conflict(
                f"master key {key} is configured, so its secrets can be decrypted;"
                " `mosaico secrets rotate` encrypts them with the current key"
            )
        confirm(f"Delete every secret that master key {key} encrypts?", yes=yes)
        deleted_count = drop_lost_secrets(store.db, store.columns, key)
    print_status(f"{deleted_count} secrets are deleted")


@contextmanager
def _open_store() -> Iterator[SecretStore]:
    from mosaico.core.engine import COMMAND_TIMEOUT_FACTOR
    from mosaico.core.key_rotation import list_encrypted_columns
    from mosaico.core.settings import load_settings
    from mosaico.startup import opened_database, secret_box
    from mosaico.table_list import METADATA

    settings = load_settings()
    with opened_database(
        settings, name="mosaico-secrets", pool_size=1, timeout_factor=COMMAND_TIMEOUT_FACTOR
    ) as db:
        yield SecretStore(db, secret_box(settings), list_encrypted_columns(METADATA))


def _describe_key(key_id: str, box: "SecretBox") -> str:
    if key_id == box.encryption_key_id:
        return "current"
    return "previous" if key_id in box.key_ids else "missing"
