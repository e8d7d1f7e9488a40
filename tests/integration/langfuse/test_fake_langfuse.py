"""The fake server keeps the contract of a v4 server."""

from datetime import timedelta
from typing import Any

import httpx
import pytest

from tests.integration.langfuse.api_reader import EVER, ApiReader, condition, matching
from tests.support.langfuse import FakeLangfuse, ScorePlan
from tests.support.waiting import LIVENESS_S

JSON = dict[str, Any]


def test_fake__health_needs_no_key(langfuse: FakeLangfuse) -> None:
    answer = httpx.get(
        f"{langfuse.url}/api/public/health", trust_env=False, verify=False, timeout=LIVENESS_S
    )

    assert answer.json() == {"status": "OK", "version": "4.16.0"}


@pytest.mark.parametrize(
    ("key", "status"),
    [
        (None, 401),
        (("pk-lf-unknown", "sk-lf-unknown"), 401),
        ((FakeLangfuse.organisation_public_key, FakeLangfuse.organisation_secret_key), 403),
    ],
    ids=["no key", "unknown key", "key of an organisation"],
)
def test_fake__wrong_key_and_organization_key_differ(
    langfuse: FakeLangfuse, key: tuple[str, str] | None, status: int
) -> None:
    answer = httpx.get(
        f"{langfuse.url}/api/public/projects",
        auth=key,
        trust_env=False,
        verify=False,
        timeout=LIVENESS_S,
    )

    assert answer.status_code == status
    assert answer.json()["message"]


def test_fake__dataset_name_may_contain_a_slash(langfuse: FakeLangfuse, reader: ApiReader) -> None:
    dataset = langfuse.dataset("support/ö 1", items=3)

    assert reader.get("/v2/datasets/support%2F%C3%B6%201")["id"] == dataset.id
    assert reader.expect_problem(404, "/v2/datasets/support")["error"] == "LangfuseNotFoundError"


def test_fake__items_are_paged_without_archived_items(
    langfuse: FakeLangfuse, reader: ApiReader
) -> None:
    langfuse.experiment(items=5, expected_of=lambda number: {"answer": number})
    home = langfuse.dataset("support")
    home.archived, home.deleted, home.changed_at = {1}, {2}, home.created_at + timedelta(days=1)

    now = reader.get("/dataset-items", datasetName="support", limit=2, page=2)
    before = reader.get("/dataset-items", datasetName="support", version="2026-10-21T12:00:00Z")

    # Items 0, 3 and 4 remain: the second of two pages contains the last one.
    assert [item["id"] for item in now["data"]] == ["dataset-1-4"]
    assert now["meta"] == {"page": 2, "limit": 2, "totalItems": 3, "totalPages": 2}
    assert len(before["data"]) == 5
    assert before["data"][0]["expectedOutput"] == {"answer": 0}
    assert reader.get("/dataset-items/dataset-1-1")["status"] == "ARCHIVED"
    assert reader.expect_problem(404, "/dataset-items/dataset-1-2")


def test_fake__run_name_with_a_comma_needs_the_filter(
    langfuse: FakeLangfuse, reader: ApiReader
) -> None:
    experiment = langfuse.experiment(run="run 1/ö,x", items=3)
    by_name = matching(condition("name", "run 1/ö,x"))

    # The server splits `name` at commas.
    split = reader.get("/experiments", fromStartTime=EVER, name="run 1/ö,x")
    experiment_page = reader.get("/experiments", fromStartTime=EVER, filter=by_name)

    assert split["data"] == []
    assert [(run["id"], run["itemCount"]) for run in experiment_page["data"]] == [
        (experiment.id, 3)
    ]


def test_fake__experiment_summary_is_clipped_to_the_window(
    langfuse: FakeLangfuse, reader: ApiReader
) -> None:
    # Item n begins 5 n seconds after two o'clock: five of ten begin from 02:00:25 on.
    langfuse.experiment(items=10)

    late = reader.get("/experiments", fromStartTime="2026-11-20T02:00:25Z")["data"][0]
    none = reader.get("/experiments", fromStartTime="2026-11-21T00:00:00Z")["data"]

    assert late["itemCount"] == 5
    assert late["startTime"] == "2026-11-20T02:00:25.000Z"
    assert none == []


def test_fake__experiments_are_sorted_by_latest_activity(
    langfuse: FakeLangfuse, reader: ApiReader
) -> None:
    for number in range(5):
        langfuse.experiment(run=f"run-{number}", items=2)

    pages = list(reader.pages("/experiments", fromStartTime=EVER, limit=2))

    names = [[run["name"] for run in page] for page in pages]
    assert names == [["run-4", "run-3"], ["run-2", "run-1"], ["run-0"]]


def test_fake__rows_are_newest_first_in_pages_of_100(
    langfuse: FakeLangfuse, reader: ApiReader
) -> None:
    experiment = langfuse.experiment(items=250)

    pages = list(
        reader.pages("/experiment-items", fromStartTime=EVER, experimentId=experiment.id, limit=100)
    )

    assert [len(page) for page in pages] == [100, 100, 50]
    items = [row["experimentItemId"] for page in pages for row in page]
    assert items == [f"dataset-1-{number}" for number in reversed(range(250))]


def test_fake__rows_contain_raw_texts_and_string_metadata(
    langfuse: FakeLangfuse, reader: ApiReader
) -> None:
    outputs: list[Any] = ["1", 1, {"a": "ö"}, None]
    langfuse.experiment(items=4, output_of=outputs.__getitem__, errors={0})

    rows = reader.rows("/experiment-items", fromStartTime=EVER, fields="core,io,metadata")

    rows_by_item = {row["experimentItemId"]: row for row in rows}
    assert rows_by_item["dataset-1-0"]["level"] == "ERROR"
    assert rows_by_item["dataset-1-0"]["output"].startswith("Error: ")
    # API v4 has texts only: the text "1" and the number 1 look alike.
    assert rows_by_item["dataset-1-1"]["output"] == "1"
    assert rows_by_item["dataset-1-2"]["output"] == '{"a": "\\u00f6"}'
    assert rows_by_item["dataset-1-3"]["output"] == ""
    assert rows_by_item["dataset-1-1"]["metadata"]["dataset_item_id"] == '"dataset-1-1"'


def test_fake__field_groups_select_the_fields_of_rows(
    langfuse: FakeLangfuse, reader: ApiReader
) -> None:
    langfuse.experiment(items=1, metadata={"model": "small"}, description="the first")

    plain = reader.rows("/experiment-items", fromStartTime=EVER)[0]
    more = reader.rows(
        "/experiment-items", fromStartTime=EVER, fields="core,itemMetadata,experimentMetadata"
    )[0]

    assert plain["experimentDatasetId"] == "dataset-1"
    assert "input" not in plain
    assert more["experimentMetadata"] == {"model": '"small"'}
    assert more["experimentItemMetadata"] == {"topic": '"topic 0"'}
    assert more["experimentDescription"] == "the first"
    assert "experimentDatasetId" not in more


@pytest.mark.parametrize(
    ("path", "parameters"),
    [
        ("/experiments", {}),
        ("/experiments", {"fromStartTime": "2026-11-20"}),
        ("/experiments", {"fromStartTime": EVER, "limit": 101}),
        ("/experiments", {"fromStartTime": EVER, "fields": "core,io"}),
        ("/experiments", {"fromStartTime": EVER, "cursor": "nonsense"}),
        ("/experiments", {"fromStartTime": EVER, "filter": "[{"}),
        ("/experiment-items", {"fromStartTime": EVER, "limit": 101}),
        ("/experiment-items", {"fromStartTime": EVER, "scoreLimit": 51}),
        ("/v2/observations", {"limit": 1001}),
        ("/v2/observations", {"parseIoAsJson": "true"}),
        ("/v2/observations", {"filter": matching(condition("experimentItemId", "x"))}),
        ("/v2/observations", {"filter": matching(condition("type", ["x"], operator="any of"))}),
        ("/v3/scores", {"limit": 101}),
        ("/v3/scores", {"page": 1}),
        ("/v3/scores", {"fields": "everything"}),
        ("/v3/scores", {"observationId": "x"}),
        ("/v3/scores", {"traceId": "x", "experimentId": "y"}),
        ("/v3/scores", {"value": "1"}),
        ("/v3/scores", {"valueMin": "1", "dataType": "BOOLEAN"}),
        ("/dataset-items", {"datasetName": "support", "limit": 101}),
        ("/v2/datasets", {"page": 0}),
    ],
)
def test_fake__rejects_what_the_server_rejects(
    langfuse: FakeLangfuse, reader: ApiReader, path: str, parameters: JSON
) -> None:
    langfuse.experiment(items=1)

    assert reader.expect_problem(400, path, **parameters)["message"]


def test_fake__too_many_ids_exceed_the_header_limit(
    langfuse: FakeLangfuse, reader: ApiReader
) -> None:
    experiment = langfuse.experiment(items=900)
    ids = [experiment.trace_id(number) for number in range(900)]

    assert reader.get("/v3/scores", traceId=",".join(ids[:200]))["data"] == []
    # 900 IDs of 32 characters are a URL of 30,000.
    assert reader.expect_problem(431, "/v3/scores", traceId=",".join(ids))


def test_fake__rows_contain_scores_near_in_time(langfuse: FakeLangfuse, reader: ApiReader) -> None:
    experiment = langfuse.experiment(
        items=1,
        scores=[
            ScorePlan(name="task", value=0.5, comment="fine"),
            ScorePlan(name="trace", value=1.0, data_type="BOOLEAN", on="trace"),
            ScorePlan(name="child", value=0.25, on="call"),
            ScorePlan(name="late", value=0.75, after=timedelta(days=2)),
            ScorePlan(name="correction", value="better", data_type="CORRECTION"),
            ScorePlan(name="whole", value=0.9, on="run"),
        ],
    )

    row = reader.rows("/experiment-items", fromStartTime=EVER, fields="core,scores")[0]
    summary = reader.get("/experiments", fromStartTime=EVER, fields="core,scores")["data"][0]
    every = reader.rows("/v3/scores", traceId=row["traceId"], fields="details,subject")

    scores_by_name = {score["name"]: score for score in row["scores"]}
    # The rows lack corrections and the scores of child spans and of other days.
    assert scores_by_name.keys() == {"task", "trace"}
    assert scores_by_name["trace"]["value"] is True
    assert "comment" not in scores_by_name["task"]
    assert [score["name"] for score in summary["scores"]] == ["whole"]
    named = {score["name"]: score for score in every}
    assert named.keys() == {"task", "trace", "child", "late", "correction"}
    assert named["task"]["comment"] == "fine"
    assert named["child"]["subject"]["id"] == experiment.span_id(0, 2)
    assert named["trace"]["subject"] == {"kind": "trace", "id": row["traceId"]}


def test_fake__run_scores_exclude_trace_scores(langfuse: FakeLangfuse, reader: ApiReader) -> None:
    plans = [ScorePlan(name="task", value=0.5), ScorePlan(name="whole", value=0.9, on="run")]
    experiment = langfuse.experiment(items=2, scores=plans)

    scores = reader.rows("/v3/scores", experimentId=experiment.id, fields="subject")

    assert [score["name"] for score in scores] == ["whole"]
    assert scores[0]["subject"] == {"kind": "experiment", "id": experiment.id}


def test_fake__scores_are_newest_first_and_filtered(
    langfuse: FakeLangfuse, reader: ApiReader
) -> None:
    langfuse.experiment(items=30, scores=[ScorePlan(name="n", value=float)])

    pages = list(reader.pages("/v3/scores", limit=20))
    high = reader.rows("/v3/scores", dataType="numeric", valueMin="28")
    # Item n is scored at 5 (n + 1) seconds past two: from 02:02:25 on there are 28 and 29.
    late = reader.rows("/v3/scores", fromTimestamp="2026-11-20T02:02:25Z")
    early = reader.rows("/v3/scores", toTimestamp="2026-11-20T02:00:05Z")

    assert [score["value"] for page in pages for score in page] == list(range(29, -1, -1))
    assert [len(page) for page in pages] == [20, 10]
    assert [score["value"] for score in high] == [29, 28]
    assert [score["value"] for score in late] == [29, 28]
    assert early == []


def test_fake__spans_ingested_twice_repeat_on_other_pages(
    langfuse: FakeLangfuse, reader: ApiReader
) -> None:
    langfuse.experiment(items=150, repeated=2)

    pages = list(reader.pages("/experiment-items", fromStartTime=EVER, limit=100))
    summary = reader.get("/experiments", fromStartTime=EVER)["data"][0]

    ids = [[row["id"] for row in page] for page in pages]
    assert [len(page) for page in ids] == [100, 100, 100]
    assert len({row_id for page in ids for row_id in page}) == 150
    assert all(len(set(page)) == 100 for page in ids)
    assert set(ids[2]) <= set(ids[0]) | set(ids[1])
    assert summary["itemCount"] == 150


def test_fake__short_page_is_not_the_end(langfuse: FakeLangfuse, reader: ApiReader) -> None:
    langfuse.experiment(items=10)
    langfuse.set_short_pages(by=2)

    pages = list(reader.pages("/experiment-items", fromStartTime=EVER, limit=5))

    assert [len(page) for page in pages] == [3, 3, 3, 1]


def test_fake__unfinished_run_grows_with_each_read(
    langfuse: FakeLangfuse, reader: ApiReader
) -> None:
    langfuse.experiment(items=9, visible=[0, 4, 9])
    langfuse.experiment(run="other", items=9, visible=[4, 9])

    def look(name: str) -> list[int]:
        experiments = reader.get("/experiments", fromStartTime=EVER, name=name)["data"]
        rows = reader.rows("/experiment-items", fromStartTime=EVER, experimentName=name)
        return [*(run["itemCount"] for run in experiments), len(rows)]

    assert [look("other") for _ in range(3)] == [[4, 4], [9, 9], [9, 9]]
    assert [look("run-1") for _ in range(3)] == [[0], [4, 4], [9, 9]]


def test_fake__trials_are_rows_of_the_same_item(langfuse: FakeLangfuse, reader: ApiReader) -> None:
    langfuse.experiment(items=2, trials=3)

    rows = reader.rows("/experiment-items", fromStartTime=EVER)

    assert [row["experimentItemId"][-1] for row in rows] == ["1", "1", "1", "0", "0", "0"]
    assert len({row["traceId"] for row in rows}) == 6


def test_fake__v3_endpoints_answer_404_before_authentication(langfuse: FakeLangfuse) -> None:
    answer = httpx.get(
        f"{langfuse.url}/api/public/traces", trust_env=False, verify=False, timeout=LIVENESS_S
    )

    # A 404 even without keys is how a client recognizes a server that has API v4 only.
    assert answer.status_code == 404
    assert "events_only mode" in answer.json()["message"]


def test_fake__million_items_cost_only_the_read_page(
    langfuse: FakeLangfuse, reader: ApiReader
) -> None:
    langfuse.experiment(items=1_000_000)

    summary = reader.get("/experiments", fromStartTime=EVER)["data"][0]
    page = reader.get("/experiment-items", fromStartTime=EVER, limit=1)["data"]
    old = reader.get(
        "/experiment-items",
        fromStartTime=EVER,
        toStartTime="2026-11-20T02:00:05Z",
        experimentId=summary["id"],
    )["data"]

    assert summary["itemCount"] == 1_000_000
    assert page[0]["experimentItemId"] == "dataset-1-999999"
    assert [row["experimentItemId"] for row in old] == ["dataset-1-0"]


def test_fake__records_requests(langfuse: FakeLangfuse, reader: ApiReader) -> None:
    reader.get("/projects")
    reader.expect_problem(404, "/v2/datasets/a%2Fb", page=1)

    assert [(request.path, request.status) for request in langfuse.requests] == [
        ("/projects", 200),
        ("/v2/datasets/a%2Fb", 404),
    ]
    assert langfuse.requests_for("/v2/datasets/a%2Fb")[0].parameters == {"page": "1"}
    langfuse.clear_requests()
    assert langfuse.requests == ()
