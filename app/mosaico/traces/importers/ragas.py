"""Result tables of Ragas: CSV, JSON Lines or JSON with its columns; further columns are scores.

A blank score is one that Ragas could not compute: it is missing. Ragas leaves items whose evaluation
raised out of its experiments, so the comparison shows them as missing.
"""

from collections.abc import Mapping

from mosaico.traces.files.import_file import ImportFile
from mosaico.traces.files.importer_registry import IMPORTERS, ImportedTraces, Importer
from mosaico.traces.files.table_traces import read_table

COLUMNS = {"input": "user_input", "output": "response", "expected": "reference"}


def read_ragas(file: ImportFile, mapping: Mapping[str, str]) -> ImportedTraces:
    """The traces of a Ragas table; the mapping of the user has precedence."""
    present = {name: column for name, column in COLUMNS.items() if column in file.first_row}
    return read_table(file, {**present, **mapping})


IMPORTERS.register(
    "ragas",
    Importer(
        summary="Ragas result table",
        recognizes=lambda file: {"user_input", "response"} <= {*file.first_row},
        read=read_ragas,
    ),
)
