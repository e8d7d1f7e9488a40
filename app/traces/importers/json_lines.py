"""JSON Lines: one object per answer; columns are guessed or named with `--map`."""

from app.traces.files.import_file import Container
from app.traces.files.importer_registry import IMPORTERS, Importer
from app.traces.files.table_traces import read_table

IMPORTERS.register(
    "jsonl",
    Importer(
        summary="JSON Lines table",
        recognizes=lambda file: file.container is Container.JSON_LINES,
        read=read_table,
        is_table=True,
    ),
)
