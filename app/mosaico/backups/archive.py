"""The file of a backup: a ZIP archive with the rows of each table and, at its end, a manifest.

`tables/NAME.copy` contains the rows of a table in the text format of COPY, which every supported version of Postgres
reads. `manifest.json` says what made the backup, and how many rows with which checksum each table has. The directory
of a ZIP archive is at its end, so an incomplete file is no archive.
"""

import hashlib
import json
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Self

from mosaico.core.console.files import open_input
from mosaico.core.errors import AppError

FORMAT: Final = 1
MANIFEST: Final = "manifest.json"
BLOCK_BYTES: Final = 256 * 1024
# The fastest one: texts of traces get smaller by a few percent only with the others.
_COMPRESSION_LEVEL: Final = 1
_BROKEN_ZIP: Final = (zipfile.BadZipFile, EOFError, NotImplementedError, zlib.error)


class UnusableBackup(AppError):
    """The file is no complete backup of MOSAICO; use another backup."""

    status = 400
    exit_code = 65


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCopy:
    """The rows of a table: names of columns, number of rows, SHA-256 of their text."""

    name: str
    columns: tuple[str, ...]
    rows: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What a backup contains.

    `revision` is the revision of the schema, `created_at` the time of its snapshot in ISO 8601. `master_keys` gives
    the number of stored secrets by the ID of the master key that encrypts them, `sequences` the last value of each
    sequence that was used.
    """

    format: int
    version: str
    revision: str
    created_at: str
    postgres: str
    master_keys: Mapping[str, int]
    sequences: Mapping[str, int]
    tables: tuple[TableCopy, ...]

    @property
    def rows(self) -> int:
        """The number of rows of all tables."""
        return sum(table.rows for table in self.tables)


class BackupWriter:
    """Writes the members of a backup one after the other, so that no table is in memory as a whole."""

    def __init__(self, path: Path) -> None:
        self._archive = zipfile.ZipFile(
            path, "w", compression=zipfile.ZIP_DEFLATED, compresslevel=_COMPRESSION_LEVEL
        )

    def write_table(
        self, name: str, columns: tuple[str, ...], rows: Iterable[bytes | bytearray | memoryview]
    ) -> TableCopy:
        """Write the rows of a table, one line of COPY each."""
        digest, count, block = hashlib.sha256(), 0, bytearray()
        with self._archive.open(_member(name), "w", force_zip64=True) as file:
            for row in rows:
                count += 1
                block += row
                if len(block) >= BLOCK_BYTES:
                    digest.update(block)
                    file.write(block)
                    block.clear()
            digest.update(block)
            file.write(block)
        return TableCopy(name=name, columns=columns, rows=count, sha256=digest.hexdigest())

    def finish(self, manifest: Manifest) -> None:
        """Write the manifest, the last member."""
        self._archive.writestr(MANIFEST, json.dumps(asdict(manifest), indent=1))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._archive.close()


class BackupFile:
    """A backup that is open for reading."""

    def __init__(self, archive: zipfile.ZipFile, manifest: Manifest) -> None:
        self._archive = archive
        self.manifest = manifest

    def blocks(self, table: TableCopy) -> Iterator[bytes]:
        """The text of the rows of a table, block by block. Raises: `UnusableBackup` if it is damaged."""
        digest = hashlib.sha256()
        try:
            with self._archive.open(_member(table.name)) as file:
                while block := file.read(BLOCK_BYTES):
                    digest.update(block)
                    yield block
        except (*_BROKEN_ZIP, KeyError):
            raise self._damaged(table) from None
        if digest.hexdigest() != table.sha256:
            raise self._damaged(table)

    def verify(self) -> None:
        """Read every table and compare the checksums. Raises: `UnusableBackup`."""
        for table in self.manifest.tables:
            for _ in self.blocks(table):
                pass

    def _damaged(self, table: TableCopy) -> UnusableBackup:
        return UnusableBackup(
            f"the rows of {table.name} in {self._archive.filename} are damaged; use another backup"
        )


@contextmanager
def open_backup(path: Path) -> Iterator[BackupFile]:
    """Open a backup. Raises: `UnusableBackup`, `UnreadableInput`."""
    with open_input(path) as file:
        try:
            archive = zipfile.ZipFile(file)
            manifest = _parse_manifest(json.loads(archive.read(MANIFEST)))
        except (*_BROKEN_ZIP, KeyError, TypeError, ValueError):
            raise UnusableBackup(
                f"{path} is no complete backup of MOSAICO; use a file that `mosaico backup` wrote"
            ) from None
        with archive:
            yield BackupFile(archive, manifest)


def _member(table: str) -> str:
    return f"tables/{table}.copy"


def _parse_manifest(document: Any) -> Manifest:
    """Raises: `UnusableBackup` for a format of another version; `KeyError`, `TypeError` or `ValueError` if it is none."""
    if document["format"] != FORMAT:
        raise UnusableBackup(
            f"MOSAICO {document['version']} wrote this backup in its format {document['format']}, and this version reads"
            f" format {FORMAT}; restore it with that version"
        )
    tables = tuple(
        TableCopy(
            name=str(table["name"]),
            columns=tuple(map(str, table["columns"])),
            rows=int(table["rows"]),
            sha256=str(table["sha256"]),
        )
        for table in document["tables"]
    )
    return Manifest(
        format=FORMAT,
        version=str(document["version"]),
        revision=str(document["revision"]),
        created_at=str(document["created_at"]),
        postgres=str(document["postgres"]),
        master_keys={str(key): int(count) for key, count in document["master_keys"].items()},
        sequences={str(name): int(value) for name, value in document["sequences"].items()},
        tables=tables,
    )
