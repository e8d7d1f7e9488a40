"""What a form or a page says about wrong input: in the words of the page, without those of the API."""

import re
from collections.abc import Mapping
from html import unescape
from typing import Any, Final

import pytest

from tests.support.every_page import write_every_page
from tests.support.service import Service

HTML: Final = {"Accept": "text/html", "Sec-Fetch-Site": "same-origin"}
FORM: Final = {"form": "1", "name": "a name"}
# Requests, paths, Markdown, JSON pointers, names of fields.
API_WORDS: Final = re.compile(
    r"/api/v1|\b(?:GET|POST|PUT|PATCH|DELETE) |`|(?<![\w/])/\w+Id\b|\b[a-z]{2,}[A-Z]\w+|\bnull\b"
)
RULE: Final = {
    **FORM, "benchmarkId": "support", "condition": "LESS_THAN", "severity": "WARNING", "channels": "IN_APP",
}  # fmt: skip
FORMS: Final[tuple[tuple[str, Mapping[str, Any], str], ...]] = (
    ("/runs", {"benchmark": "support", "agent": "nobody"}, "The agent 'nobody' does not exist"),
    ("/runs", {"benchmark": "narrow", "agent": "sql"}, "does not evaluate the agent 'sql'; add it to “Agents”"),
    ("/runs/run-failed/pin", {}, "name a completed, valid run"),
    ("/agents", {**FORM, "id": "a b", "source.kind": "langfuse", "source.url": "ftp://x"}, "URL is not an http or https URL"),
    ("/benchmarks", {**FORM, "source": "nowhere", "metrics": "ROUGE"}, "no trace source is named 'nowhere'"),
    ("/benchmarks", {**FORM, "minCoverage": "2", "keepDays": "-4"}, "Min coverage should be less than or equal to 1"),
    (
        "/benchmarks/support/kpis", {**FORM, "formula": "ROUGE", "thresholdMin": "3", "thresholdMax": "1"},
        "“Lower threshold” 3 is above “Upper threshold” 1",
    ),
    (
        "/schedules", {**FORM, "benchmarkId": "support", "agentId": "sql", "cronExpression": "@daily", "timezone": "Mars/X"},
        "Time zone is not an IANA time zone name",
    ),
    ("/alerts", {**RULE, "metric": "NOPE", "threshold": "1"}, "'NOPE' is neither a metric of the benchmark"),
    ("/alerts", {**RULE, "metric": "ROUGE"}, "“Less than” needs a threshold"),
    ("/alerts", {**RULE, "metric": "EXACT_MATCH", "kpi": "support-pass"}, "either a metric or a KPI"),
    ("/silences", {**FORM, "endsAt": "2020-01-01T00:00"}, "enter a later time"),
    ("/endpoints", {**FORM, "channel": "EMAIL", "recipient": "not"}, "Recipient is not an email address"),
    ("/keys", {**FORM, "role": "god"}, "Role is not one of the choices"),
    ("/incidents/alert-0/acknowledge", {"verdict": "maybe"}, "it was real or a false alarm"),
    ("/inbox/ack", {"verdict": "maybe", "message": "note-0"}, "it was real or a false alarm"),
    ("/inbox/note-0/silence", {"hours": "many"}, "The duration of a silence is a number of hours"),
)  # fmt: skip
ADDRESSES: Final = (
    ("/alerts/rule-1?days=90&agent=nobody", "No backtest: the agent 'nobody' does not exist"),
    ("/runs?cursor=zzz", "Start again from the first page of the list."),
    ("/daily-summary?date=x", "Date is not a date; enter it as 2026-11-22"),
    ("/?from=abc", "From is not a time"),
)


@pytest.fixture(scope="module")
def service(module_service: Service) -> Service:
    with module_service.resources.db.begin() as session:
        write_every_page(session)
    module_service.create_benchmark("narrow", metrics=["ROUGE"], evaluates=["billing"])
    return module_service


@pytest.mark.parametrize(("path", "fields", "sentence"), FORMS)
def test_form__wrong_input_is_refused_in_the_words_of_the_page(
    path: str, fields: Mapping[str, Any], sentence: str, service: Service
) -> None:
    response = service.client.post(path, data=fields, headers=HTML)
    assert 400 <= response.status_code < 500, response.headers
    assert_plain(response.text, sentence)


@pytest.mark.parametrize(("path", "sentence"), ADDRESSES)
def test_address__wrong_value_is_refused_in_the_words_of_the_page(
    path: str, sentence: str, service: Service
) -> None:
    assert_plain(service.client.get(path, headers=HTML).text, sentence)


def assert_plain(html: str, sentence: str) -> None:
    """What the page says about the input has the sentence, and no words of the API."""
    texts = [
        " ".join(unescape(re.sub(r"<code>.*?</code>|<[^>]+>", " ", part)).split())
        for part in re.findall(
            r'<section class="narrow">.*?</section>|<(?:p|ul) class="(?:error|notice|help)"[^>]*>.*?</(?:p|ul)>',
            html.partition("<main")[2],
            re.DOTALL,
        )
    ]
    errors = [text for text in texts if sentence in text]
    assert errors, texts
    assert [text for text in texts if API_WORDS.search(text)] == []
