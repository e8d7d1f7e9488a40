"""What every importer promises: an empty answer is an answer, and no field is ignored silently.

A new importer joins with one file in `FILES`, that of a tool in `TOOL_FILES`.
"""

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from mosaico.traces.files.importer_registry import IMPORTERS, load_importers
from mosaico.traces.types import TraceOutcome
from tests.support.import_files import import_path, refuse_plugin
from tests.support.tool_results import TOOL_FILES, WITHOUT_ANSWERS, csv_file, json_file

# The answer is empty, and nothing reads `surprise`.
ROW: Final = {"id": "q", "question": "1+1?", "expected": "2", "output": "", "surprise": "lost"}
SAMPLE: Final = {
    "id": "q",
    "epoch": 1,
    "input": "1+1?",
    "target": "2",
    "output": {"choices": []},
    "scores": {},
    "surprise": "lost",
}


def json_line(row: Any) -> bytes:
    return json_file(row) + b"\n"


def parquet_file() -> bytes:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    content = io.BytesIO()
    pq.write_table(pa.table({name: [cell] for name, cell in ROW.items()}), content)
    return content.getvalue()


def xlsx_file() -> bytes:
    openpyxl = pytest.importorskip("openpyxl")
    book, content = openpyxl.Workbook(), io.BytesIO()
    book.active.append([*ROW])
    book.active.append([*ROW.values()])
    book.save(content)
    return content.getvalue()


def inspect_archive() -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("header.json", json.dumps({"status": "success", "eval": {"model": "m"}}))
        archive.writestr("samples/q_epoch_1.json", json.dumps(SAMPLE))
    return content.getvalue()


FILES: Final[dict[str, Callable[[], bytes]]] = {
    "csv": lambda: csv_file(ROW),
    # Two lines: one alone is a JSON document, too.
    "jsonl": lambda: json_line(ROW) + json_line({**ROW, "id": "r"}),
    "json": lambda: json_file({"rows": [ROW]}),
    "xlsx": xlsx_file,
    "parquet": parquet_file,
    "ragas": lambda: csv_file(
        {"user_input": "1+1?", "response": "", "reference": "2", "surprise": "lost"}
    ),
    "inspect": inspect_archive,
    "promptfoo": lambda: json_file(
        {
            "results": {
                "results": [
                    {
                        "promptIdx": 0,
                        "vars": {"q": "1+1?"},
                        "testCase": {},
                        "response": {"output": ""},
                        "success": False,
                        "surprise": "lost",
                    }
                ]
            }
        }
    ),
    "lm-eval": lambda: (
        json_line(
            {
                "doc_id": 0,
                "doc": {},
                "target": "2",
                "resps": [[""]],
                "filtered_resps": [""],
                "metrics": ["exact_match"],
                "exact_match": 0.0,
                "surprise": "lost",
            }
        )
        * 2
    ),
    "deepeval": lambda: json_file(
        {"testCases": [{"name": "q", "input": "1+1?", "actualOutput": "", "surprise": "lost"}]}
    ),
    "traces": lambda: (
        json_line({"traceId": "q", "output": "", "surprise": "lost"})
        + json_line({"traceId": "r", "output": None})
    ),
    **TOOL_FILES,
}


def test_contract__has_every_importer() -> None:
    load_importers(refuse_plugin)
    # Files of the last one have no results: its error says so.
    assert {*FILES} == {*IMPORTERS.names()} - {"summaries"}


@pytest.mark.parametrize("name", FILES)
def test_importer__empty_answer_is_an_answer_and_unread_fields_are_named(
    name: str, tmp_path: Path
) -> None:
    path = tmp_path / "results"
    path.write_bytes(FILES[name]())
    imported = import_path(path)
    assert imported.format == name
    answer = None if name in WITHOUT_ANSWERS else ""
    assert {(trace.outcome, trace.output) for trace in imported.traces} == {
        (TraceOutcome.SCORED, answer)
    }
    notes = [note for note in imported.notes if "that are not used" in note]
    assert [note.partition(": ")[2] for note in notes] == ["surprise"]
