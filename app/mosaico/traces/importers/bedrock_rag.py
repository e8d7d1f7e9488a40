"""RAG evaluations of Amazon Bedrock (`…_output.jsonl`): a line for each conversation, whose last turn is the result.

Source: the user guide of Amazon Bedrock.
"""

from collections.abc import Mapping
from typing import Any

from mosaico.traces.files.imported_values import object_of, objects_of, text_of
from mosaico.traces.files.tool_cells import any_of
from mosaico.traces.files.tool_tables import Cells, ToolTable, register_tool
from mosaico.traces.importers.bedrock import direction_of, scores_of
from mosaico.traces.storable_traces import id_of
from mosaico.traces.value_text import TextRole


def read_conversation(row: Cells) -> Mapping[str, Any]:
    """The fields of a conversation: the question, the answer and the scores of its last turn; earlier questions are a part of the
    item.
    """
    turns = objects_of(row.get("conversationTurns"))
    records = [object_of(turn.get("inputRecord")) or turn for turn in turns]
    questions = [object_of(record.get("prompt")).get("content") for record in records]
    output = object_of(turns[-1].get("output")) if turns else {}
    references = objects_of(records[-1].get("referenceResponses")) if records else []
    texts = [text_of(question, TextRole.QUESTION) or "" for question in questions]
    return {
        "item": id_of(" → ".join(texts)) if any(texts) else None,
        "input": questions[-1] if questions else None,
        # A job that only retrieves has scores and no answers.
        **({"output": output["text"]} if "text" in output else {}),
        "expected": any_of([text_of(r.get("content")) for r in references]),
        "model": output.get("modelIdentifier"),
        "scores": dict(scores_of(turns[-1].get("results"))) if turns else {},
    }


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
        direction=direction_of,
    ),
)
