"""Results of batches of OpenAI and Anthropic: a line for each request, in any order.

The item is the `custom_id` of the request. Its question and the expected answer are only in the file of requests. A request that
the provider did not run is nobody's answer. Sources: the Batch API of OpenAI, the Message Batches API of Anthropic.
"""

from collections.abc import Mapping
from typing import Any, Final

from mosaico.traces.files.imported_values import count_of, object_of
from mosaico.traces.files.tool_tables import Cells, ToolTable, register_tool
from mosaico.traces.types import TraceOutcome
from mosaico.traces.value_text import read_error

NOT_RUN: Final = (
    "batch_expired",
    "batch_cancelled",
    "batch_canceled",
    "expired",
    "canceled",
    "cancelled",
)
CACHED: Final = ("cache_creation_input_tokens", "cache_read_input_tokens")


def recognizes_batch(row: Cells) -> bool:
    """Return whether a row is the result of a request of a batch."""
    is_openai = {"custom_id", "response", "error"} <= row.keys()
    return is_openai or ("custom_id" in row and "type" in object_of(row.get("result")))


def read_row(row: Cells) -> Mapping[str, Any]:
    """The fields of a result. The text of a response is found by the reader of texts."""
    result, response = object_of(row.get("result")), object_of(row.get("response"))
    body = object_of(response.get("body")) or object_of(result.get("message"))
    usage = object_of(body.get("usage"))
    read = count_of(usage.get("prompt_tokens", usage.get("input_tokens")))
    cached = [count_of(usage.get(name)) or 0 for name in CACHED]
    error = row.get("error")
    code = str(object_of(error).get("code") or result.get("type") or "")
    is_run = code not in NOT_RUN
    return {
        "output": (row.get("response") or row.get("result")) if is_run else None,
        "error": read_error(error) if error else None if is_run else f"the request is {code}",
        "outcome": None if is_run else TraceOutcome.INFRA_ERROR,
        "inputTokens": None if read is None else read + sum(cached),
        "outputTokens": usage.get("completion_tokens", usage.get("output_tokens")),
        "model": body.get("model"),
    }


register_tool(
    "batch",
    "results of a batch of a provider",
    recognizes_batch,
    ToolTable(
        columns={"item": "custom_id"},
        compute=read_row,
        used=("id", "response", "result", "error"),
    ),
)
