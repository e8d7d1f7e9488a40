"""Judgments of Arena-Hard: two games of a model and a baseline by question, the second one with swapped sides.

`A>>B` to `B>>A` give the baseline 1 to 0 in the first game; the score `win` is the mean of both games for the model. A game without
a grade is one that the judge did not decide. Source: arena-hard-auto `gen_judgment.py`.
"""

from collections.abc import Mapping
from typing import Any, Final

from mosaico.traces.files.imported_values import objects_of
from mosaico.traces.files.tool_tables import Cells, ToolTable, register_tool

# How far B, the model in the first game, wins.
GRADES: Final = {"A>>B": 0.0, "A>B": 0.25, "A=B": 0.5, "B=A": 0.5, "B>A": 0.75, "B>>A": 1.0}


def read_judgment(row: Cells) -> Mapping[str, Any]:
    """The fields of a judgment."""
    grades = [GRADES.get(str(game.get("score"))) for game in objects_of(row.get("games"))]
    wins = [
        grade if number == 0 else 1.0 - grade
        for number, grade in enumerate(grades)
        if grade is not None
    ]
    is_judged = len(wins) == len(grades) and bool(wins)
    return {
        "error": None if is_judged else "the judge gave no grade",
        "outcome": None if is_judged else "judge_error",
        "scores": {"win": sum(wins) / len(wins)} if is_judged else {},
    }


register_tool(
    "arena-hard",
    "judgments of Arena-Hard",
    lambda row: {"uid", "games", "model"} <= row.keys(),
    ToolTable(
        columns={"item": "uid", "model": "model", "category": "category"},
        compute=read_judgment,
        used=("games", "judge", "baseline", "question_id"),
        direction=lambda _: "higher",
    ),
)
