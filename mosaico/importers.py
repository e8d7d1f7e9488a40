"""What an importer of files is made of; the entry point group `mosaico.importers` registers it."""

from app.core.registry import AddPlugin
from app.traces.files.import_file import Container, ImportFile, InvalidImport, TableRow
from app.traces.files.importer_registry import IMPORTERS, ImportedTraces, Importer
from app.traces.files.table_traces import read_table
from app.traces.types import ToolCall, Trace, TraceOutcome

__all__ = (
    "IMPORTERS",
    "AddPlugin",
    "Container",
    "ImportFile",
    "ImportedTraces",
    "Importer",
    "InvalidImport",
    "TableRow",
    "ToolCall",
    "Trace",
    "TraceOutcome",
    "read_table",
)
