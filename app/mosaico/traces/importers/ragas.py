"""Result tables of Ragas: CSV, JSON Lines or JSON with its columns; further columns are scores.

A blank score is one that Ragas could not compute: it is missing. Ragas leaves items whose evaluation
raised out of its experiments, so the comparison shows them as missing. Of a table with nothing but the columns of a dataset and
numbers, each number is a metric, whatever its name; other tables have columns of the user. Source: ragas 0.4.
"""

from collections.abc import Mapping
from itertools import islice
from typing import Final

from mosaico.traces.files.cell_values import as_number, is_blank
from mosaico.traces.files.column_words import words_of
from mosaico.traces.files.import_file import ImportFile
from mosaico.traces.files.importer_registry import IMPORTERS, ImportedTraces, Importer
from mosaico.traces.files.table_traces import SAMPLED_ROWS, read_table

COLUMNS: Final = {"input": "user_input", "output": "response", "expected": "reference"}
DATASET: Final = frozenset(
    {
        *("user_input", "response", "reference", "retrieved_contexts", "reference_contexts", "rubrics"),
        *("multi_responses", "retrieved_context_ids", "reference_context_ids", "reference_tool_calls"),
        *("persona_name", "query_style", "query_length", "synthesizer_name", "reference_topics"),
    }
)  # fmt: skip
# Words of columns that a user adds to a dataset.
NO_METRIC: Final = frozenset(
    {
        "id",
        "uid",
        "index",
        "column",
        "latency",
        "time",
        "seconds",
        "ms",
        "tokens",
        "cost",
        "usd",
        "trial",
        "epoch",
    }
)


def read_ragas(file: ImportFile, mapping: Mapping[str, str]) -> ImportedTraces:
    """The traces of a Ragas table; the mapping of the user has precedence."""
    present = {name: column for name, column in COLUMNS.items() if column in file.first_row}
    metrics = {f"scores[{column}]": column for column in _metrics(file)}
    return read_table(file, {**metrics, **present, **mapping})


def _metrics(file: ImportFile) -> list[str]:
    """The columns of a table beside those of its dataset, if all of them hold numbers."""
    rows = [row.cells for row in islice(file.rows(), SAMPLED_ROWS)]
    columns = [
        column for column in dict.fromkeys(c for row in rows for c in row) if column not in DATASET
    ]
    filled = {c: [row[c] for row in rows if not is_blank(row.get(c))] for c in columns}
    if any(as_number(cell) is None for cells in filled.values() for cell in cells):
        return []
    return [
        column for column in columns if filled[column] and NO_METRIC.isdisjoint(words_of(column))
    ]


IMPORTERS.register(
    "ragas",
    Importer(
        summary="Ragas result table",
        recognizes=lambda file: {"user_input", "response"} <= {*file.first_row},
        read=read_ragas,
    ),
)
