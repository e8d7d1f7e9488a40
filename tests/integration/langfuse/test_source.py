"""The Langfuse source reads an experiment of API v4 as traces."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from mosaico.traces.registry import CollectionFailed
from mosaico.traces.types import ToolCall, Trace, TraceOutcome
from tests.integration.langfuse.collection import (
    NOW,
    collect_all,
)
from tests.support.langfuse import FakeLangfuse, ScorePlan
from tests.support.langfuse.faults import ModifiedResponse, RespondsWith

TONE = ScorePlan(name="Tone", value=0.5)


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


def test_source__row_becomes_a_complete_trace(langfuse: FakeLangfuse) -> None:
    langfuse.experiment(items=1, calls_per_item=2, tools_per_item=1, judged=True, scores=[TONE])
    [trace] = collect_all(langfuse).traces
    # Two calls of 100 input tokens; 22 and 23 output tokens (20 plus the span index); 0.001 USD each.
    # The cost of the judge (0.01 USD) does not count.
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
        attributes={"model": "small-model", "topic": "topic 0", "environment": "sdk-experiment"},
    )


def test_source__metadata_and_session_are_attributes(langfuse: FakeLangfuse) -> None:
    def describe_row(answer: dict[str, Any]) -> None:
        for row in answer["data"]:
            row["metadata"] |= {"team": '"billing"', "limits": '{"turns": 3}', "list": "[1]"}
            # What SDK 5 writes about itself, as objects and as a server of version 4 flattens them.
            row["metadata"] |= {
                "scope": {"name": "langfuse-sdk", "attributes": {"public_key": "pk-lf-1"}},
                "scope.name": "langfuse-sdk",
                "scope.attributes.public_key": "pk-lf-1",
                "resourceAttributes.telemetry.sdk.language": "python",
                "resourceAttributes.service.instance.id": "0d1f",
                "service.instance.id": "0d1f",
                "telemetry.sdk.name": "opentelemetry",
                "attributes.http.route": "/answer",
                "process.pid": 4711,
            }
            # Names of the user that only look alike.
            row["metadata"] |= {"scoped": "yes", "service": {"name": "shop", "tier": "gold"}}

    def describe_call(answer: dict[str, Any]) -> None:
        for row in answer["data"]:
            row |= {"sessionId": "s-1", "userId": "u-1", "release": "v7", "version": "2"}
            row |= {"promptName": "support", "promptVersion": 15}

    langfuse.experiment(items=1, metadata={"topic": "of the run"})
    langfuse.inject(ModifiedResponse(change=describe_row), path="/experiment-items")
    langfuse.inject(ModifiedResponse(change=describe_call), path="/v2/observations")
    [trace] = collect_all(langfuse).traces
    assert trace.attributes == {
        # The item says more about a trace than the run.
        "topic": "topic 0",
        "team": "billing",
        "limits.turns": "3",
        "scoped": "yes",
        "service.name": "shop",
        "service.tier": "gold",
        "session": "s-1",
        "user": "u-1",
        "release": "v7",
        "version": "2",
        "environment": "sdk-experiment",
        "model": "small-model",
        "promptName": "support",
        "promptVersion": "15",
    }


def test_source__pages_report_total_and_as_of(langfuse: FakeLangfuse) -> None:
    langfuse.experiment(items=250)
    collection = collect_all(langfuse)
    assert [len(page.traces) for page in collection.pages] == [100, 100, 50]
    assert {page.total for page in collection.pages} == {250}
    assert {page.as_of for page in collection.pages} == {NOW}
    assert [page.cursor is None for page in collection.pages] == [False, False, True]


@pytest.mark.parametrize("name", ODD_NAMES)
def test_source__dataset_and_run_names_may_contain_any_character(
    langfuse: FakeLangfuse, name: str
) -> None:
    langfuse.experiment(dataset=name, run=name, items=2)
    langfuse.experiment(dataset=name, run="another", items=3)
    assert len(collect_all(langfuse, dataset_ref=name, run_name=name).traces) == 2


def test_source__finds_a_run_by_id(langfuse: FakeLangfuse) -> None:
    experiment = langfuse.experiment(run="run-1", items=2)
    langfuse.experiment(run="run-2", items=3)
    assert len(collect_all(langfuse, run_name=experiment.id).traces) == 2
    assert len(collect_all(langfuse, dataset_ref=None, run_name=experiment.id).traces) == 2


def test_source__reads_the_newest_run_without_a_name(langfuse: FakeLangfuse) -> None:
    langfuse.experiment(run="run-1", items=2)
    langfuse.experiment(run="run-2", items=3)
    langfuse.experiment(dataset="other", run="run-3", items=4)
    assert len(collect_all(langfuse).traces) == 3


def test_source__run_of_another_dataset_is_not_read_for_a_missing_one(
    langfuse: FakeLangfuse,
) -> None:
    langfuse.experiment(dataset="other", run="nightly", items=2)
    with pytest.raises(CollectionFailed, match="no dataset 'suport'"):
        collect_all(langfuse, dataset_ref="suport", run_name="nightly")


@pytest.mark.parametrize("name", ["langfuse", "langfuse_v3"])
def test_source__label_of_a_categorical_score_is_an_attribute(
    name: str, request: pytest.FixtureRequest
) -> None:
    server: FakeLangfuse = request.getfixturevalue(name)
    server.experiment(
        items=1, scores=[ScorePlan(name="Topic", value="refund", data_type="CATEGORICAL")]
    )
    [trace] = collect_all(server).traces
    assert (trace.attributes["Topic"], trace.scores) == ("refund", {})


def test_source__failed_task_is_an_agent_error(server: FakeLangfuse) -> None:
    server.experiment(items=2, errors={1})
    failed = collect_all(server).by_item["dataset-1-1"]
    assert failed.outcome is TraceOutcome.AGENT_ERROR
    assert (failed.output, failed.error) == (None, "the agent gave up")


def test_source__error_of_a_model_provider_is_none_of_the_agent(server: FakeLangfuse) -> None:
    message = "Error code: 429 - rate limit reached"
    server.experiment(items=2, errors={1}, failure=message)
    failed = collect_all(server).by_item["dataset-1-1"]
    assert failed.outcome is TraceOutcome.INFRA_ERROR
    assert (failed.output, failed.error) == (None, message)


@pytest.mark.parametrize("nothing", [None, ""])
def test_source__task_without_output_answered_nothing(
    langfuse: FakeLangfuse, nothing: str | None
) -> None:
    langfuse.experiment(items=1, output_of=lambda _: nothing, expected_of=lambda _: None)
    [trace] = collect_all(langfuse).traces
    assert trace.outcome is TraceOutcome.SCORED
    assert (trace.output, trace.expected_output) == ("", None)


def test_source__objects_get_a_canonical_text(
    langfuse: FakeLangfuse,
) -> None:
    langfuse.experiment(
        items=2,
        input_of=lambda number: {"b": number, "a": [1]},
        output_of=str,
        expected_of=lambda number: number,
    )
    trace = collect_all(langfuse).by_item["dataset-1-1"]
    assert trace.input == '{"a": [1], "b": 1}'
    assert (trace.output, trace.expected_output) == ("1", "1")


def test_source__nested_calls_count_and_judge_calls_do_not(
    langfuse: FakeLangfuse,
) -> None:
    langfuse.experiment(items=3, calls_per_item=2, nested=True, judged=True)
    assert [trace.cost_usd for trace in collect_all(langfuse).traces] == [0.002] * 3
    assert [trace.turns for trace in collect_all(langfuse).traces] == [2] * 3


def test_source__ambiguous_calls_fetch_the_span_tree(langfuse: FakeLangfuse) -> None:
    # One millisecond per item: task, call and judge start in the same millisecond.
    langfuse.experiment(items=5, nested=True, judged=True, every=timedelta(milliseconds=1))
    assert [trace.cost_usd for trace in collect_all(langfuse).traces] == [0.002] * 5


def test_source__late_scores_are_read_when_requested(
    langfuse: FakeLangfuse,
) -> None:
    langfuse.experiment(items=3, scores=[TONE, LATE, CHILD])
    assert [trace.scores for trace in collect_all(langfuse).traces] == [{"Tone": 0.5}] * 3
    everything = {"Tone": 0.5, "Late": 0.75, "Child": 0.25}
    late = collect_all(langfuse, late_scores=True)
    assert [trace.scores for trace in late.traces] == [everything] * 3


def test_source__reads_the_trial_from_metadata(langfuse: FakeLangfuse) -> None:
    def second_try(answer: dict[str, Any]) -> None:
        for row in answer["data"]:
            row["metadata"] |= {"trial": '"2"', "tags": '["blue", "night"]'}

    langfuse.experiment(items=1)
    langfuse.inject(ModifiedResponse(change=second_try), path="/experiment-items")
    [trace] = collect_all(langfuse).traces
    assert (trace.trial, trace.tags) == (2, ("blue", "night"))


def test_source__two_rows_of_a_trace_have_separate_calls(langfuse: FakeLangfuse) -> None:
    """The first trace of each ID, which is the stored one."""

    def together(answer: dict[str, Any]) -> None:
        newer, older = answer["data"]
        older["traceId"] = newer["traceId"]

    langfuse.experiment(items=2)
    langfuse.inject(ModifiedResponse(change=together), path="/experiment-items")
    [first, second] = collect_all(langfuse).traces
    assert first.trace_id == second.trace_id
    # Two calls of 101 input tokens: those of item 1.
    assert (first.input_tokens, first.cost_usd) == (202, 0.002)


def test_source__experiment_without_rows_raises(langfuse: FakeLangfuse) -> None:
    langfuse.experiment(items=3)

    def empty(answer: dict[str, Any]) -> None:
        answer["data"], answer["meta"] = [], {}

    langfuse.inject(ModifiedResponse(change=empty), path="/experiment-items")
    with pytest.raises(CollectionFailed, match="has no traces") as caught:
        collect_all(langfuse)
    assert caught.value.error_code == "NO_TRACES"


def test_source__unknown_dataset_raises_with_its_name(langfuse: FakeLangfuse) -> None:
    with pytest.raises(CollectionFailed, match="no dataset 'absent'") as caught:
        collect_all(langfuse, dataset_ref="absent")
    assert caught.value.error_code == "DATASET_NOT_FOUND"
    with pytest.raises(CollectionFailed, match="datasetRef") as caught:
        collect_all(langfuse, dataset_ref=None)
    assert caught.value.error_code == "DATASET_NOT_FOUND"


def test_source__unknown_run_raises_with_the_existing_names(langfuse: FakeLangfuse) -> None:
    langfuse.experiment(run="run-1", items=1)
    with pytest.raises(CollectionFailed, match=r"no run 'run-7'.*v4.*'run-1'") as caught:
        collect_all(langfuse, run_name="run-7")
    assert caught.value.error_code == "RUN_NOT_FOUND"
    langfuse.dataset("unused", items=3)
    with pytest.raises(CollectionFailed, match="no run yet") as caught:
        collect_all(langfuse, dataset_ref="unused")
    assert caught.value.error_code == "RUN_NOT_FOUND"


def test_source__experiment_search_falls_back_to_shorter_periods(langfuse: FakeLangfuse) -> None:
    langfuse.experiment(items=1)
    too_long = RespondsWith(status=422, content={"message": "Request timed out"})
    langfuse.inject(too_long, path="/experiments", on={1, 2})
    now = datetime.fromisoformat("2026-11-21T00:00:00Z")
    assert len(collect_all(langfuse, now=now).traces) == 1
    start_dates = [
        request.parameters["fromStartTime"][:10]
        for request in langfuse.requests_for("/experiments")
    ]
    # From before Langfuse existed, then a year and 90 days before now.
    assert start_dates == ["2020-01-01", "2025-11-21", "2026-08-23"]
