"""`mosaico backup` and `mosaico restore`: the whole database as one file, and a database from such a file."""

import os
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mosaico.core.console.table import print_details
from mosaico.core.console.terminal import (
    CommandGroup,
    Format,
    OutputFormat,
    print_json,
    print_status,
    print_warning,
)

if TYPE_CHECKING:
    from mosaico.backups.archive import Manifest
    from mosaico.core.settings import Settings

backup_cli = CommandGroup("backup", help="Write the whole database as one file.")
restore_cli = CommandGroup("restore", help="Fill an empty database from a backup.")


@backup_cli.command("backup")
def backup(
    *,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="File to write.")],
    output: Format = OutputFormat.TABLE,
) -> None:
    """Write the whole database as one file, as of one moment, while the service runs.

    The file contains all texts and the encrypted secrets, but no master key: keep a copy of the key elsewhere. It is
    complete or absent; an existing file is replaced. Needs the database, but no server.
    """
    # Heavy, as in every command.
    from mosaico.backups.snapshot import write_backup
    from mosaico.core.console.files import UnwritableOutput, replaced_file, require_file
    from mosaico.core.key_rotation import list_encrypted_columns
    from mosaico.core.secret_files import sync_folder
    from mosaico.core.settings import load_settings
    from mosaico.startup import reachable_database
    from mosaico.table_list import METADATA

    settings = load_settings()
    require_file(file)
    if file.exists() and not file.is_file():
        raise UnwritableOutput(f"{file} is no ordinary file", hint="name a file")
    with reachable_database(settings, create=False) as url, replaced_file(file) as draft:
        _require_schema(url)
        # Before the first row: the file has the texts of all traces.
        draft.chmod(0o600)
        encrypted = list_encrypted_columns(METADATA)
        manifest, foreign = write_backup(url, draft, METADATA.tables, encrypted)
        _sync(draft)
    sync_folder(file.resolve().parent)
    if foreign:
        print_warning(f"tables of other programs are left out: {', '.join(foreign)}")
    _print_manifest(manifest, file, output)
    if manifest.master_keys:
        print_status(
            f"the secrets in {file} can only be read with master key {' and '.join(manifest.master_keys)}, which is not"
            f" in it; keep a copy of {_key_place(settings)} elsewhere"
        )


@restore_cli.command("restore")
def restore(
    *,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="File that `mosaico backup` wrote.")],
    check: Annotated[
        bool,
        typer.Option("--check", help="Read the whole file and compare the keys; change nothing."),
    ] = False,
    without_key: Annotated[
        bool,
        typer.Option(
            "--without-key",
            help="Restore although the master key of its secrets is missing; they have to be entered again.",
        ),
    ] = False,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Fill an empty database from a backup, and upgrade it to the schema of this program.

    The database is complete afterwards, or unchanged. The embedded one is created, in a new data folder. Refuses a
    database with tables of MOSAICO, a damaged file, and another master key than that of the stored secrets.
    """
    # As above.
    from mosaico.backups.archive import open_backup
    from mosaico.backups.restore import restore_backup
    from mosaico.core.migrations import require_migrations_to
    from mosaico.core.settings import load_settings
    from mosaico.startup import reachable_database
    from mosaico.table_list import METADATA

    settings = load_settings()
    with open_backup(file) as archive:
        require_migrations_to(archive.manifest.revision)
        archive.verify()
        missing = _missing_keys(settings, archive.manifest.master_keys)
        _require_keys(settings, missing, without_key=without_key)
        if not check:
            with reachable_database(settings, create=True) as url:
                restore_backup(url, archive, METADATA.tables)
        _print_manifest(archive.manifest, file, output)
    if check:
        print_status("the backup is complete; nothing was changed")
        return
    print_status("the database is restored; start the service with `mosaico serve`")
    for key in missing:
        print_warning(
            f"its secrets of master key {key} are lost: run `mosaico secrets drop-lost {key}`, and enter them again"
        )


def _require_schema(url: str) -> None:
    """Refuse a database without our tables, and one of a newer version, whose tables we do not know."""
    from mosaico.core.errors import Conflict
    from mosaico.core.migrations import (
        current_revision,
        require_migrations_to,
        same_as_released,
    )

    revision = current_revision(url)
    if revision is None:
        raise Conflict(
            "the database has no tables of MOSAICO, so there is nothing to back up; name another one in DATABASE_URL or"
            " MOSAICO_DATA_DIR"
        )
    require_migrations_to(same_as_released(revision))


def _missing_keys(settings: "Settings", needed: Collection[str]) -> list[str]:
    """The IDs of these master keys that are not at hand."""
    from mosaico.startup import key_at_hand

    box = key_at_hand(settings)
    return [key for key in needed if box is None or key not in box.key_ids]


def _require_keys(settings: "Settings", missing: list[str], *, without_key: bool) -> None:
    from mosaico.core.encryption import UnknownMasterKey

    if missing and not without_key:
        raise UnknownMasterKey(
            f"the secrets in this backup are encrypted with master key {' and '.join(missing)}, which is not at hand;"
            f" bring it from the service that wrote the backup, as {_key_place(settings)}, or use --without-key and"
            " enter the secrets again"
        )


def _key_place(settings: "Settings") -> str:
    """Where the master key of these settings is, or has to be."""
    from mosaico.core.encryption import MASTER_KEY_FILE

    if settings.master_key_file is not None:
        return str(settings.master_key_file)
    if settings.master_key is not None:
        return "MOSAICO_MASTER_KEY"
    if settings.database_url is not None:
        return f"MOSAICO_MASTER_KEY, or the file in MOSAICO_MASTER_KEY_FILE (of an embedded database: {MASTER_KEY_FILE})"
    return str(settings.data_dir / MASTER_KEY_FILE)


def _print_manifest(manifest: "Manifest", file: Path, output: OutputFormat) -> None:
    details: dict[str, Any] = {
        "file": str(file),
        "bytes": file.stat().st_size,
        "createdAt": manifest.created_at,
        "version": manifest.version,
        "schema": manifest.revision,
        "tables": len(manifest.tables),
        "rows": manifest.rows,
    }
    if output is OutputFormat.JSON:
        print_json({**details, "masterKeys": manifest.master_keys})
    else:
        print_details(details)


def _sync(path: Path) -> None:
    """Make the content durable, before it gets its name."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
