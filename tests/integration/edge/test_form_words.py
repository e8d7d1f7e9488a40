"""Forms speak the language of their readers: labels and choices, no fields of bodies; times in their zone."""

import re
from collections.abc import Mapping
from html.parser import HTMLParser
from typing import Any, Final

import pytest

from tests.support.every_page import (
    EXAMPLES,
    QUERIES,
    fill_path,
    iter_page_routes,
    write_every_page,
)
from tests.support.service import Service

HTML: Final = {"Accept": "text/html", "Sec-Fetch-Site": "same-origin"}
# Names of fields, constants, and what only a program does with a body.
API_WORDS: Final = re.compile(
    r"`|\b[a-z]+[A-Z]\w*|\b[A-Z]{2,}_[A-Z_]+|\b(null|Null|send|omit|pointer|array|string)\b|\bJSON(?! object| document| with|:)"
)
# Names of products, settings and metrics.
PROPER_NAMES: Final = re.compile(
    r"mosaico\w*|OpenTelemetry|MOSAICO_\w+|LATENCY_MS|is not valid JSON"
)
FORMS: Final = tuple(
    fill_path(route.path) + (f"?{QUERIES[route.path]}" if route.path in QUERIES else "")
    for route in iter_page_routes()
    if re.search(r"^/new/|/edit$|/new-kpi$", route.path)
)


class FormReader(HTMLParser):
    """The form of a page: its address, its fields, and what it says about them."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.action = ""
        self.fields: dict[str, str] = {}
        self.errors: list[str] = []
        self.texts: list[str] = []
        self._is_text = False
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        if tag == "form" and attributes.get("method") == "post" and not self.action:
            self.action = attributes["action"] or ""
        if tag in {"input", "select", "textarea"} and attributes.get("name") not in {
            None,
            "text",
            "check",
        }:
            self.fields[str(attributes["name"])] = str(attributes.get("value") or "")
        self._is_text = tag == "p" and (
            attributes.get("class") in {"error", "help"} or attributes.get("role") == "alert"
        )
        if self._is_text:
            self.texts.append("")

    def handle_data(self, data: str) -> None:
        if self._is_text:
            self.texts[-1] += data

    def handle_endtag(self, tag: str) -> None:
        self._is_text = self._is_text and tag != "p"


@pytest.fixture
def pages(service: Service) -> Service:
    with service.resources.db.begin() as session:
        write_every_page(session)
    return service


def post(service: Service, path: str, fields: Mapping[str, str]) -> Any:
    return service.client.post(path, data=dict(fields), headers=HTML)


def find_api_words(html: str) -> list[str]:
    texts = [PROPER_NAMES.sub("", text) for text in FormReader(html).texts]
    return [text for text in texts if API_WORDS.search(text)]


def test_forms__help_and_errors_have_no_words_of_the_api(pages: Service) -> None:
    assert len(FORMS) > 12, EXAMPLES
    for path in FORMS:
        html = pages.client.get(path, headers=HTML).text
        assert find_api_words(html) == [], path
        form = FormReader(html)
        fields = {name: value for name, value in form.fields.items() if name != "confirm"}
        inputs = [name for name in fields if name not in {"form", "revision"}]
        for text in ("", "zzz", "-1.5", "1" * 3000):
            refused = post(pages, form.action, fields | dict.fromkeys(inputs, text))
            assert refused.status_code in {303, 404, 409, 422}, (path, refused.text)
            assert find_api_words(refused.text) == [], path


def test_silence__time_that_the_clocks_skip_is_refused(pages: Service) -> None:
    fields = {"matchers.name": "a*", "endsAt": "2099-03-29T02:30", "zone:endsAt": "Europe/Rome"}
    refused = post(pages, "/silences", fields)
    assert refused.status_code == 422
    assert "Ends at does not exist in Europe/Rome" in refused.text
