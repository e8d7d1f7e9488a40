"""Annotations of AlpacaEval: a preference between the answer of a baseline (1) and that of the model (2), by instruction.

A preference of 1.5 is a tie, as 0 was in older files, and weighted annotators write values in between. The score `win` is 1 where
the model is preferred. Source: alpaca_eval 0.6.
"""

from collections.abc import Mapping
from typing import Any, Final

from mosaico.traces.files.cell_values import as_number
from mosaico.traces.files.tool_tables import Cells, ToolTable, register_tool

KEYS: Final = frozenset({"instruction", "output_1", "output_2", "preference"})
TIE: Final = 1.5
FIRST, SECOND = 1.0, 2.0


def read_annotation(row: Cells) -> Mapping[str, Any]:
    """The fields of an annotation; without a preference the judge failed."""
    preference = as_number(row.get("preference"))
    if preference == 0:
        preference = TIE
    is_judged = preference is not None and FIRST <= preference <= SECOND
    return {
        "error": None if is_judged else "the annotator gave no preference",
        "outcome": None if is_judged else "judge_error",
        "scores": {"win": preference - FIRST} if is_judged and preference is not None else {},
    }


register_tool(
    "alpaca-eval",
    "annotations of AlpacaEval",
    lambda row: row.keys() >= KEYS,
    ToolTable(
        columns={"input": "instruction", "output": "output_2", "model": "generator_2", "category": "dataset"},
        compute=read_annotation,
        # Those of the baseline and of the annotator.
        used=(
            "preference", "output_1", "generator_1", "annotator", "price_per_example", "time_per_example",
            "raw_completion", "referenced_models",
        ),
        direction=lambda _: "higher",
    ),
)  # fmt: skip
