"""Binary COPY rows read back as they were written."""

import struct

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import text

from app.core.bulk_copy import copy_encoded_rows
from app.core.db import Database
from app.metrics.types import MetricNote
from app.runs.shards import RESULT_COLUMNS, encode_row

finite = st.floats(allow_nan=False, allow_infinity=False)
# Postgres stores neither NUL nor lone surrogates in a text.
notes = st.none() | st.dictionaries(
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])),
    st.just(MetricNote(reason="é")),
)


def test_encode_row__is_the_binary_copy_format() -> None:
    # 4 fields: int8 7 | int4 1 | float8[] {0.5, NULL} with one dimension of 2 from 1 | NULL
    expected = struct.pack(">h iq ii", 4, 8, 7, 4, 1)
    # 701 is the OID of float8, and a length of -1 means NULL.
    expected += struct.pack(">i iiiii id i", 36, 1, 1, 701, 2, 1, 8, 0.5, -1)
    expected += struct.pack(">i", -1)
    assert encode_row(7, 1, [0.5, None], None) == expected


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30, deadline=None
)
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
