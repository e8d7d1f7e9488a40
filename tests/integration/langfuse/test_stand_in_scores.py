"""Scores that are written to the stand-in: their limits, their ids, and when they can be read."""

from typing import Any

import pytest

from tests.integration.langfuse.reading import EVER, Reader
from tests.support.langfuse import StandIn, stand_in

JSON = dict[str, Any]
AT = "2026-11-20T03:00:00.000Z"


def test_a_score_with_its_own_id_and_time_is_written_once(
    langfuse: StandIn, reader: Reader
) -> None:
    score = {"id": "s-1", "name": "bleu", "traceId": "t-1", "timestamp": AT}

    for value in (0.25, 0.5):
        reader.post("/scores", score | {"value": value})

    found = reader.rows("/v3/scores", traceId="t-1", fields="details,subject")
    assert [(one["id"], one["value"], one["timestamp"]) for one in found] == [("s-1", 0.5, AT)]


def test_the_same_id_on_another_day_is_another_score(langfuse: StandIn, reader: Reader) -> None:
    score = {"id": "s-1", "name": "bleu", "traceId": "t-1", "value": 1}

    reader.post("/scores", score | {"timestamp": AT})
    reader.post("/scores", score | {"timestamp": "2026-11-21T03:00:00.000Z"})

    assert len(reader.rows("/v3/scores", traceId="t-1")) == 2


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
        {"name": "n", "traceId": "t", "value": "x" * 501, "dataType": "TEXT"},
        {"name": "n", "traceId": "t", "value": 1, "dataType": "COLOUR"},
        {"name": "n", "traceId": "t", "value": 1, "timestamp": "yesterday"},
        {"name": "n", "traceId": "t", "value": 1, "timestamp": "2026-11-20T03:00:00"},
    ],
)
def test_a_score_that_the_server_would_not_take_is_refused(
    langfuse: StandIn, reader: Reader, score: JSON
) -> None:
    assert reader.post("/scores", score, status=400)["message"] == "Invalid request data"
    assert reader.rows("/v3/scores") == []


def test_a_body_over_one_mebibyte_is_refused(langfuse: StandIn, reader: Reader) -> None:
    score = {"name": "n", "traceId": "t", "value": 1, "comment": "x" * 1024 * 1024}

    assert reader.post("/scores", score, status=413)


def test_a_list_of_scores_is_for_newer_servers(langfuse: StandIn, reader: Reader) -> None:
    scores = [{"name": "n", "traceId": "t", "value": 1}, {"name": "n", "value": 1}]
    assert reader.post("/scores", scores, status=400)

    with stand_in(takes_score_lists=True) as newer:
        reader.client.auth = (newer.public_key, newer.secret_key)
        reader.client.base_url = f"{newer.url}/api/public"
        taken = reader.post("/scores", scores[:1], status=202)
        mixed = reader.post("/scores", scores, status=207)
        written = reader.rows("/v3/scores")

    assert taken == {"message": "Accepted"}
    assert (mixed["accepted"], mixed["rejected"]) == (1, 1)
    assert len(written) == 2


def test_a_written_score_is_read_back_later(langfuse: StandIn, reader: Reader) -> None:
    made = langfuse.experiment(items=1)
    langfuse.delay_scores(looks=2)

    reader.post("/scores", {"name": "slow", "datasetRunId": made.id, "value": 1})
    seen = [len(reader.rows("/v3/scores", experimentId=made.id)) for _ in range(3)]

    assert seen == [0, 0, 1]


def test_a_score_written_for_a_row_is_shown_on_it(langfuse: StandIn, reader: Reader) -> None:
    made = langfuse.experiment(items=2)
    score = {"name": "rouge", "value": 0.5, "timestamp": AT, "traceId": made.trace_id(1)}

    reader.post("/scores", score)

    rows = reader.rows("/experiment-items", fromStartTime=EVER, fields="core,scores")
    assert [[one["name"] for one in row["scores"]] for row in rows] == [["rouge"], []]
