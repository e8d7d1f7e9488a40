"""What an edit changes, and what a version gives a trace."""

from mosaico.traces.datasets.edit_rules import (
    ItemState,
    apply_edit,
    digest_of_question,
    fill_trace,
    storable_item,
)
from mosaico.traces.redaction import RedactionRules, Redactor
from mosaico.traces.types import DatasetItem, Trace

ITEM = DatasetItem(
    id="q1", input="Who?", expected_output="Ann", tags=("hard",), attributes={"category": "names"}
)


def state(item: DatasetItem, *, is_retired: bool = False) -> ItemState:
    question = digest_of_question(item.input)
    return ItemState(item=item, position=0, first_question=question, is_retired=is_retired)


def test_edit__of_an_equal_item_changes_nothing() -> None:
    assert apply_edit({"q1": state(ITEM)}, [ITEM], []).is_empty


def test_edit__of_a_retired_item_adds_it_and_a_second_retirement_is_none() -> None:
    current = {"q1": state(ITEM, is_retired=True)}
    assert apply_edit(current, [ITEM], []).added == [ITEM]
    assert apply_edit(current, [], ["q1"]).is_empty
    assert apply_edit({"q1": state(ITEM)}, [], ["q1", "q1"]).retired == [ITEM]


def test_fill__gives_what_the_trace_lacks() -> None:
    trace = Trace(
        trace_id="t", item_id="q1", output="Ann", tags=("fast",), attributes={"user": "u"}
    )
    filled = fill_trace(trace, ITEM)
    assert (filled.input, filled.expected_output, filled.output) == ("Who?", "Ann", "Ann")
    assert filled.tags == ("fast", "hard")
    assert filled.attributes == {"category": "names", "user": "u"}


def test_fill__keeps_what_the_trace_says() -> None:
    trace = Trace(
        trace_id="t", item_id="q1", input="", expected_all=("a", "b"), attributes={"category": "own"}
    )  # fmt: skip
    filled = fill_trace(trace, ITEM)
    assert (filled.input, filled.expected_output) == ("", None)
    assert (filled.expected_all, filled.attributes) == (("a", "b"), {"category": "own"})


def test_storable__is_redacted_and_has_no_tag_of_a_task_and_no_empty_answer() -> None:
    item = DatasetItem(
        id="q1", input="I am ada@x.org", expected_output="", expected_any=("", "ada@x.org"),
        tags=("task:1", "hard"),
    )  # fmt: skip
    stored = storable_item(item, Redactor(RedactionRules(patterns=["[a-z]+@[a-z.]+"])))
    assert stored.id == "q1"
    assert "@" not in stored.input + "".join(stored.expected_any)
    assert (stored.expected_output, len(stored.expected_any), stored.tags) == (None, 1, ("hard",))
