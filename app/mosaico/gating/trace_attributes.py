"""The attributes of a trace of a file, as the service stores those of its runs."""

import hashlib

from mosaico.items.attributes import AttributeRow
from mosaico.traces.types import Trace


def attributes_of(trace: Trace) -> AttributeRow:
    tokens = (trace.input_tokens, trace.output_tokens)
    return AttributeRow(
        item_id=trace.item_id,
        revision=_revision(trace),
        tags=trace.all_tags,
        outcome=trace.outcome,
        tools=[call.name for call in trace.tool_calls or ()],
        usage=(
            trace.latency_ms,
            None if None in tokens else float(sum(filter(None, tokens))),
            trace.cost_usd,
        ),
        failed_tools=[call.name for call in trace.tool_calls or () if call.ok is False],
        prompt_size=trace.input_tokens,
    )


def _revision(trace: Trace) -> str:
    """The digest of an item's task, as `items.queries.REVISION` computes it."""
    task_tags = ",".join(sorted(tag for tag in trace.tags if tag.startswith("task:")))
    references = "\n".join((*trace.expected_any, *trace.expected_all))
    task = f"{trace.expected_output or ''}{references}{task_tags}"
    return hashlib.md5(task.encode(), usedforsecurity=False).hexdigest()
