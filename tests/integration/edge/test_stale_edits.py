"""Edits of keys and silences in two tabs, and the note of an accepted level."""

import re
from html import unescape
from typing import Final

import pytest
from sqlalchemy import text

from tests.support.every_page import RUN, write_every_page
from tests.support.page_reads import read_page
from tests.support.service import Service

HTML: Final = {"Accept": "text/html", "Sec-Fetch-Site": "same-origin"}


@pytest.fixture
def pages(service: Service) -> Service:
    with service.resources.db.begin() as session:
        write_every_page(session)
    return service


def read_revision(service: Service, path: str) -> str:
    page = service.client.get(path, headers=HTML).text
    [revision] = re.findall(r'name="revision" value="([^"]*)"', page)
    return str(revision)


@pytest.mark.parametrize(
    ("path", "name", "fields"),
    [
        ("/keys/key-1", "name", {}),
        ("/silences/silence-1", "comment", {"matchers.name": "cost*", "endsAt": "2099-01-01T00:00"}),
    ],
)  # fmt: skip
def test_form__of_a_tab_that_is_stale_is_refused_with_both_versions(
    path: str, name: str, fields: dict[str, str], pages: Service
) -> None:
    """Criterion 42 for resources that store no revision."""
    revision = read_revision(pages, f"{path}/edit")
    first = {**fields, "revision": revision, name: "the first tab"}
    second = {**fields, "revision": revision, name: "the second tab"}
    assert pages.client.post(path, data=first, headers=HTML).status_code == 303
    refused = pages.client.post(path, data=second, headers=HTML)
    assert refused.status_code == 409
    assert "the first tab" in refused.text
    assert "the second tab" in refused.text
    again = {**second, "revision": read_revision(pages, f"{path}/edit")}
    assert pages.client.post(path, data=again, headers=HTML).status_code == 303
    assert pages.get(path)[name] == "the second tab"


def test_run__level_is_accepted_with_a_note(pages: Service) -> None:
    with pages.resources.db.begin() as session:
        session.execute(text("UPDATE benchmark_runs SET source_key = id"))
    page = unescape(read_page(pages, f"/runs/{RUN}"))
    form = re.search(rf'action="/runs/{RUN}/accept".*?</form>', page)
    assert form is not None
    assert 'name="note"' in form[0]
    assert 'name="confirm" value="Accept this level?' in form[0]
    answer = pages.client.post(
        f"/runs/{RUN}/accept", data={"note": "The new model is cheaper."}, headers=HTML
    )
    assert answer.status_code == 303
    assert "The new model is cheaper." in pages.client.get(f"/runs/{RUN}", headers=HTML).text
