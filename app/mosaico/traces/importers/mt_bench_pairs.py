"""Judgments of pairs of MT-bench (`model_judgment/…_pair.jsonl`): the first model wins, loses or ties with the second one.

Two games in either order that disagree are a tie, and an `error` is a winner that the judge did not give. Source: FastChat
`llm_judge`.
"""

from collections.abc import Mapping
from typing import Any, Final

from mosaico.traces.files.import_file import ImportFile
from mosaico.traces.files.importer_registry import IMPORTERS, ImportedTraces, Importer
from mosaico.traces.files.tool_tables import Cells, ToolTable, read_tool_table

PAIR: Final = frozenset({"question_id", "model_1", "model_2", "g1_winner", "g2_winner"})
WINS: Final = {"model_1": 1.0, "model_2": 0.0}


def read_pairs(file: ImportFile, mapping: Mapping[str, str]) -> ImportedTraces:
    """The traces of the judgments of one pair of models. Raises: `InvalidImport` for several pairs."""
    pairs = {(str(row.cells.get("model_1")), str(row.cells.get("model_2"))) for row in file.rows()}
    if len(pairs) > 1:
        names = ", ".join(" and ".join(pair) for pair in sorted(pairs)[:4])
        file.reject(
            f"judgments of {len(pairs)} pairs of models ({names}): write those of one pair into a file of its own"
        )
    table = ToolTable(
        columns={"model": "model_1"},
        compute=read_pair,
        used=("question_id", "turn", "judge", "tstamp", "model_2", "g1_*", "g2_*"),
        direction=lambda _: "higher",
    )
    imported = read_tool_table(file, mapping, table)
    imported.notes.extend(
        f"win says how often {first} is better than {second}" for first, second in pairs
    )
    return imported


def read_pair(row: Cells) -> Mapping[str, Any]:
    """The fields of a judgment of two answers in both orders."""
    games = [row.get("g1_winner"), row.get("g2_winner")]
    is_judged = "error" not in games
    return {
        "item": f"{row.get('question_id')} turn {row.get('turn', 1)}",
        "error": None if is_judged else "the judge gave no winner",
        "outcome": None if is_judged else "judge_error",
        "scores": {"win": WINS.get(str(games[0]), 0.5) if games[0] == games[1] else 0.5}
        if is_judged
        else {},
    }


IMPORTERS.register(
    "mt-bench-pairs",
    Importer(
        summary="judgments of pairs of MT-bench",
        recognizes=lambda file: file.first_row.keys() >= PAIR,
        read=read_pairs,
    ),
)
