"""Files of items: an export reads back as the same items, and other files as what their columns say."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mosaico.traces.datasets.errors import UnreadableItems
from mosaico.traces.datasets.items_file import ItemsFormat, read_items_file, write_items
from mosaico.traces.types import DatasetItem

# What ends cells, quotes, begins formulas, or is itself an escape.
SPECIAL = (
    "=1",
    "'=1",
    "''x",
    "'tis",
    "-",
    "+1",
    "\t=",
    "\r\n a",
    "a\rb",
    ' "q",',
    '{"a": 1}',
    "null",
)
TEXTS = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=9),
    st.sampled_from(SPECIAL),
)  # fmt: skip
ITEMS = st.builds(
    DatasetItem,
    id=TEXTS,
    input=TEXTS,
    expected_output=st.none() | TEXTS,
    expected_any=st.lists(TEXTS, max_size=2).map(tuple),
    expected_all=st.lists(TEXTS, max_size=2).map(tuple),
    tags=st.lists(st.sampled_from(["a", "b:c"]), max_size=2).map(tuple),
    attributes=st.dictionaries(TEXTS, TEXTS, max_size=2),
)


@given(items=st.lists(ITEMS, min_size=1, max_size=4), file_format=st.sampled_from(["csv", "jsonl"]))
def test_export__reads_back_as_the_same_items(
    items: list[DatasetItem], file_format: ItemsFormat
) -> None:
    content = "".join(write_items(items, file_format)).encode()
    assert read_items_file("items", io.BytesIO(content)) == (items, frozenset())


def test_export__has_no_cell_that_a_spreadsheet_runs() -> None:
    lines = list(write_items([DatasetItem(id="=1+1", input="@SUM(A1)")], "csv"))
    assert lines[1].startswith("'=1+1,'@SUM(A1),")


def test_table_of_a_user__is_read_by_its_columns() -> None:
    table = b"id,question,answer\nq1,Who?,Ann\n"
    assert read_items_file("questions.csv", io.BytesIO(table)) == (
        [DatasetItem(id="q1", input="Who?", expected_output="Ann")],
        frozenset({"q1"}),
    )


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"PK\x03\x04rest", "not a text file"),
        (b"id,input,expectedOutput,expectedAny,expectedAll,tags,attributes\nq1,a\n", "line 2"),
        (b"id,input,expectedOutput,expectedAny,expectedAll,tags,attributes\nq1,a,,[,,,\n", "line 2"),
        (b'{"id": "q1", "input": "a"}\n{"id": "q2"}\n', "line 2"),
        (b'{"id": "q1", "input": "a"}\nnonsense\n', "line 2"),
    ],
    ids=["packed", "cells", "document", "field", "line"],
)  # fmt: skip
def test_file__that_is_no_export_names_its_line(content: bytes, reason: str) -> None:
    with pytest.raises(UnreadableItems, match=reason):
        read_items_file("items.csv", io.BytesIO(content))
