"""JSON: a list of objects, or an object with such a list; read as a whole."""

from app.traces.files.import_file import Container
from app.traces.files.importer_registry import IMPORTERS, Importer
from app.traces.files.table_traces import read_table

IMPORTERS.register(
    "json",
    Importer(
        summary="JSON table",
        recognizes=lambda file: file.container is Container.JSON,
        read=read_table,
        is_table=True,
    ),
)
