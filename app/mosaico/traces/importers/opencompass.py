"""Predictions and results of OpenCompass: objects by position, or `details` by position.

The positions of two files need not be the same: items are paired by their prompt. Source: OpenCompass `icl_inferencer` and
`icl_eval`.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from mosaico.traces.files.import_file import Container, ImportFile, TableRow
from mosaico.traces.files.imported_values import object_of
from mosaico.traces.files.importer_registry import IMPORTERS, ImportedTraces, Importer
from mosaico.traces.files.tool_tables import Cells, ToolTable, read_tool_table

PREDICTION: Final = frozenset({"origin_prompt", "prediction"})
DETAIL: Final = ("pred", "predictions", "prediction")


def recognizes_opencompass(file: ImportFile) -> bool:
    """Return whether a document has predictions or details by position."""
    if file.container is Container.JSON_LINES:
        return file.first_row.keys() >= PREDICTION
    return file.container is Container.JSON and bool(_by_position(object_of(file.document)))


def _by_position(document: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The predictions of a document, or the details of its results, by position."""
    details = object_of(document.get("details"))
    members = {
        key: object_of(value) for key, value in (details or document).items() if key.isdecimal()
    }
    first: Mapping[str, Any] = next(iter(members.values()), {})
    is_detail = bool(details) and "prompt" in first and any(name in first for name in DETAIL)
    return members if is_detail or first.keys() >= PREDICTION else {}


def read_opencompass(file: ImportFile, mapping: Mapping[str, str]) -> ImportedTraces:
    """The traces of a file, one for each prediction."""
    table = ToolTable(compute=read_prediction, used=("origin_prompt", "prompt", *DETAIL, "gold", "references", "correct", "idx"))  # fmt: skip
    rows = file.rows() if file.container is Container.JSON_LINES else _rows(file)
    return read_tool_table(file, mapping, table, rows)


def _rows(file: ImportFile) -> Iterator[TableRow]:
    for position, cells in _by_position(object_of(file.document)).items():
        yield TableRow(f"entry {position}", cells)


def read_prediction(row: Cells) -> Mapping[str, Any]:
    """The fields of a prediction. A prompt is a text, or turns of a human and a bot."""
    prompt = row.get("origin_prompt", row.get("prompt"))
    if isinstance(prompt, list):
        turns = [object_of(turn) for turn in prompt]
        prompt = "\n".join(str(turn.get("prompt") or "") for turn in turns)
    answer = next((row[name] for name in DETAIL if name in row), None)
    expected = row.get("gold", row.get("references"))
    return {
        "input": prompt,
        "output": answer[0] if isinstance(answer, list) and len(answer) == 1 else answer,
        "expected": {"references": expected} if isinstance(expected, list) else expected,
        "passed": row.get("correct"),
    }


IMPORTERS.register(
    "opencompass",
    Importer(
        summary="predictions of OpenCompass",
        recognizes=recognizes_opencompass,
        read=read_opencompass,
    ),
)
