"""CSV: one row per answer, with a header; columns are guessed or named with `--map`."""

from app.traces.files.import_file import Container
from app.traces.files.importer_registry import IMPORTERS, Importer
from app.traces.files.table_traces import read_table

IMPORTERS.register(
    "csv",
    Importer(
        summary="CSV table",
        recognizes=lambda file: file.container is Container.CSV,
        read=read_table,
        is_table=True,
    ),
)
