"""The Langfuse source reads production traces of a time window, of API v4 and v3."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from mosaico.traces.production import ProductionTraces, TraceFilters, TraceWindow, sampling_rank
from mosaico.traces.registry import TracePage
from mosaico.traces.types import Trace, TraceOutcome
from tests.integration.langfuse.collection import (
    collect_all,
)
from tests.support.langfuse import FakeLangfuse
from tests.support.langfuse.faults import ALWAYS, ModifiedResponse, RespondsWith
from tests.support.langfuse.records import DEFAULT_TIME

HOUR = timedelta(hours=1)


def window(
    *, hours: float = 1, size: int | None = None, key: str | None = None, **filters: Any
) -> dict[str, Any]:
    """The fields of a query for the window that begins at the default time."""
    production = ProductionTraces(
        window=TraceWindow(from_=DEFAULT_TIME, to=DEFAULT_TIME + hours * HOUR),
        filters=TraceFilters.model_validate(filters),
        sample_size=size,
        item_key=key,
    )
    return {"dataset_ref": None, "production": production}


def fill(langfuse: FakeLangfuse, count: int, **fields: Any) -> list[str]:
    """Add traces, one a second, and return their IDs."""
    return [
        langfuse.production_trace(
            number, started=DEFAULT_TIME + timedelta(seconds=number), **fields
        )
        for number in range(count)
    ]


def ids(traces: Sequence[Trace]) -> set[str]:
    return {trace.trace_id for trace in traces}


def test_window__root_and_its_calls_become_a_trace(server: FakeLangfuse) -> None:
    trace_id = server.production_trace(
        1,
        calls=2,
        metadata={"team": "billing"},
        tags=("beta",),
        user_id="u-1",
        session_id="s-1",
        release="v7",
        version="2",
        environment="production",
        scores={"Tone": 0.5},
    )
    [trace] = collect_all(server, **window(), late_scores=True).traces
    assert trace == Trace(
        trace_id=trace_id,
        item_id=trace_id,
        input="question 1",
        output="answer 1",
        tags=("beta",),
        attributes={
            "team": "billing",
            "name": "agent",
            "user": "u-1",
            "session": "s-1",
            "release": "v7",
            "version": "2",
            "environment": "production",
        },
        url=f"{server.url}/project/project-1/traces/{trace_id}",
        input_tokens=200,
        output_tokens=40,
        cost_usd=0.002,
        latency_ms=2000.0,
        tool_calls=(),
        turns=2,
        scores={"Tone": 0.5},
    )


def test_window__includes_its_start_and_not_its_end(server: FakeLangfuse) -> None:
    for number, seconds in enumerate((-1, 0, 3599, 3600)):
        server.production_trace(number, started=DEFAULT_TIME + timedelta(seconds=seconds))
    assert ids(collect_all(server, **window()).traces) == {f"{n:032x}" for n in (1, 2)}


def test_window__leaves_runs_of_experiments_out(server: FakeLangfuse) -> None:
    server.experiment(items=3)
    server.production_trace(7)
    assert ids(collect_all(server, **window()).traces) == {f"{7:032x}"}


@pytest.mark.parametrize(
    ("filters", "fields"),
    [
        ({"name": "checkout"}, {"trace_name": "checkout"}),
        ({"tags": ["a", "b"]}, {"tags": ("a", "b", "c")}),
        ({"environment": ["production", "eu"]}, {"environment": "eu"}),
        ({"release": "v7"}, {"release": "v7"}),
        ({"version": "2"}, {"version": "2"}),
        ({"user": ["u-1", "u,2"]}, {"user_id": "u,2"}),
        ({"session": ["s-1"]}, {"session_id": "s-1"}),
        ({"metadata": {"team": "billing"}}, {"metadata": {"team": "billing"}}),
        ({"metadata": {"turns": "3"}}, {"metadata": {"turns": 3}}),
        ({"metadata": {"quote": 'a "b"'}}, {"metadata": {"quote": 'a "b"'}}),
        # No attribute, but a filter that was set must not pass nothing.
        ({"metadata": {"scope.name": "shop"}}, {"metadata": {"scope.name": "shop"}}),
        ({"score": {"name": "Tone", "min": 0.4, "max": 0.6}}, {"scores": {"Tone": 0.5}}),
        ({"score": {"name": "Topic", "label": "refund"}}, {"scores": {"Topic": "refund"}}),
    ],
    ids="-".join,
)
def test_window__filter_passes_the_matching_traces_only(
    server: FakeLangfuse, filters: dict[str, Any], fields: dict[str, Any]
) -> None:
    server.production_trace(0)
    matching_id = server.production_trace(1, **fields)
    server.production_trace(
        2,
        trace_name="checkout of another",
        tags=("a",),
        metadata={"team": "billing and more", "turns": 33, "quote": "a b"},
        scores={"Tone": 0.7, "Topic": "other"},
    )
    assert ids(collect_all(server, **window(**filters)).traces) == {matching_id}


def test_window__changed_score_counts_with_its_new_value(langfuse: FakeLangfuse) -> None:
    langfuse.production_trace(1, scores={"Tone": 0.7})

    def older_value(answer: dict[str, Any]) -> None:
        # Until the server has merged the versions of a score, a filter also finds the older one.
        answer["data"] = [{"id": "score-1-Tone", "name": "Tone", "value": 0.1}]

    langfuse.inject(ModifiedResponse(change=older_value), path="/v3/scores", on={1})
    query = window(score={"name": "Tone", "max": 0.3})
    assert collect_all(langfuse, **query).traces == []


def test_window__sample_has_the_smallest_ranks_and_ignores_other_traces(
    server: FakeLangfuse,
) -> None:
    trace_ids = fill(server, 250)
    expected = sorted(trace_ids, key=lambda trace_id: sampling_rank(0, trace_id))[:20]
    sample = collect_all(server, **window(size=20))
    assert [trace.trace_id for trace in sample.traces] == expected
    assert {page.total for page in sample.pages} == {20}
    # A late trace changes the sample by itself at most.
    late_id = server.production_trace(9000, started=DEFAULT_TIME)
    again = ids(collect_all(server, **window(size=20)).traces)
    assert again - {late_id} <= set(expected)
    assert len(again & set(expected)) >= 19


def test_window__item_key_names_the_items(server: FakeLangfuse) -> None:
    long_key = "k" * 250
    server.production_trace(1, metadata={"case": long_key})
    server.production_trace(2, metadata={"case": long_key})
    traces = collect_all(server, **window(key="metadata.case")).traces
    assert {trace.item_id for trace in traces} == {long_key}


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        ("the tool broke", TraceOutcome.AGENT_ERROR),
        ("Error code: 503 - the model is overloaded", TraceOutcome.INFRA_ERROR),
    ],
)
def test_window__failed_root_is_an_error_of_the_agent_or_of_a_server(
    server: FakeLangfuse, error: str, outcome: TraceOutcome
) -> None:
    server.production_trace(1, failure=error)
    [trace] = collect_all(server, **window()).traces
    assert (trace.outcome, trace.output, trace.error) == (outcome, None, error)


def test_window__texts_of_the_calls_replace_missing_ones(server: FakeLangfuse) -> None:
    server.production_trace(1, texts_on_calls=True, calls=2)
    server.production_trace(2, texts_on_calls=True, calls=0)
    traces = collect_all(server, **window()).by_item
    assert (traces[f"{1:032x}"].input, traces[f"{1:032x}"].output) == ("question 1", "answer 1")
    # No text is recorded at all: that is no empty answer.
    assert (traces[f"{2:032x}"].input, traces[f"{2:032x}"].output) == (None, None)


def test_window__without_traces_is_one_empty_page(server: FakeLangfuse) -> None:
    for query in (window(), window(size=3)):
        [page] = collect_all(server, **query).pages
        assert (page.traces, page.cursor) == ((), None)


def traces_of(pages: Sequence[TracePage]) -> list[Trace]:
    return [trace for page in pages for trace in page.traces]


def test_window__too_large_pages_are_read_in_parts(server: FakeLangfuse) -> None:
    fill(server, 120)
    timed_out = RespondsWith(status=422, content={"message": "Request timed out"})
    server.inject(timed_out, path=list_path(server), on={1, 2})
    assert len(ids(collect_all(server, **window()).traces)) == 120


def test_window__malformed_row_is_an_infrastructure_error(server: FakeLangfuse) -> None:
    fill(server, 3)

    def spoil(document: Any) -> None:
        document["data"][0] = {**document["data"][0], "id": None}

    server.inject(ModifiedResponse(change=spoil), path=list_path(server), on={1})
    traces = collect_all(server, **window()).traces

    [failed] = [trace for trace in traces if trace.outcome is TraceOutcome.INFRA_ERROR]
    assert failed.trace_id.startswith("malformed-")
    assert len(traces) == 3


ROW_FIELDS = (
    "id", "traceId", "name", "timestamp", "startTime", "endTime", "updatedAt", "type", "level", "statusMessage", "input",
    "output", "metadata", "tags", "scores", "observations", "latency", "userId", "sessionId", "release", "version",
    "environment", "parentObservationId", "usageDetails", "costDetails", "totalCost",
)  # fmt: skip


@pytest.mark.parametrize("value", [None, True, "text", {"a": 1}], ids=repr)
def test_window__row_with_any_field_of_a_wrong_type_does_not_end_the_run(
    server: FakeLangfuse, value: Any
) -> None:
    known = set(fill(server, 60, scores={"Tone": 0.5}))

    def spoil(document: Any) -> None:
        for row, name in zip(document["data"], ROW_FIELDS, strict=False):
            row[name] = value

    for path in ("/observations", "/v2/scores", "/v2/observations", "/v3/scores", "/traces"):
        server.clear_faults()
        server.inject(ModifiedResponse(change=spoil), path=path, on=ALWAYS)
        traces = collect_all(server, **window(), late_scores=True).traces
        # Without those whose ID, trace ID or scores cannot be read.
        assert len(ids(traces) & known) >= 60 - 3, path
        # The others are counted, too.
        assert len(ids(traces)) >= 60 - (value == "text"), path


def list_path(server: FakeLangfuse) -> str:
    return "/v2/observations" if server.server.mode != "v3" else "/traces"
