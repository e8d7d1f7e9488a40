"""Results of evaluation jobs of Amazon Bedrock (`…_output.jsonl`): a line for each prompt with automated scores.

A result of null is a judge that failed. A job with two models compares them with each other: one of them is chosen with `--map`.
Source: the user guide of Amazon Bedrock.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from mosaico.core.parameter_names import mapped_column
from mosaico.traces.files.imported_values import object_of, objects_of
from mosaico.traces.files.tool_cells import Ambiguity
from mosaico.traces.files.tool_tables import Cells, ToolTable, register_tool

LOWER: Final = frozenset({"Robustness", "Toxicity", "Harmfulness", "Stereotyping"})


def read_row(row: Cells) -> Mapping[str, Any]:
    """The fields of a line."""
    record, responses = object_of(row.get("inputRecord")), objects_of(row.get("modelResponses"))
    answer: Any = responses[0].get("response") if responses else None
    if len(responses) > 1:
        column = mapped_column("output", "modelResponses[0].response")
        answer = Ambiguity(f"responses of {len(responses)} models; choose one: {column}")
    return {
        "input": record.get("prompt"),
        "output": answer,
        "expected": record.get("referenceResponse"),
        "category": record.get("category"),
        "model": responses[0].get("modelIdentifier") if len(responses) == 1 else None,
        "scores": dict(scores_of(object_of(row.get("automatedEvaluationResult")).get("scores"))),
    }


def direction_of(name: str) -> str:
    """Which values of a score are better, as its name says."""
    return "lower" if name in LOWER else "higher"


def scores_of(scores: Any) -> Iterator[tuple[str, Any]]:
    """The scores in a list of results of metrics, by name."""
    for score in objects_of(scores):
        result = score.get("result")
        value = object_of(result).get("floatValue") if isinstance(result, Mapping) else result
        yield str(score.get("metricName")).removeprefix("Builtin."), value


register_tool(
    "bedrock",
    "evaluation job of Amazon Bedrock",
    lambda row: {"automatedEvaluationResult", "inputRecord"} <= row.keys(),
    ToolTable(
        compute=read_row,
        used=("automatedEvaluationResult", "inputRecord", "modelResponses"),
        direction=direction_of,
    ),
)
