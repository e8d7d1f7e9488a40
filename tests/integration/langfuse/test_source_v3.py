"""The same runs from a server of the third generation, and from one of both."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import chain, cycle, repeat

import pytest

from app.traces.registry import CollectionFailed
from app.traces.types import ToolCall, Trace, TraceOutcome
from tests.integration.langfuse.collecting import collected
from tests.integration.langfuse.test_source import ODD_NAMES
from tests.support.langfuse import ScorePlan, StandIn
from tests.support.langfuse.mishaps import ALWAYS, Changed, FirstPageAgain, Says, TimedOut
from tests.support.langfuse.records import JSON, SOME_NIGHT

TONE = ScorePlan(name="Tone", value=0.5)


def test_an_item_of_a_run_becomes_a_trace(langfuse_v3: StandIn) -> None:
    langfuse_v3.experiment(items=1, tools_per_item=1, nested=True, judged=True, scores=[TONE])
    [trace] = collected(langfuse_v3).traces
    # As from the v4 API: two calls of 100 tokens in, 23 and 24 out; no judge.
    assert trace == Trace(
        trace_id="00000001000000000000000000000000",
        item_id="dataset-1-0",
        input="question 0",
        expected_output="answer 0",
        output="answer 0",
        url=f"{langfuse_v3.url}/project/project-1/traces/00000001000000000000000000000000",
        input_tokens=200,
        output_tokens=47,
        cost_usd=0.002,
        latency_ms=1200.0,
        tool_calls=(ToolCall(name="tool-0", ok=True, latency_ms=50.0),),
        turns=2,
        scores={"Tone": 0.5},
    )


def test_values_are_texts_in_the_form_that_the_other_api_gives(langfuse_v3: StandIn) -> None:
    langfuse_v3.experiment(
        items=1,
        input_of=lambda number: {"b": number, "a": [1]},
        output_of=lambda _: None,
        expected_of=lambda number: number,
    )
    [trace] = collected(langfuse_v3).traces
    assert (trace.input, trace.output, trace.expected_output) == ('{"a": [1], "b": 0}', None, "0")


@pytest.mark.parametrize("name", [name for name in ODD_NAMES if name not in (".", "..")])
def test_names_may_hold_any_character(langfuse_v3: StandIn, name: str) -> None:
    langfuse_v3.experiment(dataset=name, run=name, items=2)
    langfuse_v3.experiment(dataset=name, run="another", items=3)
    assert len(collected(langfuse_v3, dataset_ref=name, run_name=name).traces) == 2


@pytest.mark.parametrize("name", [".", ".."])
def test_a_run_may_have_a_name_that_no_address_can_hold(langfuse_v3: StandIn, name: str) -> None:
    langfuse_v3.experiment(run=name, items=120)
    langfuse_v3.experiment(run="another", items=3)
    assert len(collected(langfuse_v3, run_name=name).traces) == 120


def test_a_dataset_with_a_name_that_no_address_can_hold_is_told(langfuse_v3: StandIn) -> None:
    langfuse_v3.experiment(dataset="..", items=2)
    with pytest.raises(
        CollectionFailed, match=r"name '\.\.' cannot be part of a URL; rename"
    ) as caught:
        collected(langfuse_v3, dataset_ref="..")
    assert caught.value.error_code == "BAD_RESPONSE"


def test_a_run_is_found_by_its_id_and_the_newest_without_a_name(langfuse_v3: StandIn) -> None:
    first = langfuse_v3.experiment(run="night-1", items=2)
    langfuse_v3.experiment(run="night-2", items=3)
    assert len(collected(langfuse_v3, run_name=first.id).traces) == 2
    assert len(collected(langfuse_v3).traces) == 3


def test_a_task_that_raised_is_a_failure(langfuse_v3: StandIn) -> None:
    langfuse_v3.experiment(items=2, errors={1})
    failed = collected(langfuse_v3).by_item["dataset-1-1"]
    assert failed.outcome is TraceOutcome.AGENT_ERROR
    assert (failed.output, failed.error) == (None, "the agent gave up")


def test_an_item_that_was_deleted_since_has_its_expected_output_as_of_the_run(
    langfuse_v3: StandIn,
) -> None:
    langfuse_v3.dataset("support", items=3, deleted={1}, changed_at=SOME_NIGHT + timedelta(days=1))
    langfuse_v3.experiment(items=3)
    assert collected(langfuse_v3).by_item["dataset-1-1"].expected_output == "answer 1"


def test_an_item_that_was_gone_before_the_run_is_marked(langfuse_v3: StandIn) -> None:
    langfuse_v3.dataset("support", items=3, deleted={1}, changed_at=SOME_NIGHT - timedelta(days=1))
    langfuse_v3.experiment(items=3)
    found = collected(langfuse_v3).by_item
    gone, there = found["dataset-1-1"], found["dataset-1-2"]
    assert (gone.expected_output, gone.tags) == (None, ("expected-output-gone",))
    assert (there.expected_output, there.tags) == ("answer 2", ())


@pytest.mark.parametrize("items", [1, 230])
def test_requests_are_made_for_a_hundred_traces_at_a_time(langfuse_v3: StandIn, items: int) -> None:
    langfuse_v3.experiment(items=items, calls_per_item=1)
    assert len(collected(langfuse_v3).traces) == items
    pages = -(-items // 100)
    # Three spans a trace; traces, scores and dataset items once for each hundred.
    spans = -(-3 * items // 100) + pages
    assert len(langfuse_v3.asked) <= 3 * pages + spans + 6
    assert langfuse_v3.most_in_flight <= 8


def test_reading_goes_on_after_any_page(langfuse_v3: StandIn) -> None:
    langfuse_v3.experiment(items=250)
    pages = collected(langfuse_v3).pages
    langfuse_v3.forget()
    again = collected(langfuse_v3, pages[0].cursor)
    assert again.traces == [trace for page in pages[1:] for trace in page.traces]
    assert len(langfuse_v3.asked_for("/traces")) == 2


def test_a_server_that_cannot_answer_so_much_is_asked_for_fewer_traces(
    langfuse_v3: StandIn,
) -> None:
    langfuse_v3.experiment(items=40)

    ids_above = Says(status=422, content={"message": "Request timed out"})
    langfuse_v3.inject(ids_above, path="/traces", on={1, 2, 3})
    assert len(collected(langfuse_v3).traces) == 40


def test_a_dataset_that_is_too_large_by_the_hundred_is_read_in_smaller_pages(
    langfuse_v3: StandIn,
) -> None:
    langfuse_v3.experiment(items=130)
    langfuse_v3.inject(TimedOut(above=30), path="/dataset-items", on=ALWAYS)
    expected = {
        item: trace.expected_output for item, trace in collected(langfuse_v3).by_item.items()
    }
    assert expected == {f"dataset-1-{number}": f"answer {number}" for number in range(130)}


def test_a_trace_whose_calls_are_too_large_by_the_hundred_is_read_in_smaller_pages(
    langfuse_v3: StandIn,
) -> None:
    langfuse_v3.experiment(items=2, calls_per_item=130)
    langfuse_v3.inject(TimedOut(above=30), path="/observations", on=ALWAYS)
    assert [trace.turns for trace in collected(langfuse_v3).traces] == [130, 130]


def test_a_server_that_knows_no_filters_is_asked_trace_by_trace(langfuse_v3: StandIn) -> None:
    langfuse_v3.experiment(items=3)
    langfuse_v3.inject(Says(status=200, content={"data": [], "meta": {}}), path="/traces")
    assert len(collected(langfuse_v3).traces) == 3


def test_a_server_of_both_generations_is_asked_for_the_newer_one_first(
    langfuse_dual: StandIn,
) -> None:
    langfuse_dual.experiment(run="by SDK 5", items=2)
    langfuse_dual.experiment(run="by hand", items=3, linked_by="run_items")
    assert len(collected(langfuse_dual, run_name="by SDK 5").traces) == 2
    assert not langfuse_dual.asked_for("/datasets/support/runs/by%20SDK%205")
    assert len(collected(langfuse_dual, run_name="by hand").traces) == 3


def test_what_is_not_there_is_told(langfuse_v3: StandIn) -> None:
    with pytest.raises(CollectionFailed) as caught:
        collected(langfuse_v3, dataset_ref="absent")
    assert caught.value.error_code == "DATASET_NOT_FOUND"
    langfuse_v3.experiment(items=1)
    with pytest.raises(CollectionFailed, match=r"v3.*'night-1'") as caught:
        collected(langfuse_v3, run_name="absent")
    assert caught.value.error_code == "RUN_NOT_FOUND"


def test_a_server_that_never_has_time_is_given_up(langfuse_v3: StandIn) -> None:
    langfuse_v3.experiment(items=2)
    langfuse_v3.inject(TimedOut(), path="/traces", on=range(1, 100))
    with pytest.raises(CollectionFailed) as caught:
        collected(langfuse_v3)
    assert caught.value.error_code == "LANGFUSE_UNAVAILABLE"


@pytest.mark.parametrize(
    "told",
    [repeat(0), repeat(1), repeat(1_000_000), cycle([1, 3, 0]), chain([9, 7], repeat(2))],
    ids=["none", "too few", "too many", "changing", "fewer and fewer"],
)
def test_the_rows_tell_where_a_list_ends_whatever_the_server_counts(
    langfuse_v3: StandIn, told: Iterator[int]
) -> None:
    langfuse_v3.experiment(items=130, calls_per_item=3)
    langfuse_v3.inject(TimedOut(), path="/datasets/support/runs/night-1", on=ALWAYS)
    langfuse_v3.inject(Changed(change=counting(told)), on=ALWAYS)
    traces = collected(langfuse_v3).traces
    assert len({trace.trace_id for trace in traces}) == 130
    assert {trace.turns for trace in traces} == {3}
    assert all(trace.expected_output == trace.output for trace in traces)
    # Twice the items of the run, once those of the dataset: at most eight ahead of the end. 650
    # spans by the hundred of their traces: five pages and an empty one, two pages.
    assert len(langfuse_v3.asked) <= 3 * (2 + 8) + 8 + 20


def counting(told: Iterator[int]) -> Callable[[JSON], None]:
    def change(answer: JSON) -> None:
        if "meta" in answer:
            answer["meta"]["totalPages"] = next(told)

    return change


def test_a_list_that_never_goes_on_is_an_error_and_no_endless_reading(
    langfuse_v3: StandIn,
) -> None:
    langfuse_v3.experiment(items=30, calls_per_item=3)
    langfuse_v3.inject(FirstPageAgain(), path="/observations", on=ALWAYS)
    with pytest.raises(CollectionFailed, match="same page of observations twice") as caught:
        collected(langfuse_v3)
    assert caught.value.error_code == "BAD_RESPONSE"
    assert len(langfuse_v3.asked_for("/observations")) == 2


@pytest.mark.parametrize("since", [timedelta(seconds=5), timedelta(days=1)], ids=str)
def test_a_run_without_an_item_has_no_traces_however_young_it_is(
    langfuse_v3: StandIn, since: timedelta
) -> None:
    run = langfuse_v3.experiment(items=0)
    with pytest.raises(CollectionFailed, match="has no traces") as caught:
        collected(langfuse_v3, now=run.ends + since)
    assert caught.value.error_code == "NO_TRACES"
