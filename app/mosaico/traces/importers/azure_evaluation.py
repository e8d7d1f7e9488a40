"""Results of Azure AI evaluation: the document of `evaluate()`, and the JSON Lines of promptflow before it.

A metric stands in a row as a value, as `…_score`, with its threshold, its reason and the tokens of the judge: it is one
score, and nothing of the rest. Source: azure-ai-evaluation 1.18.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from mosaico.traces.files.cell_values import as_number, is_blank
from mosaico.traces.files.tool_cells import choose_member, fields_of_example, members_of
from mosaico.traces.files.tool_tables import Cells, ToolTable, register_tool

# Further values of one metric.
DETAILS: Final = re.compile(
    r"_(?:threshold|reason|reasoning|status|properties|result|passed|details|sample_input|sample_output|model"
    r"|finish_reason|(?:prompt|completion|total|input|output)_tokens)$"
)
SAFETY: Final = frozenset(
    {"violence", "sexual", "self_harm", "hate_unfairness", "protected_material", "xpia", "eci"}
)


def recognizes_azure(row: Cells) -> bool:
    """Return whether a row has the inputs and the outputs of an evaluation."""
    if not {"example_id", "execution_time"}.isdisjoint(row):
        return False  # of LangSmith
    has_inputs = any(name.startswith("inputs.") for name in row)
    has_metrics = any(name.startswith("outputs.") and name.count(".") > 1 for name in row)
    is_line = "line_number" in row and any(name.startswith("outputs.") for name in row)
    return has_inputs and (has_metrics or is_line)


def read_row(row: Cells) -> Mapping[str, Any]:
    """The fields of a row: a target ran if an output is no metric, otherwise the answer is an input."""
    inputs, outputs = members_of(row, "inputs"), members_of(row, "outputs")
    targets = {
        name: value for name, value in outputs.items() if "." not in name and not _is_metric(name)
    }
    answers = targets or {name: inputs[name] for name in ("response", "answer") if name in inputs}
    conversation = inputs.pop("conversation", None)
    fields = fields_of_example(inputs, "inputs.", answers)
    return {
        **fields,
        "input": conversation or fields["input"],
        "output": choose_member(answers, "output", "outputs.") or conversation,
        "error": row.get("error"),
        "scores": _metrics(outputs),
    }


def _is_metric(name: str) -> bool:
    return DETAILS.search(name) is not None or name.startswith("gpt_")


def _metrics(outputs: Mapping[str, Any]) -> dict[str, Any]:
    """The numbers of the metrics by name; with the name of the evaluator where several have a metric of one name. The level in
    words of a safety metric stands beside its number.
    """
    values: dict[str, dict[str, Any]] = {}
    for path, value in outputs.items():
        evaluator, _, member = path.rpartition(".")
        is_number = as_number(value) is not None or is_blank(value)
        if evaluator and is_number and not DETAILS.search(path):
            by_evaluator = values.setdefault(_metric_name(member), {})
            if is_blank(by_evaluator.get(evaluator)):
                by_evaluator[evaluator] = value
    return {
        name if len(by_evaluator) == 1 else f"{evaluator}.{name}": value
        for name, by_evaluator in values.items()
        for evaluator, value in by_evaluator.items()
    }


def _metric_name(member: str) -> str:
    """The metric of a value: `f1_score`, `f1_score_score`, `groundedness_score` and `gpt_groundedness` are names of two."""
    name = member.removeprefix("gpt_")
    return name if name == "f1_score" else name.removesuffix("_score")


def direction_of(name: str) -> str | None:
    """A safety metric is a severity or a defect."""
    return "lower" if name.removesuffix("_label") in SAFETY else None


register_tool(
    "azure-evaluation",
    "results of Azure AI evaluation",
    recognizes_azure,
    ToolTable(
        compute=read_row,
        used=("inputs.*", "outputs.*", "error", "line_number"),
        direction=direction_of,
    ),
)
