"""Tables of the older evaluation of MLflow (`eval_results_table.json`): metrics have a version in their names.

The latency is in seconds. Grades of readability judge nothing. Source: `mlflow.models.evaluate` of mlflow 3.17.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from mosaico.traces.files.import_file import ImportFile
from mosaico.traces.files.importer_registry import IMPORTERS, ImportedTraces, Importer
from mosaico.traces.files.table_traces import read_table

METRIC: Final = re.compile(r"(.+)/v\d+(?:/score)?")
NO_QUALITY: Final = frozenset(
    {"flesch_kincaid_grade_level", "ari_grade_level", "token_count", "latency"}
)
LOWER: Final = frozenset({"toxicity", "perplexity"})


def recognizes_table(row: Mapping[str, Any]) -> bool:
    """Return whether a row has metrics with a version in their names."""
    return any(METRIC.fullmatch(name) for name in row)


def read_mlflow_table(file: ImportFile, mapping: Mapping[str, str]) -> ImportedTraces:
    """The traces of a table; the mapping of the user has precedence."""
    metrics = {m[1]: name for name in file.first_row if (m := METRIC.fullmatch(name))}
    named = {f"scores[{name}]": c for name, c in metrics.items() if name not in NO_QUALITY}
    named |= {"latencySeconds": "latency"} if "latency" in file.first_row else {}
    named |= {"output": "outputs"} if "outputs" in file.first_row else {}
    imported = read_table(file, {**named, **mapping})
    imported.directions.update({name: "lower" for name in metrics if name in LOWER})
    return imported


IMPORTERS.register(
    "mlflow-evaluate",
    Importer(
        summary="evaluation table of MLflow",
        recognizes=lambda file: recognizes_table(file.first_row),
        read=read_mlflow_table,
    ),
)
