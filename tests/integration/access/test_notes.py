"""Notes on runs, items and incidents: with names, where the thing is shown, searched and exported."""

import csv
from io import StringIO
from typing import Any

import httpx
import pytest

from tests.support.browser_sessions import HTML, log_in
from tests.support.service import Service, pair


@pytest.fixture
def run(service: Service) -> dict[str, Any]:
    """A completed run with the items of three traces."""
    service.create_agent()
    service.create_benchmark()
    service.upload([pair(number) for number in range(3)])
    return service.complete_run()


def create_key(service: Service, name: str, role: str, **fields: Any) -> str:
    token: str = service.post("/keys", {"name": name, "role": role, **fields})["token"]
    return token


def send_as(
    service: Service, token: str, method: str, path: str, body: Any = None
) -> httpx.Response:
    headers = {"Authorization": f"Bearer {token}"}
    return service.client.request(method, f"/api/v1{path}", headers=headers, json=body)


def first_item(service: Service, run: dict[str, Any]) -> str:
    item: str = service.list_items(f"/benchmark-runs/{run['id']}/results")[0]["itemId"]
    return item


def test_notes__of_run_and_item_have_names_and_are_listed_searched_and_exported(
    service: Service, run: dict[str, Any], browser: httpx.Client
) -> None:
    ana = create_key(service, "Ana", "run")
    path, item = f"/benchmark-runs/{run['id']}/notes", first_item(service, run)
    of_run = send_as(service, ana, "POST", path, {"text": "  The new prompt was planned. "})
    assert of_run.status_code == 201, of_run.text
    note = of_run.json()
    assert of_run.headers["location"] == f"/api/v1/notes/{note['id']}"
    assert (note["text"], note["createdByName"], note["benchmarkId"]) == (
        "The new prompt was planned.", "Ana", run["benchmarkId"],
    )  # fmt: skip
    of_item = service.post(path, {"text": "=Wrong reference", "itemId": item})
    assert service.get(f"/notes/{note['id']}") == note
    # Newest first; a note about an item is one of its run, too.
    assert [each["id"] for each in service.list_items("/notes", runId=run["id"])] == [
        of_item["id"], note["id"],
    ]  # fmt: skip
    assert service.list_items("/notes", itemId=item) == [of_item]
    assert service.list_items("/notes", text="PROMPT") == [note]
    found = {
        group["kind"]: group["matches"]
        for group in service.get("/overview/search", text="was planned")["groups"]
    }
    assert [(match["id"], match["runId"]) for match in found["NOTE"]] == [(note["id"], run["id"])]
    table = service.client.get("/api/v1/notes.csv", params={"runId": run["id"]}).text
    rows = list(csv.DictReader(StringIO(table)))
    assert [(row["itemId"], row["createdByName"]) for row in rows] == [
        (item, of_item["createdByName"]), ("", "Ana"),
    ]  # fmt: skip
    # A spreadsheet would compute it.
    assert not rows[0]["text"].startswith("=")
    report = service.client.get(f"/api/v1/benchmark-runs/{run['id']}/report").text
    assert "The new prompt was planned." in report
    assert '/notes"' not in report
    log_in(browser, ana)
    page = browser.get(f"/runs/{run['id']}", headers=HTML).text
    assert "The new prompt was planned." in page
    assert "Wrong reference" in browser.get(f"/runs/{run['id']}/items", params={"item": item}).text
    only_match = browser.get("/search", params={"text": "new prompt"})
    assert only_match.headers["location"] == f"/runs/{run['id']}#notes"


def test_note__is_deleted_by_its_author_or_an_admin_only(
    service: Service, run: dict[str, Any]
) -> None:
    ana, ben = (create_key(service, name, "run") for name in ("Ana", "Ben"))
    reader = create_key(service, "Eva", "read")
    path = f"/benchmark-runs/{run['id']}/notes"
    assert send_as(service, reader, "POST", path, {"text": "x"}).status_code == 403
    first, second = (
        send_as(service, ana, "POST", path, {"text": text}).json() for text in ("one", "two")
    )
    refused = send_as(service, ben, "DELETE", f"/notes/{first['id']}")
    assert (refused.status_code, refused.json()["type"].rpartition("/")[2]) == (
        403,
        "not-your-note",
    )
    assert send_as(service, reader, "DELETE", f"/notes/{first['id']}").status_code == 403
    assert send_as(service, ana, "DELETE", f"/notes/{first['id']}").status_code == 204
    service.delete(f"/notes/{second['id']}")
    assert service.list_items("/notes") == []
    service.expect_problem(404, "GET", f"/notes/{first['id']}")


def test_note__needs_a_text_and_its_subject(service: Service, run: dict[str, Any]) -> None:
    path = f"/benchmark-runs/{run['id']}/notes"
    for body in ({"text": " "}, {"text": "x" * 2001}, {}):
        service.expect_problem(422, "POST", path, body)
    unknown = service.expect_problem(404, "POST", path, {"text": "x", "itemId": "no-such-item"})
    assert unknown["type"].endswith("item-not-in-run")
    service.expect_problem(404, "POST", "/benchmark-runs/no-such-run/notes", {"text": "x"})
    service.expect_problem(404, "POST", "/incidents/no-such-incident/notes", {"text": "x"})


def test_note__of_another_benchmark_does_not_exist_for_a_limited_key(
    service: Service, run: dict[str, Any]
) -> None:
    service.create_benchmark("mine", evaluates=["agent-001"])
    mine = create_key(service, "Ben", "run", only=["mine"])
    path = f"/benchmark-runs/{run['id']}/notes"
    note = service.post(path, {"text": "a secret reason"})
    assert send_as(service, mine, "POST", path, {"text": "x"}).status_code == 404
    assert send_as(service, mine, "DELETE", f"/notes/{note['id']}").status_code == 404
    for route in ("/notes", "/notes.csv", "/overview/search?text=secret"):
        assert "a secret reason" not in send_as(service, mine, "GET", route).text


def test_note_forms__add_and_delete(
    service: Service, run: dict[str, Any], browser: httpx.Client
) -> None:
    log_in(browser, create_key(service, "Ana", "run"))
    page = f"/runs/{run['id']}"
    added = browser.post(f"{page}/notes", data={"text": "Looked at it", "next": f"{page}#notes"})
    assert (added.status_code, added.headers["location"]) == (303, f"{page}#notes")
    [note] = service.list_items("/notes")
    assert (note["text"], note["createdByName"]) == ("Looked at it", "Ana")
    assert f"/notes/{note['id']}/delete" in browser.get(page, headers=HTML).text
    [entry] = service.list_items("/audit", action="create_run_note")
    assert entry["actorName"] == "Ana"
    deleted = browser.post(f"/notes/{note['id']}/delete", data={"next": page})
    assert deleted.status_code == 303
    assert service.list_items("/notes") == []


def test_page_of_notes__has_each_filter_and_leads_to_what_a_note_is_about(
    service: Service, run: dict[str, Any]
) -> None:
    ana = create_key(service, "Ana", "run")
    path = f"/benchmark-runs/{run['id']}/notes"
    by_ana = send_as(service, ana, "POST", path, {"text": "The new prompt was planned."}).json()
    service.post(path, {"text": "<b>Wrong</b> reference", "itemId": first_item(service, run)})

    def read(query: str = "") -> str:
        answer = service.client.get(f"/notes{query}", headers=HTML)
        assert answer.status_code == 200, answer.text
        return str(answer.text)

    everything = read()
    assert "&lt;b&gt;Wrong" in everything
    assert f"/runs/{run['id']}#notes" in everything
    assert f"/runs/{run['id']}/items?item=" in everything
    for query in (
        f"?createdBy={by_ana['createdBy']}",
        "?text=PROMPT",
        f"?createdBy={by_ana['createdBy']}&benchmark=bench-001",
    ):
        page = read(query)
        assert "prompt was planned" in page
        assert "&lt;b&gt;Wrong" not in page
    assert "No note matches" in read("?benchmark=elsewhere")
    listed = service.list_items("/notes", createdBy=by_ana["createdBy"])
    assert [note["id"] for note in listed] == [by_ana["id"]]
    exported = service.client.get(f"/api/v1/notes.csv?createdBy={by_ana['createdBy']}").text
    assert exported.count("\n") == 2
