"""Output items of the Evals API of OpenAI, as JSON Lines and as its list.

The ID of an item is that of the run, and `datasource_item_id` a position: items are paired by an ID inside of the data, else
by their question. The names of graders end with a random ID, which is left out. Source: the types of openai-python 2.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from mosaico.traces.files.cell_values import is_blank
from mosaico.traces.files.imported_values import object_of, objects_of
from mosaico.traces.files.tool_cells import choose_member
from mosaico.traces.files.tool_tables import Cells, ToolTable, register_tool
from mosaico.traces.types import TraceOutcome

OBJECT: Final = "eval.run.output_item"
RANDOM_ID: Final = re.compile(r"[-_ ][0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$")
IDS: Final = ("id", "item_id", "question_id", "task_id", "custom_id", "case_id", "uid", "key")
OF_THE_PROVIDER: Final = frozenset({"server_error", "rate_limit_exceeded", "timeout"})
EXPECTED: Final = (
    "ground_truth", "reference", "expected", "label", "reference_answer", "expected_output", "correct_label",
    "expected_answer", "ideal", "gold", "target", "answer",
)  # fmt: skip


def read_row(row: Cells) -> Mapping[str, Any]:
    """The fields of an output item: the answer of the model, or of the data where answers were uploaded."""
    data, sample = object_of(row.get("datasource_item")), object_of(row.get("sample"))
    data = object_of(data.get("item")) or data
    usage, answer = object_of(sample.get("usage")), sample.get("output")
    expected = next((name for name in EXPECTED if not is_blank(data.get(name))), None)
    others = {name: value for name, value in data.items() if name not in (expected, *IDS)}
    uploaded = choose_member(others, "output", "datasource_item.") if len(others) > 1 else None
    status = str(row.get("status") or "")
    code = object_of(sample.get("error")).get("code")
    return {
        "traceId": row.get("id"),
        "item": next((data[name] for name in IDS if not is_blank(data.get(name))), None),
        "input": sample.get("input") or choose_member(others, "input", "datasource_item."),
        "output": answer or uploaded,
        "expected": data[expected] if expected else None,
        "error": sample.get("error") or (f"status {status}" if status == "error" else None),
        "outcome": TraceOutcome.INFRA_ERROR if code in OF_THE_PROVIDER else None,
        "passed": {"pass": 1.0, "passed": 1.0, "fail": 0.0, "failed": 0.0}.get(status),
        "inputTokens": usage.get("prompt_tokens", usage.get("input_tokens")),
        "outputTokens": usage.get("completion_tokens", usage.get("output_tokens")),
        "model": sample.get("model"),
        "scores": {
            RANDOM_ID.sub("", str(result.get("name"))): result.get("passed")
            if result.get("score") is None
            else result["score"]
            for result in objects_of(row.get("results"))
        },
    }


register_tool(
    "openai-evals-api",
    "output items of the Evals API of OpenAI",
    lambda row: row.get("object") == OBJECT,
    ToolTable(
        compute=read_row,
        used=(
            "object", "id", "status", "sample", "results", "datasource_item", "datasource_item_id", "eval_id",
            "run_id", "created_at",
        ),
    ),
)  # fmt: skip
