"""Details of lighteval (`details_<task>_<date>.parquet`, also as JSON Lines), of 2025 and of the leaderboard before it.

Several texts are the samples of one question. The texts of a multiple choice are its choices, of which the model took the most
likely one. Source: lighteval 0.13.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from mosaico.traces.files.cell_values import as_number
from mosaico.traces.files.imported_values import object_of
from mosaico.traces.files.tool_cells import any_of, sum_of
from mosaico.traces.files.tool_tables import Cells, ToolTable, register_tool

KEYS: Final = frozenset({"doc", "model_response", "metric"})
OLD_KEYS: Final = frozenset({"full_prompt", "predictions", "gold", "metrics"})


def read_row(row: Cells) -> Mapping[str, Any]:
    """The fields of a question and of what the model made of it."""
    doc, response = object_of(row.get("doc")), object_of(row.get("model_response"))
    choices, indexes = _list(doc.get("choices")), _list(doc.get("gold_index"))
    gold = [choices[i] for i in indexes if isinstance(i, int) and 0 <= i < len(choices)]
    return {
        "item": doc.get("id"),
        "input": doc.get("query"),
        "output": _answers(_list(response.get("text")), choices, _list(response.get("logprobs"))),
        "expected": any_of(gold),
        "category": doc.get("task_name"),
        "inputTokens": len(_list(response.get("input_tokens"))) or None,
        "outputTokens": sum_of([len(_list(t)) for t in _list(response.get("output_tokens"))]),
        "scores": _metrics(object_of(row.get("metric"))),
    }


def read_old_row(row: Cells) -> Mapping[str, Any]:
    """The fields of a row before 2025."""
    choices, gold = _list(row.get("choices")), _list(row.get("gold"))
    likelihoods = _list(row.get("predictions"))
    is_of_texts = all(isinstance(text, str) for text in likelihoods)
    return {
        "input": row.get("full_prompt"),
        "output": _answers(likelihoods if is_of_texts else [], choices, likelihoods),
        "expected": any_of(gold),
        "scores": _metrics(object_of(row.get("metrics"))),
    }


def _answers(texts: Sequence[Any], choices: Sequence[Any], likelihoods: Sequence[Any]) -> Any:
    """The generated texts, or the choice with the highest likelihood."""
    if any(texts):
        return {"generations": list(texts)}
    numbers = [as_number(likelihood) for likelihood in likelihoods]
    if not choices or len(numbers) != len(choices) or None in numbers:
        return None
    return choices[max(range(len(choices)), key=lambda index: numbers[index] or 0.0)]


def _metrics(metrics: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in metrics.items() if as_number(value) is not None}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


register_tool(
    "lighteval",
    "details of lighteval",
    lambda row: row.keys() >= KEYS,
    ToolTable(compute=read_row, used=KEYS),
)
register_tool(
    "lighteval-leaderboard",
    "details of lighteval before 2025",
    lambda row: row.keys() >= OLD_KEYS,
    ToolTable(
        compute=read_old_row,
        used=(
            *OLD_KEYS, "choices", "example", "instruction", "gold_index", "hash", "*tokens", "num_*", "padded",
            "truncated", "pred_logits", "specifics",
        ),
    ),
)  # fmt: skip
