"""Forms of pages: what they save, how they refuse, and what they never show."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from fastapi import Response
from playwright.sync_api import expect
from sqlalchemy import text

from mosaico.core.web.request_origin import HostPolicy
from mosaico.main import create_app
from tests.browser.axe import find_violations
from tests.browser.conftest import Site, error_of
from tests.integration.notifications.conftest import receiving
from tests.support.http import serving
from tests.support.service import working

pytestmark = pytest.mark.xdist_group("browser")

SECRET = "sk-lf-never-shown-again"
# The machine of the tests may be busy with other things.


@pytest.fixture(scope="module")
def subjects(module_site: Site) -> Site:
    """An agent and a benchmark, made with the API."""
    service = module_site.service
    service.create_agent("pelican")
    service.create_benchmark("waders", metrics=["ROUGE"], metadata={"name": "Waders"})
    return module_site


def test_agent_form__registers_an_agent_and_never_shows_its_secret(
    subjects: Site, site: Site
) -> None:
    """Criterion 25: the secret is in no answer, no document and no page of an error after it is saved."""
    page = site.open("/new/agent")
    bodies: list[str] = []
    page.on("response", lambda response: bodies.append(_text_of(response)))
    page.get_by_label("Name", exact=True).fill("Avocet")
    page.get_by_label("Tool", exact=True).select_option("Langfuse")
    page.get_by_label("Public key").fill("pk-lf-1")
    page.get_by_label("Secret key").fill(SECRET)
    page.get_by_label("URL", exact=True).fill("not a URL")
    page.get_by_role("button", name="Register").click()
    assert "is not" in error_of(page, "source.url")
    page.get_by_label("URL", exact=True).fill("http://127.0.0.1:9")
    page.get_by_label("Secret key").fill(SECRET)
    page.get_by_role("button", name="Register").click()
    expect(page.locator("h1")).to_have_text("Avocet")
    expect(page.locator("main .facts")).to_contain_text("stored, never shown")
    page.get_by_role("button", name="Test connection").click()
    expect(page.get_by_role("heading", name="The traces cannot be read")).to_be_visible()
    page.get_by_role("link", name="Edit").click()
    expect(page.get_by_label("Secret key", exact=True)).to_have_value("")
    page.get_by_label("Description").fill("A wader.")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("A wader.")).to_be_visible()
    [agent] = [agent for agent in site.service.list_items("/agents") if agent["name"] == "Avocet"]
    assert agent["secretSet"], "an empty field keeps the stored secret"
    refused = site.service.client.post(
        "/agents", data={"source.kind": "langfuse", "source.secretKey": SECRET, "source.url": "no"}, headers={"Accept": "text/html", "Origin": site.url}
    )  # fmt: skip
    assert refused.status_code == 422
    output = page.content() + str(agent) + "".join(bodies) + refused.text
    assert SECRET not in output
    values = page.evaluate(
        "[...document.querySelectorAll('input, textarea')].map(field => field.value).join()"
    )
    assert SECRET not in values
    page.get_by_role("link", name="Edit").click()
    page.get_by_label("Remove Secret key").check()
    page.get_by_role("button", name="Save").click()
    expect(page.locator("main .facts")).not_to_contain_text("stored, never shown")
    assert not site.service.get(f"/agents/{agent['id']}")["secretSet"]


def test_form__that_somebody_else_changed_shows_both_versions(subjects: Site, site: Site) -> None:
    """Criterion 42: two tabs; the stale edit is answered with 409 and both versions."""
    first, second = (site.open("/agents/pelican/edit") for _ in range(2))
    first.get_by_label("Name", exact=True).fill("Brown pelican")
    first.get_by_role("button", name="Save").click()
    expect(first.locator("h1")).to_have_text("Brown pelican")
    second.get_by_label("Name", exact=True).fill("Pink pelican")
    with second.expect_response(re.compile("/agents/pelican$")) as answer:
        second.get_by_role("button", name="Save").click()
    assert answer.value.status == 409
    row = second.get_by_role("row", name="Name")
    expect(row).to_contain_text("Brown pelican")
    expect(row).to_contain_text("Pink pelican")
    assert site.service.get("/agents/pelican")["name"] == "Brown pelican"
    second.get_by_role("button", name="Save").click()
    expect(second.locator("h1")).to_have_text("Pink pelican")


@contextmanager
def aged_sessions(site: Site) -> Iterator[None]:
    """Within the block, all sessions ended a day ago."""
    age = "UPDATE browser_sessions SET expires_at = expires_at + interval '1 day' * :days"
    for days in (-8, 8):
        with site.service.resources.db.begin() as session:
            session.execute(text(age), {"days": days})
        if days < 0:
            yield


def test_form__whose_session_expired_keeps_the_input(subjects: Site, site: Site) -> None:
    """Criterion 41: login, back to the form, the input is kept; a secret is not. Accessible on the way."""
    context = site.context()
    page = site.open("/new/agent", context=context)
    page.get_by_label("Name", exact=True).fill("Curlew")
    page.get_by_label("Secret key").fill(SECRET)
    with aged_sessions(site):
        page.get_by_role("button", name="Register").click()
        expect(page.get_by_label("API key")).to_be_visible()
    assert find_violations(page) == []
    page.get_by_label("API key").fill(site.key)
    page.get_by_role("button", name="Log in").click()
    expect(page.locator("tbody")).to_contain_text("Name")
    assert find_violations(page) == []
    assert SECRET not in page.content()
    page.get_by_role("button", name="Back to the form").click()
    expect(page.get_by_label("Name", exact=True)).to_have_value("Curlew")
    page.get_by_role("button", name="Register").click()
    expect(page.locator("h1")).to_have_text("Curlew")


def test_benchmark_form__makes_a_benchmark_with_a_checked_formula(
    subjects: Site, site: Site
) -> None:
    page = site.open("/new/benchmark")
    page.locator("#name").fill("Shore birds")
    page.locator("#datasetRef").fill("shore")
    page.locator("#metrics").fill('ROUGE\n{"key": "NO_SUCH_METRIC"}')
    page.get_by_role("button", name="Create").click()
    assert "NO_SUCH_METRIC" in error_of(page, "metrics")
    page.locator("#metrics").fill("ROUGE")
    page.get_by_role("button", name="Create").click()
    expect(page.locator("h1")).to_have_text("Shore birds")
    page.get_by_role("link", name="Add a KPI").first.click()
    page.get_by_label("Name", exact=True).fill("quality")
    page.get_by_label("Formula").press_sequentially("AVERAGE(ROUGE, BLEUX)")
    expect(page.locator("#preview mark")).to_have_text("BLEUX")
    expect(page.locator("#preview")).to_contain_text("1:16")
    page.get_by_label("Formula").fill("AVERAGE(ROUGE, BLEU)")
    expect(page.locator("#preview")).to_contain_text("Not among the metrics of the benchmark: BLEU")
    page.get_by_label("Lower threshold").fill("high")
    page.get_by_role("button", name="Create").click()
    assert "number" in error_of(page, "thresholdMin")
    page.get_by_label("Lower threshold").fill("0.8")
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("row", name="quality AVERAGE")).to_contain_text("≥ 0.8")


def test_schedule_form__shows_words_and_next_times_while_a_cron_is_typed(
    subjects: Site, site: Site
) -> None:
    """Criterion 23: words, five times, the part at fault, the DST night, and both zones."""
    context = site.context(timezone_id="Asia/Tokyo")
    page = site.open("/new/schedule", context=context)
    page.get_by_label("Name", exact=True).fill("every night")
    zone, cron = page.get_by_label("Time zone"), page.get_by_label("Cron expression")
    zone.fill("Europe/Rome")
    cron.fill("0 30 2 * * MON-FRYDAY")
    expect(page.locator("#preview mark")).to_contain_text("FRYDAY")
    expect(page.locator("#preview .error")).to_contain_text("column 12")
    cron.fill("0 30 2 * * *")
    expect(page.locator("#preview")).to_contain_text("at 02:30, every day")
    times = page.locator("#preview .times li")
    expect(times).to_have_count(5)
    expect(times.first).to_contain_text("your time: ")
    # The browser is in Tokyo: 02:30 in Rome is 09:30 there in summer and 10:30 in winter.
    assert times.first.locator("time").last.inner_text().endswith(("09:30", "10:30"))
    expect(page.locator("#preview .notice").first).to_contain_text("the clocks go")
    cron.fill("0 30 2 * 10 SUNL")
    expect(page.locator("#preview")).to_contain_text("last Sunday")
    # The night in which 02:30 comes twice in Rome.
    expect(times.first.locator(".badge")).to_have_text("the clocks change")
    cron.fill("0 30 2 * * *")
    expect(page.locator("#preview")).to_contain_text("at 02:30, every day")
    page.get_by_role("button", name="Create").click()
    expect(page.locator("h1")).to_contain_text("every night")
    page.get_by_role("button", name="Pause").click()
    expect(page.locator("h1")).to_contain_text("off")
    page.get_by_role("button", name="Run now").click()
    expect(page).to_have_url(re.compile("/runs/"))


def test_benchmark_form__has_fields_for_harness_production_and_triggers(
    subjects: Site, site: Site
) -> None:
    """Objects are typed field by field, without JavaScript too; an error stands at its field."""
    page = site.open("/new/benchmark", context=site.context(java_script_enabled=False))
    page.locator("#name").fill("Estuary")
    page.locator("#source").select_option("langfuse")
    page.get_by_role("group", name="Agents").locator("[value=pelican]").check()
    page.locator("summary", has_text="More options").click()
    for name in ("Events that start a run", "Traces of production", "Harness"):
        page.locator("summary", has_text=name).first.click()
    triggers = page.get_by_role("group", name="Events of Langfuse 2")
    triggers.get_by_label("Event").select_option("prompt-version")
    triggers.get_by_label("Label").fill("production")
    page.locator("[name='production.since']").fill("a day")
    page.locator("[name='production.filters.metadata']").fill("team=core")
    provider, model = (page.locator(f"[name='harness.{name}']") for name in ("provider", "model"))
    provider.select_option("openai")
    model.fill("small")
    page.get_by_role("button", name="Create").click()
    since = page.locator("[name='production.since']")
    expect(since).to_have_value("a day")
    expect(since).to_have_attribute("aria-describedby", "production.since-error")
    since.fill("24h")
    page.get_by_role("button", name="Create").click()
    expect(page.locator("[id='harness-help']")).to_contain_text("does not run a model")
    page.get_by_label("Remove Harness").check()
    page.get_by_role("button", name="Create").click()
    expect(page.locator("h1")).to_have_text("Estuary")
    [created] = [
        row
        for row in site.service.list_items("/benchmarks")
        if row["metadata"] == {"name": "Estuary"}
    ]
    assert created["triggers"]["langfuse"] == [
        {"event": "prompt-version", "projectId": None, "promptName": None, "label": "production"}
    ]
    assert created["production"]["since"] == "24h"
    assert created["production"]["filters"]["metadata"] == {"team": "core"}
    assert created["harness"] is None
    page.get_by_role("link", name="Edit").click()
    page.locator("summary", has_text="More options").click()
    page.get_by_label("Remove Traces of production").check()
    page.locator("#source").select_option("harness")
    page.locator("#datasetRef").fill("tasks.jsonl")
    page.locator("summary", has_text="Harness").click()
    provider.select_option("openai")
    model.fill("small")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("h1")).to_have_text("Estuary")
    stored = site.service.get(f"/benchmarks/{created['id']}")
    assert stored["production"] is None
    assert (stored["harness"]["provider"], stored["harness"]["maxTurns"]) == ("openai", 10)
    assert stored["triggers"] == created["triggers"]


def test_silence_form__silences_the_rules_of_a_name_pattern(subjects: Site, site: Site) -> None:
    page = site.open("/new/silence")
    page.get_by_label("Ends at", exact=True).fill("2020-01-01T00:00")
    page.get_by_role("button", name="Silence").click()
    expect(page.get_by_role("alert")).to_contain_text("correct the marked fields")
    expect(page.locator("#matchers-help")).to_contain_text("would silence every alert")
    page.get_by_label("Name of the rule").fill("tide-*")
    page.get_by_label("Benchmark").select_option("waders")
    ends_at = datetime.now(UTC) + timedelta(days=2)
    page.get_by_label("Ends at", exact=True).fill(f"{ends_at:%Y-%m-%dT%H:%M}")
    page.get_by_role("button", name="Silence").click()
    expect(page.locator("article")).to_contain_text("benchmark Waders, rules named tide-*")
    page.get_by_role("link", name="Edit").click()
    page.get_by_label("Benchmark").select_option("")
    page.get_by_role("button", name="Save").click()
    [silence] = site.service.list_items("/silences")
    assert {name: value for name, value in silence["matchers"].items() if value} == {
        "name": "tide-*"
    }
    assert silence["endsAt"].startswith(f"{ends_at:%Y-%m-%dT%H:%M}")


def test_webhook__secret_is_shown_once_and_deleted(subjects: Site, site: Site) -> None:
    page = site.open("/benchmarks/waders")
    page.get_by_role("link", name="Webhook").click()
    page.get_by_role("button", name="New secret").click()
    secret = page.locator("#secret").inner_text()
    assert secret.startswith("whsec_")
    assert find_violations(page) == []
    page.reload()
    assert secret not in page.content()
    page.on("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Delete").click()
    expect(page.get_by_text("No secret yet")).to_be_visible()
    page.goto(f"{site.url}/triggers")
    page.get_by_role("link", name="Store a secret").click()
    page.get_by_label("Name").fill("prompts")
    page.get_by_label("Secret of Langfuse").fill("lf-whsec_0123456789abcdef")
    page.get_by_role("button", name="Store").click()
    expect(page.get_by_role("row", name="prompts")).to_be_visible()
    assert "0123456789" not in page.content()
    page.get_by_role("button", name="Delete").click()
    expect(page.get_by_text("No secret is stored")).to_be_visible()


def test_endpoint__test_messages_show_status_and_redacted_answer(
    subjects: Site, site: Site
) -> None:
    """Criterion 27: a success and a failure show the status and the redacted response."""
    refusals = [lambda: Response("no: /hooks/a-secret-path is closed", status_code=503)]
    with receiving() as receiver, working(site.service):
        page = site.open("/new/endpoint")
        page.get_by_label("Channel").select_option("WEBHOOK")
        page.get_by_label("Recipient").fill("not a URL")
        page.get_by_role("button", name="Create", exact=True).click()
        assert "URL" in error_of(page, "recipient")
        url = receiver.will("hooks/a-secret-path", *refusals)
        page.get_by_label("Recipient").fill(url)
        page.get_by_role("button", name="Create", exact=True).click()
        expect(page.locator("h1")).to_contain_text("…path")
        page.get_by_role("button", name="Send a test message").click()
        row = page.locator("tbody tr")
        expect(row).to_contain_text("HTTP 503: no: ")
        page.get_by_role("button", name="Send a test message").click()
        expect(row.first).to_contain_text("delivered")
        expect(row.first).to_contain_text("HTTP 200")
        # A recipient that is not stored yet: one button of its form stores it and sends the message.
        page.goto("/new/endpoint")
        page.get_by_label("Channel").select_option("WEBHOOK")
        page.get_by_label("Recipient").fill("not a URL")
        page.get_by_role("button", name="Create and send a test message").click()
        assert "URL" in error_of(page, "recipient")
        page.get_by_label("Recipient").fill(
            receiver.will("hooks/new", lambda: Response("closed", 503))
        )
        page.get_by_role("button", name="Create and send a test message").click()
        expect(row).to_contain_text("HTTP 503: closed")
    assert "a-secret" not in page.content()


def test_key__is_shown_once_and_copied_in_an_insecure_context(subjects: Site, site: Site) -> None:
    """Criterion 26: shown once, gone after a reload, copied on plain `http://mosaico.internal`."""
    app = create_app(site.service.resources, hosts=HostPolicy(frozenset({"mosaico.internal"})))
    with serving(app, lifespan=True) as client:
        origin = f"http://mosaico.internal:{client.base_url.port}"
        page = site.context(login=False, base_url=origin).new_page()
        page.goto(f"{origin}/new/key")
        assert not page.evaluate("isSecureContext")
        page.get_by_label("API key").fill(site.key)
        page.get_by_role("button", name="Log in").click()
        page.get_by_label("Name", exact=True).fill("nightly CI")
        page.get_by_label("Role").select_option("run")
        page.get_by_role("button", name="Create").click()
        token = page.locator("#secret").inner_text()
        page.get_by_role("button", name="Copy", exact=True).click()
        expect(page.locator("#live")).to_have_text("Copied")
        page.locator("#search").focus()
        page.keyboard.press("Control+v")
        expect(page.locator("#search")).to_have_value(token)
        page.reload()
        expect(page.locator("h1")).to_contain_text("nightly CI")
        assert token not in page.content()
        headers = {"Authorization": f"Bearer {token}", "Host": "mosaico.internal"}
        assert client.get("/api/v1/agents", headers=headers).status_code == 200
        page.on("dialog", lambda dialog: dialog.accept())
        page.get_by_role("button", name="Revoke").click()
        expect(page.get_by_role("row", name="nightly CI")).to_contain_text("revoked")


def _text_of(response: Any) -> str:
    # A redirect has no body that could be read.
    is_redirect = 300 <= response.status < 400
    return "" if is_redirect else str(response.text())
