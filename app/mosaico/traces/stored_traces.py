"""Reads collected traces as rows, and decodes each row when its trace is used."""

from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Any, Final, TypeAlias, overload

from sqlalchemy.orm import Session

from mosaico.core.db import fetch_tuples
from mosaico.traces.types import OUTCOMES, ToolCall, Trace

TraceRow: TypeAlias = tuple[Any, ...]

# The columns of `collected_traces` in the order of the fields of `Trace`.
COLUMNS: Final = (
    "trace_id", "item_id", "trial", "outcome", "input", "expected_output", "output", "error", "tags",
    "attributes", "url", "input_tokens", "output_tokens", "cost_usd", "latency_ms", "tool_calls",
    "turns", "scores", "expected_any", "expected_all",
)  # fmt: skip
_SELECT: Final = f"""
    SELECT {", ".join(COLUMNS)} FROM collected_traces
    WHERE collection_id = %s AND position BETWEEN %s AND %s ORDER BY position
"""  # noqa: S608 - only constants
_fields_of = attrgetter(*COLUMNS)


class StoredTraces(Sequence[Trace]):
    """Traces as rows of `collected_traces`; each access decodes its row again.

    The process that reads the rows often only hands them to the process that measures: a row is
    pickled ten times faster than a trace, and is not decoded in between.
    """

    __slots__ = ("_rows",)

    def __init__(self, rows: Sequence[TraceRow]) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> Trace: ...
    @overload
    def __getitem__(self, index: slice) -> "StoredTraces": ...
    def __getitem__(self, index: int | slice) -> "Trace | StoredTraces":
        if isinstance(index, slice):
            return StoredTraces(self._rows[index])
        return _trace_of(self._rows[index])

    def __iter__(self) -> Iterator[Trace]:
        return (_trace_of(row) for row in self._rows)


def read_traces(
    session: Session, collection_id: int, first_position: int, last_position: int
) -> StoredTraces:
    """The collected traces in a range of positions, both ends included, in order."""
    parameters = (collection_id, first_position, last_position)
    return StoredTraces(fetch_tuples(session, _SELECT, parameters))


def trace_from_row(row: Any) -> Trace:
    """The trace of a row of `collected_traces` with named columns."""
    return _trace_of(_fields_of(row))


def _trace_of(row: TraceRow) -> Trace:
    # Field by field: a dictionary of them takes twice as long, and each trace of a run comes here.
    (
        trace_id, item_id, trial, outcome, input_text, expected_output, output, error, tags, attributes,
        url, input_tokens, output_tokens, cost_usd, latency_ms, calls, turns, scores, expected_any, expected_all,
    ) = row  # fmt: skip
    return Trace(
        trace_id=trace_id,
        item_id=item_id,
        trial=trial,
        outcome=OUTCOMES[outcome],
        input=input_text,
        expected_output=expected_output,
        output=output,
        error=error,
        tags=tuple(tags),
        attributes=attributes or {},
        url=url,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        cost_usd=cost_usd,
        latency_ms=latency_ms,
        tool_calls=None if calls is None else tuple(ToolCall(**call) for call in calls),
        turns=turns,
        scores=scores or {},
        expected_any=tuple(expected_any or ()),
        expected_all=tuple(expected_all or ()),
    )
