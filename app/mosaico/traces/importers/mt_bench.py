"""Judgments of MT-bench (`model_judgment/…_single.jsonl`) and of LiveBench: a score by question and turn.


A score of −1 is one that the judge did not give. A question that was judged twice has its last judgment: the file is appended
to. Source: FastChat `llm_judge`.
"""

from collections.abc import Mapping
from typing import Any, Final

from mosaico.traces.files.cell_values import as_number
from mosaico.traces.files.import_file import ImportFile, TableRow
from mosaico.traces.files.importer_registry import IMPORTERS, ImportedTraces, Importer
from mosaico.traces.files.tool_tables import Cells, ToolTable, read_tool_table

KEYS: Final = frozenset({"question_id", "model", "score", "turn"})
MARKS: Final = frozenset({"judgment", "judge", "tstamp"})


def recognizes_mt_bench(file: ImportFile) -> bool:
    """Return whether the first row is a judgment of one turn."""
    row = file.first_row
    return row.keys() >= KEYS and not MARKS.isdisjoint(row)


def read_mt_bench(file: ImportFile, mapping: Mapping[str, str]) -> ImportedTraces:
    """The traces of the judgments of one model. Raises: `InvalidImport` for several models."""
    judgments: dict[tuple[str, str], TableRow] = {}
    models: dict[str, None] = {}
    rows = 0
    for row in file.rows():
        rows += 1
        models[str(row.cells.get("model"))] = None
        judgments[str(row.cells.get("question_id")), str(row.cells.get("turn"))] = row
    if len(models) > 1:
        file.reject(
            f"judgments of {len(models)} models ({', '.join([*models][:4])}): write those of one model into a file of"
            " its own"
        )
    table = ToolTable(
        columns={"model": "model"},
        compute=read_judgment,
        used=("question_id", "turn", "score", "judge", "user_prompt", "judgment", "tstamp"),
        direction=lambda _: "higher",
    )
    imported = read_tool_table(file, mapping, table, iter(judgments.values()))
    if rows > len(judgments):
        imported.notes.append(
            f"judgments that a later one of the same question and turn replaces: {rows - len(judgments)}"
        )
    return imported


def read_judgment(row: Cells) -> Mapping[str, Any]:
    """The fields of a judgment."""
    score = as_number(row.get("score"))
    is_judged = score is not None and score >= 0
    return {
        "item": f"{row.get('question_id')} turn {row.get('turn')}",
        "error": None if is_judged else "the judge gave no score",
        "outcome": None if is_judged else "judge_error",
        "category": row.get("category"),
        "scores": {"judge_score": score} if is_judged else {},
    }


IMPORTERS.register(
    "mt-bench",
    Importer(summary="judgments of MT-bench", recognizes=recognizes_mt_bench, read=read_mt_bench),
)
