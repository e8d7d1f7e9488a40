"""Observations of the fake server: filters, field groups and costs."""

from typing import Any

import pytest

from tests.integration.langfuse.api_reader import EVER, ApiReader, condition, matching
from tests.support.langfuse import FakeLangfuse

JSON = dict[str, Any]


def test_fake__calls_come_in_pages_of_1000(langfuse: FakeLangfuse, reader: ApiReader) -> None:
    experiment = langfuse.experiment(items=600, calls_per_item=2, tools_per_item=1)
    langfuse.experiment(run="another", items=5)
    filter_parameter = matching(
        condition("experimentId", experiment.id),
        condition("type", ["GENERATION", "EMBEDDING"], "stringOptions", "any of"),
    )

    pages = list(
        reader.pages("/v2/observations", fields="core,usage", filter=filter_parameter, limit=1000)
    )

    assert [len(page) for page in pages] == [1000, 200]
    calls = [call for page in pages for call in page]
    assert len({call["id"] for call in calls}) == 1200
    # A tenth of a cent each: 1200 × 0.001.
    assert sum(call["totalCost"] for call in calls) == pytest.approx(1.2)
    assert "name" not in calls[0]


def test_fake__judge_cost_is_beside_the_task(langfuse: FakeLangfuse, reader: ApiReader) -> None:
    langfuse.experiment(items=1, calls_per_item=1, nested=True, judged=True)

    spans = {span["id"]: span for span in reader.rows("/v2/observations", fields="basic,usage")}

    def line(span: JSON) -> list[str]:
        parent = spans.get(span["parentObservationId"])
        return [span["name"], *(line(parent) if parent else [])]

    lines = {span["totalCost"]: line(span) for span in spans.values() if span["totalCost"]}
    assert lines == {
        0.001: ["call-0", "agent", "experiment-item-task", "experiment-item-run"],
        0.01: ["judge-call", "judge", "experiment-item-evaluation", "experiment-item-run"],
    }


def test_fake__failed_item_has_no_judge(langfuse: FakeLangfuse, reader: ApiReader) -> None:
    experiment = langfuse.experiment(items=2, calls_per_item=1, judged=True, errors={0})

    spans = reader.rows("/v2/observations", fields="basic", filter=of_trace(experiment.trace_id(0)))

    assert {span["name"]: span["level"] for span in spans} == {
        "experiment-item-run": "ERROR",
        "experiment-item-task": "ERROR",
        "call-0": "DEFAULT",
    }


@pytest.mark.parametrize(
    ("expected", "names"),
    [
        (condition("type", ["SPAN"], "stringOptions", "none of"), {"call-0", "call-1", "tool-0"}),
        (condition("name", "call", operator="starts with"), {"call-0", "call-1"}),
        (condition("name", "-", operator="does not contain"), set()),
        (condition("latency", 1.0, "number", ">"), {"experiment-item-run", "experiment-item-task"}),
        (condition("isRootObservation", True, "boolean"), {"experiment-item-run"}),
        (condition("startTime", "2026-11-20T02:00:00.400Z", "datetime", ">="), {"tool-0"}),
        (condition("parentObservationId", None, "null", "is null"), {"experiment-item-run"}),
        (
            condition("metadata", '"dataset-1-0"', "stringObject") | {"key": "dataset_item_id"},
            {"experiment-item-run", "experiment-item-task"},
        ),
        (condition("tags", ["nightly"], "arrayOptions", "all of"), set()),
    ],
)
def test_fake__observations_support_every_filter_type(
    langfuse: FakeLangfuse, reader: ApiReader, expected: JSON, names: set[str]
) -> None:
    langfuse.experiment(items=1, tools_per_item=1)

    spans = reader.rows("/v2/observations", filter=matching(expected))

    assert {span["name"] for span in spans} == names


def test_fake__long_metadata_is_truncated_unless_expanded(
    langfuse: FakeLangfuse, reader: ApiReader
) -> None:
    langfuse.experiment(items=1, metadata={"prompt": "x" * 300})

    cut = reader.rows("/v2/observations", fields="metadata")[-1]["metadata"]
    expanded = reader.rows("/v2/observations", fields="metadata", expandMetadata="prompt")[-1]

    assert len(cut["prompt"]) == 200
    assert expanded["metadata"]["prompt"] == "x" * 300
    assert cut["dataset_item_id"] == "dataset-1-0"


def test_fake__unpriced_model_has_empty_cost_details(
    langfuse: FakeLangfuse, reader: ApiReader
) -> None:
    langfuse.experiment(items=1, calls_per_item=1, priced=False)

    call = reader.rows("/v2/observations", fields="usage", type="GENERATION")[0]

    # A total of 0 without details means that the price is unknown, and not that it is free.
    assert (call["totalCost"], call["costDetails"]) == (0, {})


def test_fake__metrics_aggregate_a_run_in_one_request(
    langfuse: FakeLangfuse, reader: ApiReader
) -> None:
    experiment = langfuse.experiment(items=10, calls_per_item=2, repeated=2)
    query = {
        "view": "observations",
        "metrics": [
            {"measure": "count", "aggregation": "count"},
            {"measure": "totalCost", "aggregation": "sum"},
            {"measure": "latency", "aggregation": "p95"},
        ],
        "filters": [
            condition("experimentId", experiment.id),
            condition("type", "GENERATION"),
        ],
        "fromTimestamp": EVER,
        "toTimestamp": "2027-01-01T00:00:00Z",
    }

    metrics = reader.get("/v2/metrics", query=matching(query)[1:-1])["data"][0]

    assert metrics["count_count"] == 20
    # Ten items with two calls: spans that were sent twice count once.
    assert metrics["sum_totalCost"] == pytest.approx(0.02)
    assert metrics["p95_latency"] == pytest.approx(300)


def of_trace(trace_id: str) -> str:
    return matching(condition("traceId", trace_id))
