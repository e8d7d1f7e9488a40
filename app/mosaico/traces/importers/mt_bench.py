"""Judgments of MT-bench (`model_judgment/…_single.jsonl`, `…_pair.jsonl`) and of LiveBench: a score by question and turn.

Of a pair, the first model wins, loses or ties with the second one: two games in either order that disagree are a tie.

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
        direction=lambda _: "high",
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


PAIR: Final = frozenset({"question_id", "model_1", "model_2", "g1_winner", "g2_winner"})
WINS: Final = {"model_1": 1.0, "model_2": 0.0}


def read_mt_bench_pairs(file: ImportFile, mapping: Mapping[str, str]) -> ImportedTraces:
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
        direction=lambda _: "high",
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
        read=read_mt_bench_pairs,
    ),
)
IMPORTERS.register(
    "mt-bench",
    Importer(summary="judgments of MT-bench", recognizes=recognizes_mt_bench, read=read_mt_bench),
)
