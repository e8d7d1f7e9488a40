"""The real SDK reads from and writes to the fake server."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from langfuse import Evaluation, Langfuse
from langfuse.api import NotFoundError
from langfuse.experiment import ExperimentItem, ExperimentResult
from opentelemetry.sdk.trace import TracerProvider

from tests.integration.langfuse.api_reader import EVER, ApiReader, condition, matching
from tests.support.langfuse import FakeLangfuse, ScorePlan, run_fake_langfuse
from tests.support.langfuse.builder import experiment_id
from tests.support.waiting import LIVENESS_S

JSON = dict[str, Any]
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
CAPITALS = {"Italy": "Rome", "France": "Paris", "Chile": "Santiago"}


def sdk_of(langfuse: FakeLangfuse) -> Iterator[Langfuse]:
    """The SDK with its own HTTP client and tracer, shut down afterwards."""
    tracers = TracerProvider(shutdown_on_exit=False)
    with httpx.Client(trust_env=False, verify=False, timeout=LIVENESS_S) as client:
        sdk = Langfuse(
            public_key=langfuse.public_key,
            secret_key=langfuse.secret_key,
            host=langfuse.url,
            httpx_client=client,
            tracer_provider=tracers,
            flush_interval=0.1,
        )
        yield sdk
        sdk.shutdown()
        tracers.shutdown()


@pytest.fixture(scope="module")
def newest() -> Iterator[FakeLangfuse]:
    with run_fake_langfuse(takes_score_lists=True) as running:
        yield running


@pytest.fixture
def langfuse(newest: FakeLangfuse) -> FakeLangfuse:
    """A server that accepts the score lists of SDK 5."""
    newest.reset()
    return newest


@pytest.fixture
def sdk(langfuse: FakeLangfuse) -> Iterator[Langfuse]:
    yield from sdk_of(langfuse)


def test_sdk__reads_a_dataset_with_its_items(langfuse: FakeLangfuse, sdk: Langfuse) -> None:
    langfuse.dataset("support/ö,x", items=120)

    dataset = sdk.get_dataset("support/ö,x")

    assert dataset.name == "support/ö,x"
    assert len(dataset.items) == 120
    assert (dataset.items[7].input, dataset.items[7].expected_output) == ("question 7", "answer 7")
    with pytest.raises(NotFoundError):
        sdk.get_dataset("unknown")


def test_sdk__reads_runs_and_rows(langfuse: FakeLangfuse, sdk: Langfuse) -> None:
    plans = [
        ScorePlan(name="number", value=0.5),
        ScorePlan(name="truth", value=1.0, data_type="BOOLEAN", on="trace"),
        ScorePlan(name="class", value="good", data_type="CATEGORICAL"),
        ScorePlan(name="words", value="well said", data_type="TEXT"),
        ScorePlan(name="whole", value=0.9, on="run"),
    ]
    experiment = langfuse.experiment(items=3, scores=plans, errors={2}, metadata={"model": "small"})

    runs = sdk.api.experiments.list(from_start_time=LONG_AGO, fields="core,metadata,scores").data
    rows = sdk.api.experiments.list_items(
        from_start_time=LONG_AGO,
        experiment_id=experiment.id,
        fields="core,dataset,io,metadata,itemMetadata,experimentMetadata,scores",
    ).data

    assert (runs[0].name, runs[0].item_count) == ("run-1", 3)
    assert [score.name for score in runs[0].scores or []] == ["whole"]
    assert [row.level.value for row in rows] == ["ERROR", "DEFAULT", "DEFAULT"]
    values = {score.name: score.value for score in rows[1].scores or []}
    assert values == {"number": 0.5, "truth": True, "class": "good", "words": "well said"}


def run_capitals(sdk: Langfuse) -> ExperimentResult:
    """An experiment of three items: a correct answer, a wrong answer and a failed task."""
    sdk.create_dataset(name="capitals/ö")
    for country, capital in CAPITALS.items():
        sdk.create_dataset_item(
            dataset_name="capitals/ö",
            id=country,
            input={"country": country},
            expected_output=capital,
            metadata={"continent": 1},
        )

    def answer(*, item: ExperimentItem, **_: Any) -> str:
        with sdk.start_as_current_observation(
            name="call",
            as_type="generation",
            model="small-model",
            usage_details={"input": 3, "output": 4},
            cost_details={"input": 0.25, "output": 0.5},
        ):
            country = getattr(item, "input", {})["country"]
        if country == "Chile":
            raise LookupError("no such country")
        return "Rome"

    def exact(*, output: str, expected_output: str, **_: Any) -> Evaluation:
        with sdk.start_as_current_observation(
            name="judge-call", as_type="generation", cost_details={"total": 8.0}
        ):
            return Evaluation(name="exact", value=float(output == expected_output), comment="so")

    def mean(**_: Any) -> Evaluation:
        return Evaluation(name="mean", value=0.5)

    return sdk.get_dataset("capitals/ö").run_experiment(
        name="capitals",
        run_name="run 1/ö,x",
        description="the first",
        task=answer,
        evaluators=[exact],
        run_evaluators=[mean],
        metadata={"model": "small-model"},
    )


def test_sdk__experiment_is_read_back_completely(
    langfuse: FakeLangfuse, sdk: Langfuse, reader: ApiReader
) -> None:
    result = run_capitals(sdk)
    run = reader.get(
        "/experiments",
        fromStartTime=EVER,
        filter=matching(condition("name", "run 1/ö,x")),
        fields="core,metadata,scores",
    )["data"][0]
    rows = reader.rows(
        "/experiment-items",
        fromStartTime=EVER,
        experimentId=run["id"],
        fields="core,dataset,io,metadata,itemMetadata,experimentMetadata,scores",
    )

    dataset_id = langfuse.dataset("capitals/ö").id
    assert run["id"] == result.experiment_id == experiment_id(dataset_id, "run 1/ö,x")
    assert (run["itemCount"], run["datasetId"]) == (3, dataset_id)
    # The SDK sends metadata as texts of JSON.
    assert (run["description"], run["metadata"]) == ("the first", {"model": '"small-model"'})
    assert [(score["name"], score["value"]) for score in run["scores"]] == [("mean", 0.5)]

    rows_by_item = {row["experimentItemId"]: row for row in rows}
    assert rows_by_item.keys() == CAPITALS.keys()
    assert rows_by_item["Italy"]["input"] == '{"country": "Italy"}'
    assert (rows_by_item["Italy"]["output"], rows_by_item["Italy"]["expectedOutput"]) == (
        "Rome",
        "Rome",
    )
    assert rows_by_item["France"]["expectedOutput"] == "Paris"
    assert rows_by_item["Chile"]["level"] == "ERROR"
    assert rows_by_item["Chile"]["output"] == "Error: no such country"
    assert rows_by_item["Italy"]["environment"] == "sdk-experiment"
    assert rows_by_item["Italy"]["experimentItemMetadata"] == {"continent": "1"}
    assert rows_by_item["Italy"]["metadata"]["dataset_item_id"] == '"Italy"'
    values = {
        item: [score["value"] for score in row["scores"]] for item, row in rows_by_item.items()
    }
    assert values == {"Italy": [1.0], "France": [0.0], "Chile": []}


def test_sdk__experiment_spans_separate_task_and_judge(
    langfuse: FakeLangfuse, sdk: Langfuse, reader: ApiReader
) -> None:
    result = run_capitals(sdk)

    spans = reader.rows(
        "/v2/observations",
        fields="core,basic,usage,model",
        filter=matching(condition("experimentId", result.experiment_id)),
    )

    by_id = {span["id"]: span for span in spans}
    calls = [span for span in spans if span["name"] == "call"]
    judged = [span for span in spans if span["name"] == "judge-call"]
    assert [span["totalCost"] for span in calls] == [0.75] * 3
    assert {by_id[span["parentObservationId"]]["name"] for span in calls} == {
        "experiment-item-task"
    }
    assert calls[0]["usageDetails"] == {"input": 3, "output": 4}
    assert calls[0]["model"] == "small-model"
    # The failed task was not judged.
    assert [span["totalCost"] for span in judged] == [8.0] * 2
    assert {by_id[span["parentObservationId"]]["type"] for span in judged} == {"EVALUATOR"}
    assert {span["name"] for span in spans if span["isRootObservation"]} == {"experiment-item-run"}
