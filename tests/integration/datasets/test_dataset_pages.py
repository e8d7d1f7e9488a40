"""Pages of datasets: what a person edits without a command, and what happens when two do."""

import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.integration.datasets.test_versions import create_dataset, edit, item, items_of
from tests.support.browser_sessions import HTML, listens, log_in
from tests.support.langfuse import run_fake_langfuse
from tests.support.processes import until
from tests.support.service import JSON, Service, pair
from tests.support.waiting import LIVENESS_S


@pytest.fixture
def person(service: Service) -> Iterator[httpx.Client]:
    """The browser of somebody who may edit."""
    token = service.post("/keys", {"name": "Ana", "role": "run"})["token"]
    until(lambda: listens(service))
    headers = {**HTML, "Sec-Fetch-Site": "same-origin"}
    url = service.client.base_url
    with httpx.Client(
        base_url=url, headers=headers, trust_env=False, timeout=LIVENESS_S
    ) as browser:
        log_in(browser, token)
        yield browser


def send(person: httpx.Client, path: str, status: int = 303, **fields: Any) -> httpx.Response:
    response = person.post(path, data=fields, headers=HTML)
    assert response.status_code == status, response.text
    return response


def test_pages__create_a_dataset_add_change_and_retire_an_item(
    service: Service, person: httpx.Client
) -> None:
    path = send(person, "/datasets/create", name="support").headers["location"]
    dataset = {"id": path.split("/")[2]}
    assert "the first edit makes v1" in person.get(path, headers=HTML).text
    send(person, path, baseVersion="0", id="q 1/2", input=" one\r\ntwo ", expectedOutput="<yes>")
    page = person.get(path, headers=HTML).text
    assert "&lt;yes&gt;" in page
    address = re.search(r'href="(/datasets/[^"]+/item\?item=[^"]+)"', page)
    assert address is not None
    assert "Ana" in person.get(address[1], headers=HTML).text
    # As it was shown: no version.
    form = f"/datasets/{dataset['id']}/item"
    send(person, form, item="q 1/2", baseVersion="1", input="one\r\ntwo", expectedOutput="<yes>")
    assert service.get(f"/datasets/{dataset['id']}")["version"] == 1
    send(person, form, item="q 1/2", baseVersion="1", input="one", expectedOutput="", note="why")
    row = items_of(service, dataset, 2)["q 1/2"]
    assert (row["input"], row["expectedOutput"]) == ("one", None)
    send(person, form, item="q 1/2", baseVersion="2", retire="1")
    assert items_of(service, dataset, 3) == {}
    assert "v2" in person.get(f"{path}?version=2", headers=HTML).text


def test_pages__conflict_keeps_what_was_typed_and_says_what_changed(
    service: Service, person: httpx.Client
) -> None:
    dataset = create_dataset(service, item(1))
    edit(service, dataset, 1, items=[item(1, "theirs")])
    fields = {"item": "i-1", "baseVersion": "1", "input": "question 1", "expectedOutput": "mine"}
    page = send(person, f"/datasets/{dataset['id']}/item", 409, **fields).text
    assert ">mine</textarea>" in page
    assert "version 2" in page
    # Saved again, by somebody who has read that.
    base_version = re.findall(r'name="baseVersion" value="(\d+)"', page)[0]
    send(person, f"/datasets/{dataset['id']}/item", **{**fields, "baseVersion": base_version})
    assert items_of(service, dataset, 3)["i-1"]["expectedOutput"] == "mine"
    added = {"id": "i-1", "baseVersion": "1", "input": "my question"}
    page = send(person, f"/datasets/{dataset['id']}/items", 409, **added).text
    assert ">my question</textarea>" in page


def test_pages__import_a_file(service: Service, person: httpx.Client) -> None:
    dataset = create_dataset(service, item(1))
    file = ("items.csv", b"id,question,answer\ni-2,Why?,so\n", "text/csv")
    response = person.post(
        "/datasets/import",
        data={"name": "support", "baseVersion": "1", "replace": "1"},
        files={"file": file},
        headers=HTML,
    )
    assert response.status_code == 303, response.text
    assert list(items_of(service, dataset, 2)) == ["i-2"]


def test_trace__becomes_an_item_with_one_press_and_the_run_names_its_version(
    service: Service, person: httpx.Client
) -> None:
    service.create_agent()
    service.create_benchmark(metrics=["ACCURACY"])
    upload = service.upload([pair(0, "yes", "no", input="Am I in?"), pair(1, input="And I?")])
    run = service.complete_run()
    page = person.get(f"/runs/{run['id']}/traces/t-0", headers=HTML).text
    form = re.search(r'<form[^>]*action="/datasets/from-trace">.*?</form>', page, re.DOTALL)
    assert form is not None
    fields: JSON = dict(re.findall(r'name="(\w+)"[^>]* value="([^"]*)"', form[0]))
    assert fields["dataset"] == "support"
    path = send(person, "/datasets/from-trace", **fields).headers["location"]
    assert "Am I in?" in person.get(path, headers=HTML).text
    page = person.get(f"/datasets/{upload['id']}", headers=HTML).text
    assert page.count('action="/datasets/from-trace"') == 2
    uploaded = {"dataset": "support", "uploadId": upload["id"], "traceId": "t-1"}
    send(person, "/datasets/from-trace", **uploaded)
    run = service.complete_run()
    page = person.get(f"/runs/{run['id']}", headers=HTML).text
    assert re.search(r'<a href="/datasets/[^"]+/items\?version=2">\s*support', page)


def test_dataset_of_a_benchmark__that_lives_here_is_its_own_page(
    service: Service, person: httpx.Client
) -> None:
    service.create_agent()
    service.create_benchmark(metrics=["ACCURACY"])
    page = person.get("/benchmarks/bench-001/dataset", headers=HTML)
    assert "No items yet" in page.text
    dataset = create_dataset(service, item(1))
    page = person.get("/benchmarks/bench-001/dataset", headers=HTML)
    assert page.headers["location"] == f"/datasets/{dataset['id']}/items"


def test_dataset_of_langfuse__is_shown_with_the_link_to_edit_it_and_gets_nothing_of_one_here(
    service: Service, person: httpx.Client
) -> None:
    with run_fake_langfuse() as langfuse:
        langfuse.experiment(run="night", items=2)
        service.create_agent(
            langfuseUrl=langfuse.url,
            langfusePublicKey=langfuse.public_key,
            langfuseSecretKey=langfuse.secret_key,
        )
        service.create_benchmark(metrics=["ACCURACY"], source="langfuse")
        # One of the same name, which is another dataset.
        create_dataset(service, item(1))
        run = service.complete_run(runName="night")
    assert (run["status"], run["datasetVersion"]) == ("COMPLETED", None), run
    page = person.get("/benchmarks/bench-001/dataset", headers=HTML)
    assert re.search(r'href="http://[^"]+/project/[^"/]+/datasets">Edit it in Langfuse', page.text)
    for trace in service.list_items(f"/benchmark-runs/{run['id']}/results"):
        assert f">{trace['itemId']}</a>" in page.text
