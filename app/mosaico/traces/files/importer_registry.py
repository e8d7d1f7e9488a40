"""The registry of importers, and the contract of an importer."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from mosaico.core.registry import LoadedPlugin, Registry
from mosaico.traces.files.import_file import ImportFile
from mosaico.traces.types import Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedTraces:
    """The traces of a file, which are read while they are used.

    `columns` maps each field of the traces to its column of the file; it is empty for a
    format whose fields are fixed. `notes` are sentences for the user about what was guessed or left
    out; the list may grow until all traces are read, and so may `directions`: which values of a score are better
    as the file states it, "higher" or "lower" by name. `item_columns` are the columns of results that a format puts side by
    side; of several, items have the name of theirs (`in_column`), and `column_names` are the names that a single one may have
    in another file.
    """

    traces: Iterator[Trace]
    columns: Mapping[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    directions: dict[str, str] = field(default_factory=dict)
    item_columns: tuple[str, ...] = ()
    column_names: tuple[str, ...] = ()


def in_column(item: str, column: str) -> str:
    """The ID of an item in one of several columns."""
    return f"{item} [{column}]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Importer:
    """A file format.

    `recognizes` decides by the content of a file; importers of general tables (`is_table`) decide
    after all others. `read` gets the columns that the user named, by field, and reads the traces.
    It raises `InvalidImport` with the line of an error; so does reading the traces.
    """

    summary: str
    recognizes: Callable[[ImportFile], bool]
    read: Callable[[ImportFile, Mapping[str, str]], ImportedTraces]
    is_table: bool = False


IMPORTERS: Final[Registry[Importer]] = Registry(
    "importer", group="mosaico.importers", item_type=Importer
)


def load_importers(warn: Callable[[LoadedPlugin], None]) -> None:
    """Load the built-in importers and those of other distributions, once per process."""
    IMPORTERS.load("mosaico.traces.importers", warn)


def find_importer(file: ImportFile, name: str | None = None) -> tuple[str, Importer]:
    """The importer with that name, otherwise the first that recognizes the file.

    Raises: `NotFound` for an unknown name, `InvalidImport` for a file that no importer recognizes.
    """
    if name is not None:
        return name, IMPORTERS.get(name)
    entries = _by_priority()
    entry = next((entry for entry in entries if entry[1].recognizes(file)), None)
    if entry is not None:
        return entry
    return file.reject(f"no importer recognizes this file; formats: {', '.join(IMPORTERS.names())}")


def _by_priority() -> Sequence[tuple[str, Importer]]:
    named = [(name, IMPORTERS.get(name)) for name in IMPORTERS.names()]
    return sorted(named, key=lambda entry: entry[1].is_table)
