"""Output items of the Evals API of OpenAI, as JSON Lines and as its list.

The ID of an item is that of the run, and `datasource_item_id` a position: items are paired by an ID inside of the data, else
by their question. The names of graders end with a random ID, which is left out. Source: the types of openai-python 2.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from mosaico.traces.files.column_words import most_certain
from mosaico.traces.files.imported_values import object_of
from mosaico.traces.files.tool_cells import choose_member, fields_of_example, named_scores, usage_of
from mosaico.traces.files.tool_tables import Cells, ToolTable, register_tool
from mosaico.traces.types import TraceOutcome

OBJECT: Final = "eval.run.output_item"
DATA: Final = "datasource_item."
RANDOM_ID: Final = re.compile(r"[-_ ][0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$")
OF_THE_PROVIDER: Final = frozenset({"server_error", "rate_limit_exceeded", "timeout"})


def read_row(row: Cells) -> Mapping[str, Any]:
    """The fields of an output item: the answer of the model, or of the data where answers were uploaded."""
    data, sample = object_of(row.get("datasource_item")), object_of(row.get("sample"))
    data = object_of(data.get("item")) or data
    answer = sample.get("output")
    fields = fields_of_example(data, DATA)
    expected = getattr(fields["expected"], "name", None)
    others = {name: value for name, value in data.items() if f"{DATA}{name}" != expected}
    uploaded = choose_member(others, "output", DATA) if most_certain(others, "output") else None
    status = str(row.get("status") or "")
    results = named_scores(row.get("results"), values=("score", "passed"))
    code = object_of(sample.get("error")).get("code")
    return {
        "traceId": row.get("id"),
        **fields,
        "input": sample.get("input") or fields["input"],
        "output": answer or uploaded,
        "error": sample.get("error") or (f"status {status}" if status == "error" else None),
        "outcome": TraceOutcome.INFRA_ERROR if code in OF_THE_PROVIDER else None,
        "passed": {"pass": 1.0, "passed": 1.0, "fail": 0.0, "failed": 0.0}.get(status),
        **usage_of(sample.get("usage")),
        "model": sample.get("model"),
        "scores": {RANDOM_ID.sub("", name): score for name, score in results.items()},
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
