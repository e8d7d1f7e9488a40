"""Results of evaluation jobs of Amazon Bedrock (`…_output.jsonl`): a line for each prompt with automated scores, and for RAG a line
for each conversation, whose last turn is the result.

A result of null is a judge that failed. A job with two models compares them with each other: one of them is chosen with `--map`.
Source: the user guide of Amazon Bedrock.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from mosaico.core.parameter_names import mapped_column
from mosaico.traces.files.imported_values import object_of, objects_of, text_of
from mosaico.traces.files.tool_cells import Ambiguity
from mosaico.traces.files.tool_tables import Cells, ToolTable, register_tool
from mosaico.traces.storable_traces import id_of
from mosaico.traces.value_text import TextRole

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
        "scores": dict(_scores(object_of(row.get("automatedEvaluationResult")).get("scores"))),
    }


def read_conversation(row: Cells) -> Mapping[str, Any]:
    """The fields of a conversation: the question, the answer and the scores of its last turn; earlier questions are a part of the
    item.
    """
    turns = objects_of(row.get("conversationTurns"))
    records = [object_of(turn.get("inputRecord")) or turn for turn in turns]
    questions = [object_of(record.get("prompt")).get("content") for record in records]
    output = object_of(turns[-1].get("output")) if turns else {}
    references = (
        [object_of(r).get("content") for r in objects_of(records[-1].get("referenceResponses"))]
        if records
        else []
    )
    texts = [text_of(question, TextRole.QUESTION) or "" for question in questions]
    return {
        "item": id_of(" → ".join(texts)) if any(texts) else None,
        "input": questions[-1] if questions else None,
        "output": output.get("text"),
        "expected": {"answers": list(map(text_of, references))}
        if len(references) > 1
        else next(iter(references), None),
        "model": output.get("modelIdentifier"),
        "scores": dict(_scores(turns[-1].get("results"))) if turns else {},
    }


def _scores(scores: Any) -> Iterator[tuple[str, Any]]:
    for score in objects_of(scores):
        result = score.get("result")
        value = object_of(result).get("floatValue") if isinstance(result, Mapping) else result
        yield str(score.get("metricName")).removeprefix("Builtin."), value


def skip_retrieval(row: Cells) -> str | None:
    """Why a conversation is no result: it was retrieved for, and not answered."""
    turns = objects_of(row.get("conversationTurns"))
    is_answered = any("text" in object_of(turn.get("output")) for turn in turns)
    is_scored = any(turn.get("results") for turn in turns)
    return None if is_answered or is_scored else "conversations without an answer are skipped"


register_tool(
    "bedrock-rag",
    "RAG evaluation of Amazon Bedrock",
    lambda row: "conversationTurns" in row,
    ToolTable(
        compute=read_conversation,
        used=("conversationTurns",),
        skip=skip_retrieval,
        direction=lambda name: "low" if name in LOWER else "high",
    ),
)
register_tool(
    "bedrock",
    "evaluation job of Amazon Bedrock",
    lambda row: {"automatedEvaluationResult", "inputRecord"} <= row.keys(),
    ToolTable(
        compute=read_row,
        used=("automatedEvaluationResult", "inputRecord", "modelResponses"),
        direction=lambda name: "low" if name in LOWER else "high",
    ),
)
