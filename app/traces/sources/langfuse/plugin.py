"""`langfuse` among the trace sources."""

from app.traces.registry import TRACE_SOURCES, SourceSpec, TraceQuery
from app.traces.sources.langfuse.check import check
from app.traces.sources.langfuse.client import turn_of
from app.traces.sources.langfuse.listing import list_runs
from app.traces.sources.langfuse.source import LangfuseSource
from app.traces.sources.langfuse.writing import write_scores


def lock_of(query: TraceQuery) -> str | None:
    """Collections and written scores with one key follow each other, in however many workers."""
    return turn_of((query.url or "").rstrip("/"), query.public_key or "")


TRACE_SOURCES.register(
    "langfuse",
    SourceSpec(
        open=lambda resources: LangfuseSource(resources=resources),
        lock=lock_of,
        check=check,
        list_runs=list_runs,
        write_scores=write_scores,
    ),
)
