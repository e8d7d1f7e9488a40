"""`mosaico secrets`: which master keys stored secrets are sealed with, and sealing them anew."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from app.core.console.table import field, print_page
from app.core.console.terminal import (
    ENDED_BADLY,
    CommandGroup,
    Format,
    OutputFormat,
    Yes,
    confirm,
    print_status,
    print_warning,
)

if TYPE_CHECKING:
    from app.core.db import Database
    from app.core.encryption import SecretBox
    from app.core.key_rotation import EncryptedColumn

cli = CommandGroup("secrets", help="The master keys that stored secrets are sealed with.")


class Vault(NamedTuple):
    """What the commands work on, the same as the service does."""

    db: "Database"
    box: "SecretBox"
    columns: "list[EncryptedColumn]"


@cli.command("status")
def status(output: Format = OutputFormat.TABLE) -> None:
    """Say which master key has sealed what; needs the database and no server.

    Exit codes: 0 all of it can be opened, 3 a key is missing here.
    """
    from app.core.key_rotation import count_key_usage

    with _vault() as vault, vault.db.read() as session:
        uses = count_key_usage(session, vault.columns)
    items = [
        {
            "column": use.column,
            "key": use.key_id,
            "texts": use.text_count,
            "state": _state(use.key_id, vault.box),
        }
        for use in uses
    ]
    columns = [field(name) for name in ("column", "key", "texts", "state")]
    print_page({"items": items, "nextCursor": None}, columns, output)
    if any(item["state"] == "missing" for item in items):
        raise typer.Exit(ENDED_BADLY)


@cli.command("rotate")
def rotate(output: Format = OutputFormat.TABLE) -> None:
    """Seal every stored secret with MOSAICO_MASTER_KEY, while the service goes on.

    Exit codes: 0 no earlier key is needed any more, 3 some texts could not be sealed anew.
    """
    from app.core.key_rotation import rotate_keys as reseal

    with _vault() as vault:
        rotated = reseal(vault.db, vault.columns, vault.box)
    items = [
        {"column": done.column, "resealed": done.reencrypted, "left": done.remaining}
        for done in rotated
    ]
    columns = [field(name) for name in ("column", "resealed", "left")]
    print_page({"items": items, "nextCursor": None}, columns, output)
    if any(done.remaining for done in rotated):
        print_warning(
            "some texts are still sealed with an earlier key: see `mosaico secrets status`"
        )
        raise typer.Exit(ENDED_BADLY)
    print_status(f"everything is sealed with master key {vault.box.encryption_key_id}")
    print_status("next: remove MOSAICO_MASTER_KEYS_OLD (and master.key) from every process")


@cli.command("forget")
def forget(
    *,
    key: Annotated[str, typer.Argument(metavar="KEY", help="Id of a master key that is lost.")],
    yes: Yes = False,
) -> None:
    """Give up the secrets that a lost master key has sealed; they must be entered again."""
    from app.core.errors import Conflict
    from app.core.key_rotation import drop_lost_secrets as give_up

    with _vault() as vault:
        if key in vault.box.key_ids:
            raise Conflict(f"master key {key} is known here; `mosaico secrets rotate` keeps all")
        confirm(f"Give up every secret that master key {key} has sealed?", yes=yes)
        with vault.db.begin() as session:
            forgotten = give_up(session, vault.columns, key)
    print_status(f"{forgotten} secrets are given up")


@contextmanager
def _vault() -> Iterator[Vault]:
    from app.core.db import Database
    from app.core.key_rotation import list_encrypted_columns
    from app.core.migrations import require_current
    from app.core.settings import load_settings
    from app.startup import database_url, secret_box
    from app.tables import METADATA

    settings = load_settings()
    with database_url(settings) as url:
        require_current(url)
        db = Database(url, pool_size=1, name="mosaico-secrets")
        try:
            yield Vault(db, secret_box(settings), list_encrypted_columns(METADATA))
        finally:
            db.dispose()


def _state(key_id: str, box: "SecretBox") -> str:
    if key_id == box.encryption_key_id:
        return "seals"
    return "opens" if key_id in box.key_ids else "missing"
