"""The Langfuse source reads runs of API v3, and of a server with both APIs."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import chain, cycle, repeat
from typing import Any

import pytest

from mosaico.traces.registry import CollectionFailed
from mosaico.traces.types import ToolCall, Trace, TraceOutcome
from tests.integration.langfuse.collection import collect_all
from tests.integration.langfuse.test_source import ODD_NAMES
from tests.support.langfuse import FakeLangfuse, ScorePlan
from tests.support.langfuse.faults import (
    ALWAYS,
    ModifiedResponse,
    QueryTimeout,
    RepeatedFirstPage,
    RespondsWith,
)
from tests.support.langfuse.records import DEFAULT_TIME, JSON

TONE = ScorePlan(name="Tone", value=0.5)


def test_v3__run_item_becomes_a_trace(langfuse_v3: FakeLangfuse) -> None:
    langfuse_v3.experiment(items=1, tools_per_item=1, nested=True, judged=True, scores=[TONE])
    [trace] = collect_all(langfuse_v3).traces
    # As in API v4: two calls of 100 input tokens, 23 and 24 output tokens; no judge.
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
        attributes={"model": "small-model", "topic": "topic 0", "environment": "sdk-experiment"},
    )


def test_v3__values_have_the_same_text_as_in_v4(langfuse_v3: FakeLangfuse) -> None:
    langfuse_v3.experiment(
        items=1,
        input_of=lambda number: {"b": number, "a": [1]},
        output_of=lambda _: None,
        expected_of=lambda number: number,
    )
    [trace] = collect_all(langfuse_v3).traces
    assert (trace.input, trace.output, trace.expected_output) == ('{"a": [1], "b": 0}', "", "0")


@pytest.mark.parametrize("name", [name for name in ODD_NAMES if name not in (".", "..")])
def test_v3__names_may_contain_any_character(langfuse_v3: FakeLangfuse, name: str) -> None:
    langfuse_v3.experiment(dataset=name, run=name, items=2)
    langfuse_v3.experiment(dataset=name, run="another", items=3)
    assert len(collect_all(langfuse_v3, dataset_ref=name, run_name=name).traces) == 2


def test_v3__finds_a_run_by_id_and_the_newest_without_a_name(langfuse_v3: FakeLangfuse) -> None:
    first = langfuse_v3.experiment(run="run-1", items=2)
    langfuse_v3.experiment(run="run-2", items=3)
    assert len(collect_all(langfuse_v3, run_name=first.id).traces) == 2
    assert len(collect_all(langfuse_v3).traces) == 3


def test_v3__item_deleted_after_the_run_keeps_its_expected_output(
    langfuse_v3: FakeLangfuse,
) -> None:
    langfuse_v3.dataset(
        "support", items=3, deleted={1}, changed_at=DEFAULT_TIME + timedelta(days=1)
    )
    langfuse_v3.experiment(items=3)
    assert collect_all(langfuse_v3).by_item["dataset-1-1"].expected_output == "answer 1"


def test_v3__item_deleted_before_the_run_is_tagged(langfuse_v3: FakeLangfuse) -> None:
    langfuse_v3.dataset(
        "support", items=3, deleted={1}, changed_at=DEFAULT_TIME - timedelta(days=1)
    )
    langfuse_v3.experiment(items=3)
    collection = collect_all(langfuse_v3).by_item
    gone, there = collection["dataset-1-1"], collection["dataset-1-2"]
    assert (gone.expected_output, gone.tags) == (None, ("expected-output-gone",))
    assert (there.expected_output, there.tags) == ("answer 2", ())


@pytest.mark.parametrize("items", [1, 230])
def test_v3__requests_100_traces_at_a_time(langfuse_v3: FakeLangfuse, items: int) -> None:
    langfuse_v3.experiment(items=items, calls_per_item=1)
    assert len(collect_all(langfuse_v3).traces) == items
    pages = -(-items // 100)
    # Three spans per trace; one request for traces, scores and dataset items per hundred.
    spans = -(-3 * items // 100) + pages
    assert len(langfuse_v3.requests) <= 3 * pages + spans + 6
    assert langfuse_v3.max_in_flight <= 8


def test_v3__too_large_bundles_are_split(
    langfuse_v3: FakeLangfuse,
) -> None:
    langfuse_v3.experiment(items=40)

    ids_above = RespondsWith(status=422, content={"message": "Request timed out"})
    langfuse_v3.inject(ids_above, path="/traces", on={1, 2, 3})
    assert len(collect_all(langfuse_v3).traces) == 40


def test_v3__server_without_filters_is_read_trace_by_trace(langfuse_v3: FakeLangfuse) -> None:
    langfuse_v3.experiment(items=3)
    langfuse_v3.inject(RespondsWith(status=200, content={"data": [], "meta": {}}), path="/traces")
    assert len(collect_all(langfuse_v3).traces) == 3


def test_source__dual_server_is_asked_through_v4_first(
    langfuse_dual: FakeLangfuse,
) -> None:
    langfuse_dual.experiment(run="by SDK 5", items=2)
    langfuse_dual.experiment(run="by hand", items=3, linked_by="run_items")
    assert len(collect_all(langfuse_dual, run_name="by SDK 5").traces) == 2
    assert not langfuse_dual.requests_for("/datasets/support/runs/by%20SDK%205")
    assert len(collect_all(langfuse_dual, run_name="by hand").traces) == 3


def test_v3__missing_dataset_or_run_raises(langfuse_v3: FakeLangfuse) -> None:
    with pytest.raises(CollectionFailed) as caught:
        collect_all(langfuse_v3, dataset_ref="absent")
    assert caught.value.error_code == "DATASET_NOT_FOUND"
    langfuse_v3.experiment(items=1)
    with pytest.raises(CollectionFailed, match=r"v3.*'run-1'") as caught:
        collect_all(langfuse_v3, run_name="absent")
    assert caught.value.error_code == "RUN_NOT_FOUND"


@pytest.mark.parametrize(
    "total_pages",
    [repeat(0), repeat(1), repeat(1_000_000), cycle([1, 3, 0]), chain([9, 7], repeat(2))],
    ids=["none", "too few", "too many", "changing", "fewer and fewer"],
)
def test_iter_pages__rows_decide_where_a_list_ends(
    langfuse_v3: FakeLangfuse, total_pages: Iterator[int]
) -> None:
    langfuse_v3.experiment(items=130, calls_per_item=3)
    # The whole run in one response fails, so that its links come in pages.
    langfuse_v3.inject(QueryTimeout(), path="/datasets/support/runs/run-1", on=ALWAYS)
    langfuse_v3.inject(ModifiedResponse(change=counting(total_pages)), on=ALWAYS)
    traces = collect_all(langfuse_v3).traces
    assert len({trace.trace_id for trace in traces}) == 130
    assert {trace.turns for trace in traces} == {3}
    assert all(trace.expected_output == trace.output for trace in traces)
    # Twice the items of the run, once those of the dataset: at most eight ahead of the end. 650
    # spans by the hundred of their traces: five pages and an empty one, two pages.
    assert len(langfuse_v3.requests) <= 3 * (2 + 8) + 8 + 20


def counting(total_pages: Iterator[int]) -> Callable[[JSON], None]:
    def change(answer: JSON) -> None:
        if "meta" in answer:
            answer["meta"]["totalPages"] = next(total_pages)

    return change


def test_iter_pages__repeated_page_raises(
    langfuse_v3: FakeLangfuse,
) -> None:
    langfuse_v3.experiment(items=30, calls_per_item=3)
    langfuse_v3.inject(RepeatedFirstPage(), path="/observations", on=ALWAYS)
    with pytest.raises(CollectionFailed, match="same page of observations twice") as caught:
        collect_all(langfuse_v3)
    assert caught.value.error_code == "BAD_RESPONSE"
    assert len(langfuse_v3.requests_for("/observations")) == 2


@pytest.mark.parametrize("malformed", [{"traceId": None}, {"datasetItemId": 7}, None], ids=repr)
def test_v3__malformed_run_item_is_an_infrastructure_error(
    langfuse_v3: FakeLangfuse, malformed: dict[str, Any] | None
) -> None:
    langfuse_v3.experiment(items=30)

    def spoil(document: Any) -> None:
        if "datasetRunItems" in document:
            [first, *rows] = document["datasetRunItems"]
            document["datasetRunItems"] = [malformed and {**first, **malformed}, *rows]

    langfuse_v3.inject(ModifiedResponse(change=spoil), on=ALWAYS)
    traces = collect_all(langfuse_v3).traces

    [failed] = [trace for trace in traces if trace.outcome is TraceOutcome.INFRA_ERROR]
    assert failed.trace_id.startswith("malformed-")
    assert len({trace.trace_id for trace in traces}) == 30


@pytest.mark.parametrize("scores", [7, True, "text", {"a": 1}], ids=repr)
def test_v3__trace_with_malformed_scores_is_an_infrastructure_error(
    langfuse_v3: FakeLangfuse, scores: Any
) -> None:
    langfuse_v3.experiment(items=30)

    def spoil(document: Any) -> None:
        document["data"][0]["scores"] = scores

    langfuse_v3.inject(ModifiedResponse(change=spoil), path="/traces", on=ALWAYS)
    traces = collect_all(langfuse_v3).traces
    failed = [trace for trace in traces if trace.outcome is TraceOutcome.INFRA_ERROR]
    assert (len(traces), len(failed)) == (30, 1)


# The fields of the rows of each list. A run has its items in its own document.
ROW_FIELDS = {
    "datasetRunItems": ("id", "datasetItemId", "traceId", "observationId", "createdAt"),
    "/traces": (
        "id", "name", "timestamp", "input", "output", "metadata", "tags", "scores", "observations", "latency", "userId",
        "sessionId", "release", "version", "environment", "projectId", "totalCost",
    ),
    "/observations": (
        "id", "traceId", "type", "name", "startTime", "endTime", "parentObservationId", "level", "statusMessage",
        "input", "output", "usageDetails", "costDetails", "totalCost", "calculatedTotalCost", "metadata", "tags",
        "environment", "updatedAt",
    ),
    "/v2/scores": (
        "id", "traceId", "observationId", "name", "value", "stringValue", "dataType", "timestamp", "subject",
        "metadata", "comment",
    ),
    "/dataset-items": ("id", "expectedOutput", "metadata", "input", "createdAt", "status"),
}  # fmt: skip


def spoil_rows(place: str, value: Any) -> Callable[[Any], None]:
    """Each row gets the value in another field; the row after them is no object."""
    names = ROW_FIELDS[place]

    def spoil(document: Any) -> None:
        rows = document.get("data" if place.startswith("/") else place)
        if rows is None or len(rows) <= len(names):
            return
        for row, name in zip(rows, names, strict=False):
            row[name] = value
        rows[len(names)] = value

    return spoil


@pytest.mark.parametrize("value", [None, True, "text", {"a": 1}], ids=repr)
@pytest.mark.parametrize("place", list(ROW_FIELDS))
def test_v3__row_with_any_field_of_a_wrong_type_does_not_end_the_run(
    langfuse_v3: FakeLangfuse, place: str, value: Any
) -> None:
    langfuse_v3.experiment(items=24, tools_per_item=1, scores=[TONE])
    expected = {trace.trace_id: trace for trace in collect_all(langfuse_v3).traces}
    assert len(expected) == 24

    path = place if place.startswith("/") else "*"
    langfuse_v3.inject(ModifiedResponse(change=spoil_rows(place, value)), path=path, on=ALWAYS)
    traces = collect_all(langfuse_v3).traces

    # Each item is counted once, whether it was measured or not; no trace has the ID "text".
    count = 23 if (place, value) == ("datasetRunItems", "text") else 24
    assert len(traces) == len({trace.trace_id for trace in traces}) == count
    # The rows after those that were spoiled.
    unchanged = sum(expected.get(trace.trace_id) == trace for trace in traces)
    assert unchanged >= 24 - len(ROW_FIELDS[place]) - 1


@pytest.mark.parametrize("since", [timedelta(seconds=5), timedelta(days=1)], ids=str)
def test_v3__run_without_items_raises_at_any_age(
    langfuse_v3: FakeLangfuse, since: timedelta
) -> None:
    run = langfuse_v3.experiment(items=0)
    with pytest.raises(CollectionFailed, match="has no traces") as caught:
        collect_all(langfuse_v3, now=run.ends + since)
    assert caught.value.error_code == "NO_TRACES"
