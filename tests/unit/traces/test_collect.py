"""Collection of a source: order, end and storable texts."""

import json
import math
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mosaico.traces.registry import CollectionFailed, TracePage, TraceQuery, collect
from mosaico.traces.storable_traces import MAX_TEXT_CHARS, make_storable
from mosaico.traces.types import ToolCall, Trace, TraceOutcome

QUERY = TraceQuery(dataset_ref="support", run_name=None)
# With lone surrogates, which `st.text()` leaves out.
ANY_TEXT = st.text(st.characters(codec=None, categories=None), max_size=20)


class PageSource:
    """A source with fixed pages."""

    def __init__(self, *pages: TracePage) -> None:
        self._pages = pages

    def pages(self, _query: TraceQuery, _cursor: str | None) -> Iterator[TracePage]:
        yield from self._pages


def page(cursor: str | None, *trace_ids: str) -> TracePage:
    traces = tuple(Trace(trace_id=trace_id, item_id=trace_id) for trace_id in trace_ids)
    return TracePage(traces=traces, cursor=cursor)


def test_collect__pages_keep_the_order_of_the_source() -> None:
    pages = [page("1", "a", "b"), page("2"), page(None, "c")]
    assert list(collect(PageSource(*pages), QUERY, None)) == pages


def test_collect__repeated_cursor_raises() -> None:
    pages = collect(PageSource(page("1", "a"), page("2", "b"), page("1", "a")), QUERY, None)
    # A source that returns to an earlier page would be read for ever.
    assert [next(pages).cursor, next(pages).cursor] == ["1", "2"]
    with pytest.raises(CollectionFailed, match="the same page twice") as caught:
        next(pages)
    assert caught.value.error_code == "BAD_RESPONSE"
    with pytest.raises(CollectionFailed):
        list(collect(PageSource(page("5", "a")), QUERY, "5"))


def test_collect__too_long_trace_ids_end_with_a_digest() -> None:
    """One malformed trace does not end a run."""
    longest, *too_long = "t" * 256, "t" * 257, "t" * 300
    [stored] = collect(PageSource(page(None, longest, *too_long)), QUERY, None)

    trace_ids = [trace.trace_id for trace in stored.traces]
    assert trace_ids[0] == longest
    assert len(set(trace_ids)) == 3
    assert all(len(trace_id) <= 256 for trace_id in trace_ids)
    assert make_storable(Trace(trace_id=too_long[0], item_id="i")).trace_id == trace_ids[1]


@pytest.mark.parametrize("trace_id", [".", ".."])
def test_make_storable__trace_id_that_no_address_can_contain_is_an_infrastructure_error(
    trace_id: str,
) -> None:
    """A browser opens another page than `/traces/..`."""
    trace = make_storable(Trace(trace_id=trace_id, item_id="case\x001", output="yes", trial=2))
    assert (trace.trace_id, trace.outcome) == (f"malformed-{trace_id}", TraceOutcome.INFRA_ERROR)
    assert (trace.item_id, trace.trial, trace.output) == ("case\ufffd1", 2, None)
    assert trace.error is not None
    assert repr(trace_id) in trace.error
    kept = Trace(trace_id="...", item_id="case", output="yes")
    assert make_storable(kept) is kept


@pytest.mark.parametrize(
    ("trial", "stored"), [(-1, 0), (0, 0), (32_767, 32_767), (32_768, 0), (2**40, 0)]
)
def test_make_storable__trial_out_of_range_is_zero(trial: int, stored: int) -> None:
    assert make_storable(Trace(trace_id="t", item_id="i", trial=trial)).trial == stored


def test_collect__heartbeats_may_repeat_a_cursor() -> None:
    # A harness sends empty pages while its agents work: the lease
    # of the run must be renewed meanwhile.
    pages = [page("1"), page("1"), page("2", "a"), page("2"), page("2"), page(None, "b")]
    assert list(collect(PageSource(*pages), QUERY, "1")) == pages


def test_make_storable__replaces_nul_and_lone_surrogates_everywhere() -> None:
    bad, good = "a\0b\ud800c", "a\ufffdb\ufffdc"
    trace = make_storable(
        Trace(
            trace_id=bad,
            item_id=bad,
            input=bad,
            expected_output=bad,
            output=bad,
            error=bad,
            tags=(bad, "fine"),
            url=bad,
            tool_calls=(ToolCall(name=bad, arguments={bad: [bad, {"n": math.nan, "i": 1}]}),),
            scores={bad: 1.0, "infinite": math.inf, "none": math.nan},
        )
    )
    assert trace == Trace(
        trace_id=good,
        item_id=good,
        input=good,
        expected_output=good,
        output=good,
        error=good,
        tags=(good, "fine"),
        url=good,
        tool_calls=(ToolCall(name=good, arguments={good: [good, {"n": None, "i": 1}]}),),
        scores={good: 1.0},
    )


def test_make_storable__joins_a_surrogate_pair() -> None:
    trace = make_storable(Trace(trace_id="t", item_id="t", output="\ud83d\ude00"))
    # JSON of some clients has the two halves of a character as two escapes.
    assert trace.output == "😀"


def test_make_storable__long_text_is_truncated_with_a_note() -> None:
    fits = "é" * MAX_TEXT_CHARS
    assert make_storable(Trace(trace_id="t", item_id="t", output=fits)).output == fits
    cut = make_storable(Trace(trace_id="t", item_id="t", output=fits + "xyz")).output
    assert cut == f"{fits}… [3 characters cut]"


def test_make_storable__numbers_out_of_range_become_none() -> None:
    def stored_numbers(**numbers: float) -> list[object]:
        trace = make_storable(Trace(trace_id="t", item_id="t", **numbers))  # type: ignore[arg-type]
        return [getattr(trace, name) for name in numbers]

    assert stored_numbers(input_tokens=2**63, output_tokens=-1, turns=2**31) == [None] * 3
    assert stored_numbers(cost_usd=float("nan"), latency_ms=float("inf")) == [None] * 2
    most = {"input_tokens": 2**63 - 1, "output_tokens": 0, "turns": 2**31 - 1, "cost_usd": 0.0}
    assert stored_numbers(**most) == list(most.values())


def test_make_storable__storable_trace_is_the_same_object() -> None:
    trace = Trace(trace_id="t", item_id="t", input="é😀", output="", error=None)
    # Nearly every trace is storable: a copy of each would cost more than the check.
    assert make_storable(trace) is trace


@given(st.text(st.characters(), max_size=20) | ANY_TEXT)
def test_make_storable__any_text_becomes_storable(text: str) -> None:
    trace = make_storable(
        Trace(
            trace_id="t",
            item_id="t",
            output=text,
            tags=(text,),
            tool_calls=(ToolCall(name=text, arguments={"a": text}),),
        )
    )
    assert trace.output is not None
    assert trace.tool_calls is not None
    for cleaned in (trace.output, *trace.tags, trace.tool_calls[0].name):
        assert "\0" not in cleaned
        cleaned.encode()
    json.dumps(trace.tool_calls[0].arguments, ensure_ascii=False).encode()
    if "\0" not in text and not any(0xD800 <= ord(char) <= 0xDFFF for char in text):
        assert trace.output == text
