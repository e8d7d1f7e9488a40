"""Scores written to the fake server: limits, IDs and visibility."""

from typing import Any

import pytest

from tests.integration.langfuse.api_reader import EVER, ApiReader
from tests.support.langfuse import FakeLangfuse, run_fake_langfuse

JSON = dict[str, Any]
AT = "2026-11-20T03:00:00.000Z"


def post_event(reader: ApiReader, score: JSON, at: str) -> None:
    event = {"id": "e-1", "type": "score-create", "timestamp": at, "body": score}
    assert reader.post("/ingestion", {"batch": [event]}, status=207)["errors"] == []


def test_fake__score_with_id_and_time_is_idempotent(
    langfuse: FakeLangfuse, reader: ApiReader
) -> None:
    score = {"id": "s-1", "name": "bleu", "traceId": "t-1"}

    for value in (0.25, 0.5):
        post_event(reader, score | {"value": value}, AT)

    scores = reader.rows("/v3/scores", traceId="t-1", fields="details,subject")
    assert [(entry["id"], entry["value"], entry["timestamp"]) for entry in scores] == [
        ("s-1", 0.5, AT)
    ]


def test_fake__same_score_id_on_another_day_is_a_new_score(
    langfuse: FakeLangfuse, reader: ApiReader
) -> None:
    score = {"id": "s-1", "name": "bleu", "traceId": "t-1", "value": 1}

    post_event(reader, score, AT)
    post_event(reader, score, "2026-11-21T03:00:00.000Z")

    # The key of a score contains the date of its timestamp.
    assert len(reader.rows("/v3/scores", traceId="t-1")) == 2


def test_fake__older_event_changes_nothing_and_the_body_has_no_time(
    langfuse: FakeLangfuse, reader: ApiReader
) -> None:
    score = {"id": "s-1", "name": "bleu", "traceId": "t-1"}

    post_event(reader, score | {"value": 1, "timestamp": "2020-01-01T00:00:00Z"}, AT)
    post_event(reader, score | {"value": 2}, "2026-11-20T02:59:59.000Z")
    reader.post("/scores", score | {"id": "s-2", "value": 3, "timestamp": AT})

    scores = reader.rows("/v3/scores", traceId="t-1", fields="details,subject")
    assert {entry["id"]: (entry["value"], entry["timestamp"] == AT) for entry in scores} == {
        "s-1": (1, True),
        "s-2": (3, False),
    }


@pytest.mark.parametrize(
    "score",
    [
        {"name": "", "traceId": "t", "value": 1},
        {"name": "n", "value": 1},
        {"name": "n", "traceId": "t", "datasetRunId": "r", "value": 1},
        {"name": "n", "datasetRunId": "r", "observationId": "o", "value": 1},
        {"name": "n", "traceId": "t", "value": "many", "dataType": "NUMERIC"},
        {"name": "n", "traceId": "t", "value": 0.5, "dataType": "BOOLEAN"},
        {"name": "n", "traceId": "t", "value": True, "dataType": "BOOLEAN"},
        {"name": "n", "traceId": "t", "value": 1, "dataType": "CATEGORICAL"},
        {"name": "n", "traceId": "t", "value": "", "dataType": "TEXT"},
        # One more than the 500 characters of a TEXT.
        {"name": "n", "traceId": "t", "value": "x" * 501, "dataType": "TEXT"},
        {"name": "n", "traceId": "t", "value": 1, "dataType": "COLOUR"},
        {"name": "n", "traceId": "t", "value": 1, "timestamp": "yesterday"},
        {"name": "n", "traceId": "t", "value": 1, "timestamp": "2026-11-20T03:00:00"},
    ],
)
def test_fake__invalid_score_is_rejected(
    langfuse: FakeLangfuse, reader: ApiReader, score: JSON
) -> None:
    assert reader.post("/scores", score, status=400)["message"] == "Invalid request data"
    assert reader.rows("/v3/scores") == []


def test_fake__body_over_1_mib_is_rejected(langfuse: FakeLangfuse, reader: ApiReader) -> None:
    score = {"name": "n", "traceId": "t", "value": 1, "comment": "x" * 1024 * 1024}

    assert reader.post("/scores", score, status=413)


def test_fake__score_lists_need_a_newer_server(langfuse: FakeLangfuse, reader: ApiReader) -> None:
    scores = [{"name": "n", "traceId": "t", "value": 1}, {"name": "n", "value": 1}]
    assert reader.post("/scores", scores, status=400)

    with run_fake_langfuse(takes_score_lists=True) as newer:
        reader.client.auth = (newer.public_key, newer.secret_key)
        reader.client.base_url = f"{newer.url}/api/public"
        response = reader.post("/scores", scores[:1], status=202)
        mixed = reader.post("/scores", scores, status=207)
        written = reader.rows("/v3/scores")

    assert response == {"message": "Accepted"}
    assert (mixed["accepted"], mixed["rejected"]) == (1, 1)
    assert len(written) == 2


def test_fake__written_score_is_visible_later(langfuse: FakeLangfuse, reader: ApiReader) -> None:
    experiment = langfuse.experiment(items=1)
    langfuse.set_score_delay(looks=2)

    reader.post("/scores", {"name": "slow", "datasetRunId": experiment.id, "value": 1})
    score_counts = [len(reader.rows("/v3/scores", experimentId=experiment.id)) for _ in range(3)]

    assert score_counts == [0, 0, 1]


def test_fake__score_of_a_row_is_part_of_the_row(langfuse: FakeLangfuse, reader: ApiReader) -> None:
    experiment = langfuse.experiment(items=2)
    score = {"name": "rouge", "value": 0.5, "traceId": experiment.trace_id(1)}

    post_event(reader, score, AT)

    rows = reader.rows("/experiment-items", fromStartTime=EVER, fields="core,scores")
    assert [[entry["name"] for entry in row["scores"]] for row in rows] == [["rouge"], []]
