"""Any table: one row is one result, and what is not is said."""

import csv
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mosaico.core.errors import AppError
from mosaico.traces.files.read_options import ReadOptions
from mosaico.traces.references import ListRule
from tests.support.import_files import Imported, import_path, read_rows, write_json_lines

SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6)
WORDS = st.sampled_from(
    [
        "a",
        "7",
        "error",
        "ok",
        "True",
        "0",
        "Mean",
        "total",
        "85 %",
        "1,5",
        "$3",
        "KeyError: 'x'",
        "f1",
    ]
)
MESSAGES = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["user", "assistant"]), "content": st.text(max_size=3)}
    ),
    max_size=3,
)
CELLS = st.recursive(
    SCALARS | WORDS | MESSAGES,
    lambda cells: (
        st.lists(cells, max_size=3)
        | st.dictionaries(
            st.sampled_from(["text", "answer", "role", "content", "x"]), cells, max_size=3
        )
    ),
    max_leaves=6,
)
COLUMNS = st.sampled_from(
    [
        *("id", "answer", "output", "gold", "expected", "question", "score", "tone", "trial", "cost", "tags"),
        *("error", "status", "metric", "model", "messages", "generations", "passed", "Antwort", "耗时", "x"),
    ]
)  # fmt: skip
TABLES = st.lists(st.dictionaries(COLUMNS, CELLS, max_size=6), min_size=1, max_size=6)


def require_every_row(table: Imported, row_count: int) -> None:
    """Each row is one result; what is more or less is said, and so are rows that share an item."""
    said = " ".join(table.lines)
    lost = sum(table.lost.values())
    if len(table.traces) != row_count - lost:
        assert len(table.traces) > row_count - lost
        assert "generations" in said
        assert "are its trials" in said
    items = Counter(trace.item_id for trace in table.traces)
    if max(items.values(), default=0) > 1 and "trial" not in table.columns:
        assert "are its trials" in said


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(TABLES, st.booleans())
def test_any_table__one_row_is_one_result_or_an_error_says_why(
    tmp_path: Path, rows: list[dict[str, Any]], is_csv: bool
) -> None:
    path = (
        write_cells(tmp_path / "a.csv", rows)
        if is_csv
        else write_json_lines(tmp_path / "a.jsonl", *rows)
    )
    try:
        table = import_path(path, options=ReadOptions(expected=ListRule.ANY))
    except AppError:
        return
    # Lines of CSV without any cell are no rows.
    assert table.row_count == len(rows) or is_csv
    require_every_row(table, table.row_count)


def write_cells(path: Path, rows: list[dict[str, Any]]) -> Path:
    """Rows as CSV; objects and lists are JSON texts."""
    header = list(dict.fromkeys(name for row in rows for name in row)) or ["x"]
    with path.open("w", newline="", encoding="utf-8", errors="replace") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows([csv_cell(row.get(name)) for name in header] for row in rows)
    return path


def csv_cell(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else json.dumps(value)


def test_any_table__the_check_can_fail(tmp_path: Path) -> None:
    table = read_rows(tmp_path, {"id": 1, "answer": "x"}, {"id": 1, "answer": "y"})
    require_every_row(table, 2)
    with pytest.raises(AssertionError):
        require_every_row(table, 3)
    table.lines = []
    with pytest.raises(AssertionError):
        require_every_row(table, 2)
