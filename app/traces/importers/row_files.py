"""CSV, JSON Lines and JSON: one row or object per answer; columns are guessed or named with `--map`.

A JSON file is a list of objects, or an object with such a list, and is read as a whole.
"""

from app.traces.files.import_file import Container
from app.traces.files.importer_registry import IMPORTERS, Importer
from app.traces.files.table_traces import read_table

for name, summary, container in (
    ("csv", "CSV table", Container.CSV),
    ("json", "JSON table", Container.JSON),
    ("jsonl", "JSON Lines table", Container.JSON_LINES),
):
    IMPORTERS.register(
        name,
        Importer(
            summary=summary,
            recognizes=lambda file, container=container: file.container is container,
            read=read_table,
            is_table=True,
        ),
    )
