"""Binary COPY rows read back as they were written."""

import struct

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import text

from mosaico.core.bulk_copy import copy_encoded_rows
from mosaico.core.db import Database
from mosaico.metrics.types import MetricNote
from mosaico.runs.shards import RESULT_COLUMNS, encode_row
from mosaico.traces.service import create_collection
from mosaico.traces.stored_traces import read_traces
from mosaico.traces.trace_rows import (
    EMPTY_DIGEST,
    TRACE_COLUMNS,
    encode_trace,
    extend_digest,
    trace_row,
)
from mosaico.traces.types import ToolCall, Trace, TraceOutcome

finite = st.floats(allow_nan=False, allow_infinity=False)
# Postgres stores neither NUL nor lone surrogates in a text.
texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
notes = st.none() | st.dictionaries(texts, st.just(MetricNote(reason="é")))
calls = st.builds(ToolCall, name=texts, arguments=st.none() | st.dictionaries(texts, texts))
traces = st.builds(
    Trace,
    trace_id=st.uuids().map(str),
    item_id=texts,
    trial=st.integers(0, 2**15 - 1),
    outcome=st.sampled_from(TraceOutcome),
    input=st.none() | texts,
    output=st.none() | texts,
    tags=st.lists(texts).map(tuple),
    attributes=st.dictionaries(texts, texts),
    input_tokens=st.none() | st.integers(0, 2**63 - 1),
    cost_usd=st.none() | finite,
    tool_calls=st.none() | st.lists(calls, max_size=2).map(tuple),
    turns=st.none() | st.integers(0, 2**31 - 1),
    # A number of jsonb is decimal: a large float is read back as another one.
    scores=st.dictionaries(texts, st.floats(0, 1), max_size=2),
)


def test_encode_row__is_the_binary_copy_format() -> None:
    # 4 fields: int8 7 | int4 1 | float8[] {0.5, NULL} with one dimension of 2 from 1 | NULL
    expected = struct.pack(">h iq ii", 4, 8, 7, 4, 1)
    # 701 is the OID of float8, and a length of -1 means NULL.
    expected += struct.pack(">i iiiii id i", 36, 1, 1, 701, 2, 1, 8, 0.5, -1)
    expected += struct.pack(">i", -1)
    assert encode_row(7, 1, [0.5, None], None) == expected


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(
        st.tuples(st.lists(finite | st.none(), min_size=1, max_size=7), notes),
        min_size=1,
        max_size=5,
    )
)
def test_encode_row__rows_read_back_as_written(
    migrated_database: Database, rows: list[tuple[list[float | None], dict[str, MetricNote] | None]]
) -> None:
    encoded = [encode_row(1, at, values, why) for at, (values, why) in enumerate(rows)]
    with migrated_database.begin() as session:
        session.execute(text("DELETE FROM trace_results"))
        copy_encoded_rows(session, "trace_results", RESULT_COLUMNS, encoded)
        read = session.execute(
            text('SELECT "values", notes FROM trace_results ORDER BY position')
        ).all()
    assert [tuple(row) for row in read] == rows


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(written=st.lists(traces, min_size=1, max_size=4))
def test_encode_trace__traces_read_back_as_written(
    migrated_database: Database, written: list[Trace]
) -> None:
    with migrated_database.begin() as session:
        collection_id = create_collection(session, "local", {}).id
        rows = [
            trace_row(collection_id, at, encode_trace(trace)) for at, trace in enumerate(written)
        ]
        copy_encoded_rows(session, "collected_traces", TRACE_COLUMNS, rows)
        assert list(read_traces(session, collection_id, 0, 10)) == written


@given(first=traces, second=traces)
def test_extend_digest__of_equal_traces_in_the_same_order_only(first: Trace, second: Trace) -> None:
    encoded_first, encoded_second = encode_trace(first), encode_trace(second)
    digest = extend_digest(extend_digest(EMPTY_DIGEST, encoded_first), encoded_second)
    assert digest == extend_digest(extend_digest(EMPTY_DIGEST, encode_trace(first)), encoded_second)
    if first != second:
        assert digest != extend_digest(extend_digest(EMPTY_DIGEST, encoded_second), encoded_first)
        assert extend_digest(EMPTY_DIGEST, encoded_first) != extend_digest(
            EMPTY_DIGEST, encoded_second
        )
