"""CSV, JSON Lines and JSON: one row or object per answer; columns are guessed or named with `--map`.

A JSON file is a list of objects, or an object with such a list, and is read as a whole.
"""

from mosaico.traces.files.import_file import Container
from mosaico.traces.files.importer_registry import IMPORTERS, Importer
from mosaico.traces.files.table_traces import read_table


def _register(name: str, summary: str, container: Container) -> None:
    IMPORTERS.register(
        name,
        Importer(
            summary=summary,
            recognizes=lambda file: file.container is container,
            read=read_table,
            is_table=True,
        ),
    )


_register("csv", "CSV table", Container.CSV)
_register("json", "JSON table", Container.JSON)
_register("jsonl", "JSON Lines table", Container.JSON_LINES)
