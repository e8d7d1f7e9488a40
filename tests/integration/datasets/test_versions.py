"""Datasets whose items live here: versions, edits against a version, files, and what runs test."""

import csv
import dataclasses
import json
from io import StringIO
from pathlib import Path
from random import Random
from typing import Any

import pytest

from mosaico.core.resources import Resources
from tests.support.otlp import PROTOBUF, export, settle_spans, span
from tests.support.service import JSON, Service, pair


def item(number: int, expected: str | None = "a b c d", text: str | None = None) -> JSON:
    return {
        "id": f"i-{number}",
        "input": text or f"question {number}",
        "expectedOutput": expected,
    }


def create_dataset(service: Service, *items: JSON, name: str = "support") -> JSON:
    """A dataset whose first version has the items."""
    dataset = service.post("/datasets", {"name": name})
    edit(service, dataset, 0, items=list(items))
    return service.get(f"/datasets/{dataset['id']}")


def edit(service: Service, dataset: JSON, base_version: int, **changes: Any) -> JSON:
    return service.post(
        f"/datasets/{dataset['id']}/versions", {"baseVersion": base_version, **changes}
    )


def items_of(service: Service, dataset: JSON, version: int) -> dict[str, JSON]:
    rows = service.list_items(f"/datasets/{dataset['id']}/items", version=version)
    return {row["id"]: row for row in rows}


def export_items(service: Service, dataset: JSON, version: int, file_format: str) -> str:
    path = f"/datasets/{dataset['id']}/export?version={version}&format={file_format}"
    return service.send("GET", path).text


def import_items(service: Service, content: str, **parameters: Any) -> JSON:
    response = service.client.post(
        "/api/v1/datasets/import",
        params={"name": "support", **parameters},
        content=content.encode(),
        headers={"Content-Type": "text/csv"},
    )
    assert response.status_code == 201, response.text
    result: JSON = response.json()
    return result


def test_versions__each_edit_makes_one_and_keeps_all_before(service: Service) -> None:
    dataset = create_dataset(service, item(1), item(2))
    second = edit(
        service, dataset, 1, items=[item(1, "b"), item(3)], retire=["i-2"], note="new offices"
    )
    assert (second["version"], second["added"], second["changed"], second["retired"]) == (
        2,
        1,
        1,
        1,
    )
    first_items, second_items = items_of(service, dataset, 1), items_of(service, dataset, 2)
    assert list(first_items) == ["i-1", "i-2"]
    assert list(second_items) == ["i-1", "i-3"]
    assert [rows["i-1"]["expectedOutput"] for rows in (first_items, second_items)] == [
        "a b c d",
        "b",
    ]
    newest, oldest = service.list_items(f"/datasets/{dataset['id']}/versions")
    assert (newest["note"], newest["itemCount"], oldest["itemCount"]) == ("new offices", 2, 2)
    assert newest["createdByName"]
    history = service.list_items(f"/datasets/{dataset['id']}/item-history", itemId="i-2")
    assert [(row["version"], row["isRetired"]) for row in history] == [(2, True), (1, False)]


def test_edit__without_a_difference_makes_no_version_and_a_retired_item_comes_back_in_its_place(
    service: Service,
) -> None:
    dataset = create_dataset(service, item(1), item(2))
    same = edit(service, dataset, 1, items=[item(2)])
    assert (same["version"], same["isNew"]) == (1, False)
    edit(service, dataset, 1, retire=["i-1"])
    again = edit(service, dataset, 2, items=[item(1)])
    assert (again["version"], again["added"]) == (3, 1)
    assert list(items_of(service, dataset, 3)) == ["i-1", "i-2"]


def test_edit__conflicts_with_a_later_change_of_its_items_only(service: Service) -> None:
    dataset = create_dataset(service, item(1), item(2))
    edit(service, dataset, 1, items=[item(1, "new")])
    # Made against the first version, of another item.
    assert edit(service, dataset, 1, items=[item(2, "other")])["version"] == 3
    body = {"baseVersion": 1, "items": [item(1, "mine")]}
    problem = service.expect_problem(409, "POST", f"/datasets/{dataset['id']}/versions", body)
    assert problem["type"] == "/problems/edit-conflict"
    assert [(error["pointer"], "'i-1'" in error["detail"], "version 2" in error["detail"]) for error in problem["errors"]] == [("/baseVersion", True, True)]  # fmt: skip
    assert items_of(service, dataset, 3)["i-1"]["expectedOutput"] == "new"


@pytest.mark.parametrize(
    "changes",
    [
        {"items": [item(1), item(1, "b")]},
        {"items": [item(1, "b")], "retire": ["i-1"]},
        {"retire": ["nobody"]},
        {"items": [{"id": "x", "input": ""}]},
    ],
    ids=["twice", "changed and retired", "unknown", "without input"],
)
def test_edit__that_contradicts_itself_is_refused(service: Service, changes: JSON) -> None:
    dataset = create_dataset(service, item(1))
    body = {"baseVersion": 1, **changes}
    service.expect_problem(422, "POST", f"/datasets/{dataset['id']}/versions", body)
    assert service.get(f"/datasets/{dataset['id']}")["version"] == 1


def test_version__of_the_future_and_unknown_dataset_do_not_exist(service: Service) -> None:
    dataset = create_dataset(service, item(1))
    service.expect_problem(404, "GET", f"/datasets/{dataset['id']}/items?version=2")
    service.expect_problem(404, "GET", "/datasets/nobody/items")
    service.expect_problem(409, "POST", "/datasets", {"name": "support"})


@pytest.mark.parametrize("file_format", ["csv", "jsonl"])
def test_export__reads_back_as_the_same_items(service: Service, file_format: str) -> None:
    special = {
        "id": "=1+1",
        "input": '{"messages": ["a, \\"b\\""]}\nline\r\ntwo',
        "expectedAny": ["x", "y"],
        "expectedOutput": "x",
        "tags": ["hard"],
        "attributes": {"category": "a;b", "user": "ada"},
    }
    dataset = create_dataset(service, item(1), special, item(2, None))
    content = export_items(service, dataset, 1, file_format)
    assert import_items(service, content, baseVersion=1, replace=True)["isNew"] is False
    copy = import_items(service, content, name="copy")
    assert copy["added"] == 3
    assert export_items(service, {"id": copy["datasetId"]}, 1, file_format) == content


def test_import__of_a_table_of_a_user_adds_changes_and_with_replace_retires(
    service: Service,
) -> None:
    dataset = create_dataset(service, item(1), item(2))
    table = "id,question,answer\ni-1,question 1,changed\ni-9,new?,yes\n"
    merged = import_items(service, table, baseVersion=1)
    assert (merged["added"], merged["changed"], merged["retired"]) == (1, 1, 0)
    replaced = import_items(service, table, baseVersion=2, replace=True)
    assert (replaced["added"], replaced["changed"], replaced["retired"]) == (0, 0, 1)
    assert list(items_of(service, dataset, 3)) == ["i-1", "i-9"]


@pytest.mark.parametrize(
    ("content", "tags"),
    [
        ("id,question,category\ni-1,question 1,new\n", ["hard", "category:new"]),
        (
            '{"id": "i-1", "input": "question 1", "attributes": {"plan": "free"}}\n',
            ["hard", "category:old"],
        ),
        (
            '{"id": "i-1", "input": "question 1", "tags": ["easy", "plan:free"]}\n',
            ["category:old", "easy", "plan:free"],
        ),
    ],
    ids=["a table", "attributes", "tags"],
)
def test_import__of_a_part_of_an_item_keeps_the_rest(
    service: Service, content: str, tags: list[str]
) -> None:
    full = {**item(1, "a"), "expectedAny": ["a", "b"], "tags": ["hard", "category:old"]}
    dataset = create_dataset(service, {**full, "attributes": {"user": "ada"}})
    assert import_items(service, content, baseVersion=1)["changed"] == 1
    assert import_items(service, content, baseVersion=2)["isNew"] is False
    stored = items_of(service, dataset, 2)["i-1"]
    assert (stored["expectedOutput"], stored["expectedAny"]) == ("a", ["a", "b"])
    assert stored["tags"] == tags
    assert stored["attributes"]["user"] == "ada"
    # An export says all of an item.
    lines = export_items(service, dataset, 2, "jsonl")
    import_items(service, lines.replace(json.dumps(tags), "[]"), baseVersion=2)
    assert items_of(service, dataset, 3)["i-1"]["tags"] == []


def test_run__gets_expected_answers_of_the_version_and_names_it(service: Service) -> None:
    service.create_agent()
    service.create_benchmark(metrics=["ACCURACY"])
    dataset = create_dataset(service, item(0, "right"), item(1, "right"), item(2, "right"), item(3))
    edit(service, dataset, 1, retire=["i-3"])
    # Two answers without expected ones, one of a retired item, one that the dataset does not have.
    service.upload(
        [pair(0, None, "right"), pair(1, None, "wrong"), pair(3, "x", "x"), pair(7, "y", "y")]
    )
    run = service.complete_run()
    assert (run["datasetName"], run["datasetVersion"]) == ("support", 2)
    [metric] = [
        row
        for row in service.list_items(f"/benchmark-runs/{run['id']}/metrics")
        if row["metric"] == "ACCURACY"
    ]
    # Right, wrong, and the right answer that the dataset does not have.
    assert (metric["n"], metric["mean"]) == (3, pytest.approx(2 / 3))
    trace = service.get(f"/benchmark-runs/{run['id']}/traces/t-0")
    assert (trace["input"], trace["expectedOutput"]) == ("question 0", "right")
    warning = run["sourceWarning"]
    assert "support v2" in warning
    assert "1 of 3 items has no trace: i-2" in warning
    assert "1 item of the run is not in it" in warning
    assert "1 trace of retired items is left out" in warning
    # Two of three items: less than the default of minCoverage.
    assert run["validity"] == "INVALID"


def test_runs__are_filtered_by_the_version_and_their_tables_have_it(service: Service) -> None:
    service.create_agent()
    service.create_benchmark(
        metrics=["ACCURACY"], measures=[{"name": "acc", "formula": "ACCURACY"}]
    )
    dataset = create_dataset(service, item(0, "right"))
    runs = []
    for version in (1, 2):
        service.upload([pair(0, None, f"answer {version}")], run_name=f"night-{version}")
        runs.append(service.complete_run(runName=f"night-{version}")["id"])
        if version == 1:
            edit(service, dataset, 1, items=[item(0, "left")])
    listed = service.list_items("/benchmark-runs", datasetName="support", datasetVersion=2)
    assert [run["id"] for run in listed] == runs[1:]
    assert service.list_items("/benchmark-runs", datasetName="other") == []
    for table in ("benchmark-runs", "kpi-history"):
        text = service.client.get(f"/api/v1/{table}.csv").text
        rows = {row["runId"]: row for row in csv.DictReader(StringIO(text))}
        assert [(rows[run]["datasetName"], rows[run]["datasetVersion"]) for run in runs] == [
            ("support", "1"), ("support", "2"),
        ]  # fmt: skip


def test_run__what_an_upload_says_itself_counts_and_a_contradiction_is_said(
    service: Service,
) -> None:
    service.create_agent()
    service.create_benchmark(metrics=["ACCURACY"])
    create_dataset(service, item(0, "right"), item(1, "right"))
    service.upload([pair(0, "other", "other"), pair(1, "right", "right", input="another one")])
    run = service.complete_run()
    assert "1 trace came with another expected answer" in run["sourceWarning"]
    assert "1 trace answered another question" in run["sourceWarning"]
    trace = service.get(f"/benchmark-runs/{run['id']}/traces/t-0")
    assert trace["expectedOutput"] == "other"


def test_run__without_a_version_takes_the_upload_as_it_is(service: Service) -> None:
    service.create_agent()
    service.create_benchmark(metrics=["ACCURACY"])
    service.post("/datasets", {"name": "support"})
    service.upload([pair(0)])
    run = service.complete_run()
    assert (run["validity"], run["datasetVersion"], run["sourceWarning"]) == ("VALID", None, None)


def test_run__of_received_spans_is_filled_too(service: Service) -> None:
    service.create_agent()
    service.create_benchmark(metrics=["ACCURACY"], source="otel")
    create_dataset(service, item(0, "right"))
    attributes: dict[str, Any] = {
        "mosaico__dataset": "support", "mosaico__run": "monday", "mosaico__item_id": "i-0",
        "output__value": "right", "input__value": "question 0",
    }  # fmt: skip
    spans = [span("agent", trace="a", **attributes)]
    response = service.client.post("/v1/traces", content=export(spans), headers=PROTOBUF)
    assert response.status_code == 200, response.text
    settle_spans(service.resources.db)
    run = service.complete_run(runName="monday")
    assert (run["status"], run["datasetVersion"]) == ("COMPLETED", 1), run
    [trace] = service.list_items(f"/benchmark-runs/{run['id']}/results")
    assert (trace["itemId"], trace["expectedOutput"]) == ("i-0", "right")


class TestAgentOverVersion:
    @pytest.fixture
    def service_resources(self, service_resources: Resources, tmp_path: Path) -> Resources:
        commands = tmp_path / "commands.json"
        commands.write_text(json.dumps({"echo": {"command": "cat"}}))
        options = {**service_resources.options, "agent_commands": str(commands)}
        return dataclasses.replace(service_resources, options=options)

    def test_run__of_an_agent_asks_the_items_of_the_version(self, service: Service) -> None:
        service.create_agent()
        service.create_benchmark(
            metrics=["ACCURACY"], source="harness", harness={"command": "echo"}
        )
        dataset = create_dataset(service, item(0, "question 0"), item(1, "question 1"))
        edit(service, dataset, 1, retire=["i-0"], items=[item(2, "no")])
        run = service.complete_run()
        assert (run["status"], run["datasetVersion"]) == ("COMPLETED", 2), run
        traces = service.list_items(f"/benchmark-runs/{run['id']}/results")
        assert {row["itemId"]: row["values"]["ACCURACY"] for row in traces} == {"i-1": 1, "i-2": 0}


def test_comparison__over_two_versions_uses_common_items_and_says_so(service: Service) -> None:
    service.create_agent()
    service.create_benchmark(metrics=["ACCURACY"], minCoverage=0.5)
    count = 60
    dataset = create_dataset(service, *(item(number, "yes") for number in range(count)))
    service.upload([pair(n, None, "yes") for n in range(count)], run_name="monday")
    service.complete_run(runName="monday")
    # Another expected answer, another question, one item less, one more.
    edit(
        service, dataset, 1,
        items=[item(0, "no"), item(1, "yes", "another question"), item(100, "yes")],
        retire=["i-2"],
    )  # fmt: skip
    service.upload([pair(n, None, "yes") for n in (*range(count), 100)], run_name="tuesday")
    run = service.complete_run(runName="tuesday")
    items = run["verdict"]["items"]
    assert (items["compared"], items["revised"]) == (57, 2)
    assert (items["onlyBaseline"], items["onlyCandidate"]) == (1, 1)
    differences = " ".join(run["verdict"]["differences"])
    assert "dataset support v2 instead of v1" in differences
    assert "2 items have another task or expected output" in differences


def test_trace__of_a_run_becomes_an_item_with_the_corrected_answer_and_its_origin(
    service: Service,
) -> None:
    service.create_agent()
    service.create_benchmark(metrics=["ACCURACY"], redact={"patterns": ["ada@[a-z.]+"]})
    service.upload(
        [pair(0, None, "no", input="I am ada@x.org, am I in?", attributes={"user": "u"})]
    )
    run = service.complete_run()
    body = {
        "dataset": "support", "traceId": "t-0",
        "expectedOutput": "yes, ada@x.org", "note": "seen in production",
    }  # fmt: skip
    result = service.post(f"/benchmark-runs/{run['id']}/dataset-items", body)
    assert (result["version"], result["added"], result["name"]) == (1, 1, "support")
    row = items_of(service, {"id": result["datasetId"]}, 1)["i-0"]
    assert "ada@" not in row["input"] + row["expectedOutput"]
    assert row["expectedOutput"].startswith("yes, ")
    assert row["origin"] == {
        "runId": run["id"], "uploadId": None, "traceId": "t-0", "itemId": "i-0", "dataset": "support",
    }  # fmt: skip
    # The same again changes nothing.
    again = service.post(f"/benchmark-runs/{run['id']}/dataset-items", body)
    assert (again["version"], again["isNew"]) == (1, False)


@pytest.mark.parametrize(
    ("expected", "annotations", "right"),
    [
        (None, [{"judgement": "right"}], "no"),
        (None, [{"judgement": "wrong"}], None),
        ("yes", [{"judgement": "right"}], "yes"),
        (
            "yes",
            [{"judgement": "wrong", "correctedAnswer": "maybe, ada@x.org"}],
            "maybe, ⟦redacted⟧",
        ),
    ],
)
def test_trace__item_has_what_annotators_call_right(
    service: Service, expected: str | None, annotations: list[JSON], right: str | None
) -> None:
    service.create_agent()
    service.create_benchmark(metrics=["ACCURACY"], redact={"patterns": ["ada@[a-z.]+"]})
    service.upload([pair(0, expected, "no", input="Am I in?")])
    run = service.complete_run()
    for annotation in annotations:
        service.post(f"/benchmark-runs/{run['id']}/annotations", {"traceId": "t-0", **annotation})
    body = {"dataset": "support", "traceId": "t-0"}
    result = service.post(f"/benchmark-runs/{run['id']}/dataset-items", body)
    row = items_of(service, {"id": result["datasetId"]}, 1)["i-0"]
    assert row["expectedOutput"] == right


def test_trace__of_an_upload_becomes_an_item_and_never_replaces_another_one(
    service: Service,
) -> None:
    create_dataset(service, item(0))
    upload = service.upload([pair(0, None, "no", input="else?"), pair(1)])
    path, body = (
        f"/local-datasets/{upload['id']}/dataset-items",
        {"dataset": "support", "traceId": "t-0"},
    )
    problem = service.expect_problem(409, "POST", path, body)
    assert problem["type"] == "/problems/item-exists"
    result = service.post(path, {**body, "itemId": "n-1"})
    assert result["version"] == 2
    row = items_of(service, {"id": result["datasetId"]}, 2)["n-1"]
    assert row["origin"] == {
        "runId": None, "uploadId": upload["id"], "traceId": "t-0", "itemId": "i-0", "dataset": "support",
    }  # fmt: skip
    # A trace without a question, and one that does not exist.
    service.expect_problem(422, "POST", path, {**body, "traceId": "t-1"})
    service.expect_problem(404, "POST", path, {**body, "traceId": "nobody"})


def test_trace__without_a_right_answer_changes_nothing_that_was_edited_since(
    service: Service,
) -> None:
    dataset = create_dataset(service, {**item(0, "by mail"), "tags": ["post"]})
    service.create_agent()
    service.create_benchmark(metrics=["ACCURACY"])
    service.upload([pair(0, None, "no")])
    run = service.complete_run()
    edit(service, dataset, 1, items=[{**item(0, "by phone"), "tags": ["phone"]}])
    path, body = (
        f"/benchmark-runs/{run['id']}/dataset-items",
        {"dataset": "support", "traceId": "t-0"},
    )
    # The trace says "by mail" and "post", as version 1 did.
    assert service.post(path, body)["isNew"] is False
    assert service.post(path, {**body, "expectedOutput": "by fax"})["version"] == 3
    row = items_of(service, dataset, 3)["i-0"]
    assert (row["expectedOutput"], row["tags"]) == ("by fax", ["phone"])


def test_purge__erases_items_in_all_versions(service: Service) -> None:
    first = {**item(1), "input": "secret", "attributes": {"user": "ada"}}
    dataset = create_dataset(service, first, item(2))
    edit(service, dataset, 1, items=[{**item(1), "input": "secret, reworded"}])
    assert service.post("/local-datasets/purge", {"userId": "ada"})["items"] == 1
    for version in (1, 2):
        row = items_of(service, dataset, version)["i-1"]
        assert (row["input"], row["expectedOutput"]) == (None, None)
        assert "erased" in row["attributes"]
    assert "secret" not in json.dumps(
        service.list_items(f"/datasets/{dataset['id']}/item-history", itemId="i-1")
    )
    assert service.post("/local-datasets/purge", {"itemId": "i-2"})["items"] == 1
    # A new text of it is reached again, whatever its attributes say.
    again = {**item(2), "input": "secret again", "attributes": {"erased": "no"}}
    edit(service, dataset, 2, items=[again])
    assert service.post("/local-datasets/purge", {"itemId": "i-2"})["items"] == 1
    assert items_of(service, dataset, 3)["i-2"]["input"] is None


@pytest.mark.parametrize("seed", range(4))
def test_edits__any_sequence_keeps_every_version_and_replays_to_the_same_items(
    service: Service, seed: int
) -> None:
    """Against a model that copies all items for each version."""
    random = Random(seed)
    dataset = service.post("/datasets", {"name": "support"})
    versions: list[dict[str, JSON]] = [{}]
    edits: list[JSON] = []
    for _ in range(8):
        newest = versions[-1]
        retired = random.sample(sorted(newest), k=min(len(newest), random.randint(0, 2)))
        items = [
            item(number, random.choice([None, "a", "b"]), random.choice([None, "else?"]))
            for number in random.sample(range(6), k=random.randint(0, 3))
            if f"i-{number}" not in retired
        ]
        changes = {"items": items, "retire": retired}
        result = edit(service, dataset, len(versions) - 1, **changes)
        kept = {key: row for key, row in newest.items() if key not in retired}
        after = {**kept, **{row["id"]: row for row in items}}
        assert result["isNew"] is (after != newest)
        if result["isNew"]:
            versions.append(after)
            edits.append(changes)
    for version, expected in enumerate(versions):
        rows = items_of(service, dataset, version)
        assert {
            key: {name: row[name] for name in ("id", "input", "expectedOutput")}
            for key, row in rows.items()
        } == expected
    copy = service.post("/datasets", {"name": "copy"})
    for version, changes in enumerate(edits):
        edit(service, copy, version, **changes)
    newest_version = len(versions) - 1
    assert export_items(service, copy, newest_version, "jsonl") == export_items(
        service, dataset, newest_version, "jsonl"
    )


def test_comparison__with_an_item_that_is_changed_back_has_it_in_common_again(
    service: Service,
) -> None:
    service.create_agent()
    service.create_benchmark(metrics=["ACCURACY"])
    count = 30
    service.upload(
        [pair(n, "yes", "yes", input=f"question {n}") for n in range(count)], run_name="before"
    )
    service.complete_run(runName="before")
    dataset = create_dataset(service, *(item(number, "yes") for number in range(count)))
    edit(service, dataset, 1, items=[item(0, "yes", "else?")])
    edit(service, dataset, 2, items=[item(0, "yes")])
    service.upload([pair(n, None, "yes") for n in range(count)], run_name="after")
    run = service.complete_run(runName="after")
    # The run before the dataset had versions asked the same, too.
    assert run["datasetVersion"] == 3
    assert (run["verdict"]["items"]["compared"], run["verdict"]["items"]["revised"]) == (count, 0)


def test_purge__of_an_item_erases_what_was_made_of_its_traces_under_another_id(
    service: Service,
) -> None:
    for name in ("support", "other"):
        upload = service.upload([pair(0, None, "no", input=f"secret of {name}")], name=name)
        copy = {"dataset": "golden", "traceId": "t-0", "itemId": f"copy-{name}"}
        result = service.post(f"/local-datasets/{upload['id']}/dataset-items", copy)
    erased = service.post("/local-datasets/purge", {"itemId": "i-0", "dataset": "support"})
    assert erased["items"] == 1
    rows = items_of(service, {"id": result["datasetId"]}, 2)
    assert rows["copy-support"]["input"] is None
    # Of another dataset, where the same ID is another item.
    assert rows["copy-other"]["input"] == "secret of other"
