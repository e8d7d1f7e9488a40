"""A run of an experiment, from Langfuse's v4 API to traces."""

import math
from datetime import datetime, timedelta
from typing import Any

import pytest

from app.traces.registry import CollectionFailed
from app.traces.sources.langfuse.server_cache import SERVER_CACHE, ServerInfo
from app.traces.sources.langfuse.source import LangfuseSource
from app.traces.types import ToolCall, Trace, TraceOutcome
from tests.integration.langfuse.collecting import NOW, collected, query_of, read, resources
from tests.support.langfuse import ScorePlan, StandIn
from tests.support.langfuse.mishaps import Changed, Says

ODD_NAMES = [
    "plain",
    "with, commas, in it",
    "slash/es and %2F",
    "Übung №7 – 試験 🦩",
    "a?b=c&d#e+f",
    " spaces at both ends ",
    'quote " and \\ backslash',
    "../..",
    ".",
    "..",
]
LATE = ScorePlan(name="Late", value=0.75, after=timedelta(days=3))
CHILD = ScorePlan(name="Child", value=0.25, on="call")
TONE = ScorePlan(name="Tone", value=0.5)


def test_a_row_becomes_a_trace_with_all_that_belongs_to_it(langfuse: StandIn) -> None:
    langfuse.experiment(items=1, calls_per_item=2, tools_per_item=1, judged=True, scores=[TONE])
    [trace] = collected(langfuse).traces
    # Two calls of 100 tokens in; 22 and 23 out (20 and the place of the span); 0.001 USD each.
    # The judge's cent is not the agent's.
    assert trace == Trace(
        trace_id="00000001000000000000000000000000",
        item_id="dataset-1-0",
        input="question 0",
        expected_output="answer 0",
        output="answer 0",
        url=f"{langfuse.url}/project/project-1/traces/00000001000000000000000000000000"
        "?observation=0001010000000000",
        input_tokens=200,
        output_tokens=45,
        cost_usd=0.002,
        latency_ms=1200.0,
        tool_calls=(ToolCall(name="tool-0", ok=True, latency_ms=50.0),),
        turns=2,
        scores={"Tone": 0.5},
    )


def test_pages_say_how_many_there_are_and_as_of_when(langfuse: StandIn) -> None:
    langfuse.experiment(items=250)
    found = collected(langfuse)
    assert [len(page.traces) for page in found.pages] == [100, 100, 50]
    assert {page.total for page in found.pages} == {250}
    assert {page.as_of for page in found.pages} == {NOW}
    assert [page.cursor is None for page in found.pages] == [False, False, True]


@pytest.mark.parametrize("name", ODD_NAMES)
def test_names_of_datasets_and_runs_may_hold_any_character(langfuse: StandIn, name: str) -> None:
    langfuse.experiment(dataset=name, run=name, items=2)
    langfuse.experiment(dataset=name, run="another", items=3)
    assert len(collected(langfuse, dataset_ref=name, run_name=name).traces) == 2


def test_a_run_is_found_by_its_id_too(langfuse: StandIn) -> None:
    wanted = langfuse.experiment(run="night-1", items=2)
    langfuse.experiment(run="night-2", items=3)
    assert len(collected(langfuse, run_name=wanted.id).traces) == 2
    assert len(collected(langfuse, dataset_ref=None, run_name=wanted.id).traces) == 2


def test_without_a_name_the_newest_run_of_the_dataset_is_read(langfuse: StandIn) -> None:
    langfuse.experiment(run="night-1", items=2)
    langfuse.experiment(run="night-2", items=3)
    langfuse.experiment(dataset="other", run="night-3", items=4)
    assert len(collected(langfuse).traces) == 3


def test_a_task_that_raised_is_a_failure_and_no_answer(langfuse: StandIn) -> None:
    langfuse.experiment(items=2, errors={1})
    failed = collected(langfuse).by_item["dataset-1-1"]
    assert failed.outcome is TraceOutcome.AGENT_ERROR
    assert (failed.output, failed.error) == (None, "the agent gave up")


def test_a_missing_output_is_missing(langfuse: StandIn) -> None:
    langfuse.experiment(items=1, output_of=lambda _: None, expected_of=lambda _: None)
    [trace] = collected(langfuse).traces
    assert trace.outcome is TraceOutcome.SCORED
    assert (trace.output, trace.expected_output) == (None, None)


def test_objects_are_texts_in_one_form_and_numbers_stay_what_they_look_like(
    langfuse: StandIn,
) -> None:
    langfuse.experiment(
        items=2,
        input_of=lambda number: {"b": number, "a": [1]},
        output_of=str,
        expected_of=lambda number: number,
    )
    trace = collected(langfuse).by_item["dataset-1-1"]
    assert trace.input == '{"a": [1], "b": 1}'
    assert (trace.output, trace.expected_output) == ("1", "1")


def test_calls_deep_below_the_task_are_counted_and_the_judges_are_not(langfuse: StandIn) -> None:
    langfuse.experiment(items=3, calls_per_item=2, nested=True, judged=True)
    assert [trace.cost_usd for trace in collected(langfuse).traces] == [0.002] * 3
    assert [trace.turns for trace in collected(langfuse).traces] == [2] * 3


def test_where_the_time_cannot_tell_the_whole_tree_is_asked_for(langfuse: StandIn) -> None:
    # A thousandth of a second for each item: task, call and judge begin at the same one.
    langfuse.experiment(items=5, nested=True, judged=True, every=timedelta(milliseconds=1))
    assert [trace.cost_usd for trace in collected(langfuse).traces] == [0.002] * 5


def test_a_price_that_nobody_knows_is_not_zero(langfuse: StandIn) -> None:
    langfuse.experiment(items=1, priced=False)
    [trace] = collected(langfuse).traces
    assert trace.cost_usd is None
    assert trace.input_tokens == 200


def test_an_agent_that_tells_of_no_calls_has_no_known_spending(langfuse: StandIn) -> None:
    langfuse.experiment(items=1, calls_per_item=0)
    [trace] = collected(langfuse).traces
    assert (trace.input_tokens, trace.cost_usd, trace.tool_calls) == (None, None, None)
    assert trace.latency_ms == 1200.0


def test_late_scores_and_those_inside_of_a_trace_come_when_they_are_asked_for(
    langfuse: StandIn,
) -> None:
    langfuse.experiment(items=3, scores=[TONE, LATE, CHILD])
    assert [trace.scores for trace in collected(langfuse).traces] == [{"Tone": 0.5}] * 3
    everything = {"Tone": 0.5, "Late": 0.75, "Child": 0.25}
    late = collected(langfuse, late_scores=True)
    assert [trace.scores for trace in late.traces] == [everything] * 3


def test_scores_of_several_pages_are_all_read(langfuse: StandIn) -> None:
    plans = [ScorePlan(name=f"S{number}", value=number, on="call") for number in range(3)]
    langfuse.experiment(items=60, scores=plans)
    found = collected(langfuse, late_scores=True)
    assert {len(trace.scores) for trace in found.traces} == {3}


def test_the_trial_is_read_from_metadata(langfuse: StandIn) -> None:
    def second_try(answer: dict[str, Any]) -> None:
        for row in answer["data"]:
            row["metadata"] |= {"trial": '"2"', "tags": '["blue", "night"]'}

    langfuse.experiment(items=1)
    langfuse.inject(Changed(change=second_try), path="/experiment-items")
    [trace] = collected(langfuse).traces
    assert (trace.trial, trace.tags) == (2, ("blue", "night"))


def test_unknown_fields_and_fields_of_another_type_do_no_harm(langfuse: StandIn) -> None:
    def odd(answer: dict[str, Any]) -> None:
        answer["_deprecation"] = {"sunset": "soon"}
        answer["data"][0] |= {"metadata": None, "scores": None, "endTime": None, "new": [1]}

    langfuse.experiment(items=1)
    langfuse.inject(Changed(change=odd), path="/experiment-items")
    [trace] = collected(langfuse).traces
    assert (trace.latency_ms, trace.scores, trace.output) == (None, {}, "answer 0")
    assert trace.cost_usd == 0.002


def test_pages_shorter_than_asked_for_are_not_the_end(langfuse: StandIn) -> None:
    langfuse.experiment(items=250)
    langfuse.shorten_pages(37)
    assert len({trace.trace_id for trace in collected(langfuse).traces}) == 250


def test_rows_that_were_ingested_twice_are_one_trace_each(langfuse: StandIn) -> None:
    langfuse.experiment(items=150, repeated=2)
    assert len({trace.trace_id for trace in collected(langfuse).traces}) == 150


def test_two_rows_in_one_trace_have_their_own_calls_each(langfuse: StandIn) -> None:
    """The first of them is the one that is stored."""

    def together(answer: dict[str, Any]) -> None:
        newer, older = answer["data"]
        older["traceId"] = newer["traceId"]

    langfuse.experiment(items=2)
    langfuse.inject(Changed(change=together), path="/experiment-items")
    [first, second] = collected(langfuse).traces
    assert first.trace_id == second.trace_id
    # Two calls of 101 tokens in: those of the item with the number 1.
    assert (first.input_tokens, first.cost_usd) == (202, 0.002)


@pytest.mark.parametrize("items", [1, 99, 100, 101, 1_000])
@pytest.mark.parametrize("late", [False, True])
def test_a_run_costs_the_promised_number_of_requests(
    langfuse: StandIn, items: int, late: bool
) -> None:
    langfuse.experiment(items=items, calls_per_item=2, scores=[TONE])
    assert len(collected(langfuse, late_scores=late).traces) == items
    pages = math.ceil(items / 100)
    allowed = pages + math.ceil(2 * items / 1000) + 4 + (pages if late else 0)
    assert len(langfuse.asked) <= allowed


def test_a_large_run_is_read_in_stretches_of_time_in_one_order(langfuse: StandIn) -> None:
    langfuse.experiment(items=3_000, calls_per_item=1, nested=True, judged=True)
    found = collected(langfuse)
    assert [trace.trace_id for trace in found.traces] == [
        f"00000001{number:024x}" for number in reversed(range(3_000))
    ]
    assert {trace.cost_usd for trace in found.traces} == {0.001}
    starts = {(one.path, one.parameters.get("fromStartTime")) for one in langfuse.asked}
    assert len(langfuse.asked) <= 30 + 3 + 4 + len(starts)
    assert langfuse.most_in_flight <= 8


@pytest.mark.parametrize("items", [250, 2_000])
def test_reading_goes_on_after_any_page_without_asking_for_it_again(
    langfuse: StandIn, items: int
) -> None:
    langfuse.experiment(items=items, judged=True, scores=[TONE])
    pages = collected(langfuse).pages
    for place in (1, len(pages) // 2, len(pages) - 1):
        langfuse.forget()
        again = collected(langfuse, pages[place - 1].cursor)
        assert again.traces == [trace for page in pages[place:] for trace in page.traces]
        assert not {"/projects", "/experiments"} & set(langfuse.paths())
        rows = langfuse.asked_for("/experiment-items")
        assert len(rows) <= len(pages) - place + 2


def test_a_run_that_just_ended_is_looked_at_until_it_stays_the_same(langfuse: StandIn) -> None:
    run = langfuse.experiment(items=30, visible=[10, 20, 30, 30, 30, 30, 30])
    just_ended = run.ends + timedelta(seconds=5)
    found = collected(langfuse, now=just_ended)
    assert len(found.traces) == 30
    assert {page.total for page in found.pages} == {30}
    # 10, 20 and then three times 30, each a search by name that finds nothing and one by id.
    assert len(langfuse.asked_for("/experiments")) >= 5


def test_a_run_of_yesterday_is_looked_at_once(langfuse: StandIn) -> None:
    langfuse.experiment(items=30)
    collected(langfuse)
    assert len(langfuse.asked_for("/experiments")) == 1


def test_rows_that_lag_behind_the_count_are_waited_for(langfuse: StandIn) -> None:
    run = langfuse.experiment(items=30)

    def hide(answer: dict[str, Any]) -> None:
        del answer["data"][:10]

    langfuse.inject(Changed(change=hide), path="/experiment-items", on={1, 2})
    found = collected(langfuse, now=run.ends + timedelta(seconds=5))
    assert len({trace.trace_id for trace in found.traces}) == 30
    assert len(langfuse.asked_for("/experiment-items")) == 3


def test_rows_that_come_twice_do_not_stand_for_those_that_lag_behind(langfuse: StandIn) -> None:
    run = langfuse.experiment(items=60, repeated=2)

    def hide(answer: dict[str, Any]) -> None:
        late = {f"dataset-1-{number}" for number in range(50, 60)}
        answer["data"] = [row for row in answer["data"] if row["experimentItemId"] not in late]

    langfuse.inject(Changed(change=hide), path="/experiment-items", on={1, 2})
    found = collected(langfuse, now=run.ends + timedelta(seconds=5))
    # 100 rows, which are 50 traces of the 60 that are counted, and then all.
    assert len({trace.trace_id for trace in found.traces}) == 60


def test_rows_that_never_come_are_missing(
    langfuse: StandIn, caplog: pytest.LogCaptureFixture
) -> None:
    langfuse.experiment(items=30)

    def hide(answer: dict[str, Any]) -> None:
        del answer["data"][:10]

    langfuse.inject(Changed(change=hide), path="/experiment-items")
    found = collected(langfuse)
    assert len(found.traces) == 20
    assert {page.total for page in found.pages} == {30}
    assert "the others are missing" in caplog.text


def test_an_experiment_without_a_row_has_no_traces(langfuse: StandIn) -> None:
    langfuse.experiment(items=3)

    def empty(answer: dict[str, Any]) -> None:
        answer["data"], answer["meta"] = [], {}

    langfuse.inject(Changed(change=empty), path="/experiment-items")
    with pytest.raises(CollectionFailed, match="has no traces") as caught:
        collected(langfuse)
    assert caught.value.error_code == "NO_TRACES"


def test_a_dataset_that_is_not_there_is_told_by_its_name(langfuse: StandIn) -> None:
    with pytest.raises(CollectionFailed, match="no dataset 'absent'") as caught:
        collected(langfuse, dataset_ref="absent")
    assert caught.value.error_code == "DATASET_NOT_FOUND"
    with pytest.raises(CollectionFailed, match="datasetRef") as caught:
        collected(langfuse, dataset_ref=None)
    assert caught.value.error_code == "DATASET_NOT_FOUND"


def test_a_run_that_is_not_there_is_told_with_those_that_are(langfuse: StandIn) -> None:
    langfuse.experiment(run="night-1", items=1)
    with pytest.raises(CollectionFailed, match=r"no run 'night-7'.*v4.*'night-1'") as caught:
        collected(langfuse, run_name="night-7")
    assert caught.value.error_code == "RUN_NOT_FOUND"
    langfuse.dataset("unused", items=3)
    with pytest.raises(CollectionFailed, match="no run yet") as caught:
        collected(langfuse, dataset_ref="unused")
    assert caught.value.error_code == "RUN_NOT_FOUND"


def test_a_server_that_is_known_is_not_asked_who_it_is(langfuse: StandIn) -> None:
    langfuse.experiment(items=1)
    first = list(read(langfuse))
    langfuse.forget()
    again = list(LangfuseSource(resources=resources()).pages(query_of(langfuse), None))
    assert [page.traces for page in again] == [page.traces for page in first]
    assert "/projects" not in langfuse.paths()


def test_a_server_that_was_upgraded_is_found_out_anew(langfuse: StandIn) -> None:
    langfuse.experiment(items=2)
    SERVER_CACHE.put(
        langfuse.url, langfuse.public_key, ServerInfo(api="v3", project_id="project-1")
    )
    pages = LangfuseSource(resources=resources()).pages(query_of(langfuse), None)
    assert sum(len(page.traces) for page in pages) == 2
    found = SERVER_CACHE.get(langfuse.url, langfuse.public_key)
    assert found == ServerInfo(api="v4", project_id="project-1")


def test_a_time_that_is_too_long_to_search_is_made_shorter(langfuse: StandIn) -> None:
    langfuse.experiment(items=1)
    too_long = Says(status=422, content={"message": "Request timed out"})
    langfuse.inject(too_long, path="/experiments", on={1, 2})
    now = datetime.fromisoformat("2026-11-21T00:00:00Z")
    assert len(collected(langfuse, now=now).traces) == 1
    asked = [one.parameters["fromStartTime"][:10] for one in langfuse.asked_for("/experiments")]
    assert asked == ["2020-01-01", "2025-11-21", "2026-08-23"]
