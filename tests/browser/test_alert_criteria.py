"""Acceptance criteria of the pages of alerts; the docstring of a test names its criterion of issue 20."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import expect
from sqlalchemy import text

from tests.browser.conftest import Site
from tests.support.page_data import write_month

ALERT, RULE, INCIDENT = "/alerts/events/alert-0", "/alerts/rule-1", "/incidents/alert-0"
pytestmark = pytest.mark.xdist_group("browser")


@pytest.fixture(scope="module")
def month(module_site: Site) -> Site:
    with module_site.service.resources.db.begin() as session:
        write_month(session)
    return module_site


def test_alert__shows_its_value_revision_and_deliveries_and_no_button_to_a_reader(
    month: Site, site: Site
) -> None:
    """Criterion 21: a reader sees the alert, no button that edits, and is refused."""
    key = site.service.post("/keys", {"name": "a reader", "role": "read"})["token"]
    context = site.context(key=key)
    page = site.open(ALERT, context=context)
    facts = page.locator("main .facts")
    expect(facts).to_contain_text("0.715")
    expect(facts).to_contain_text("0.865")
    expect(facts).to_contain_text("revision 1")
    delivery = page.get_by_role("region", name="Deliveries").locator("tbody tr")
    expect(delivery).to_have_text(re.compile("slackhooks.slack.com/…✓ delivered"))
    expect(page.locator("main button:not(.copy)")).to_have_count(0)
    expect(page.get_by_text("Edit the rule")).to_have_count(0)
    for path in (f"{ALERT}/ack", f"{RULE}", f"{INCIDENT}/acknowledge"):
        response = context.request.post(f"{site.url}{path}", headers={"Origin": site.url})
        assert response.status == 403


# Before the condition of the rule changes, which closes the incident.
def test_incident__its_level_is_accepted_with_a_note(month: Site, site: Site) -> None:
    page = site.open(INCIDENT)
    expect(page.locator("svg.chart")).to_contain_text("incident began")
    page.on("dialog", lambda dialog: dialog.accept())
    page.get_by_label("Note").fill("The new model is cheaper.")
    page.get_by_role("button", name="Accept the new level").click()
    expect(page.locator("h1")).to_contain_text("accepted")
    expect(page.locator("main")).to_contain_text("The new model is cheaper.")
    assert site.service.get("/incidents/alert-0")["resolution"] == "ACCEPTED"


def test_rule__backtest_is_shown_before_a_revision_is_saved(month: Site, site: Site) -> None:
    """Criterion 22: live backtest, an error beside its field, and a new revision."""
    page = site.open(f"{RULE}/edit")
    page.locator("#condition").select_option("LESS_THAN")
    page.locator("#threshold").fill("low")
    page.get_by_role("button", name="Save as revision 2").click()
    expect(page.locator("#threshold")).to_have_attribute("aria-describedby", "threshold-error")
    expect(page.locator("#threshold-error")).to_be_visible()
    expect(page.locator("#threshold")).to_have_value("low")
    page.locator("#threshold").fill("0.8")
    expect(page.locator("#backtest")).to_contain_text(
        "it would have fired 1 time over 30 valid runs"
    )
    expect(page.locator("#backtest svg .limit")).to_have_count(1)
    assert site.service.get("/alert-configs/rule-1")["revision"] == 1
    page.get_by_role("button", name="Save as revision 2").click()
    expect(page.locator("main")).to_contain_text("pass rate is below 0.8")
    assert site.service.get("/alert-configs/rule-1")["revision"] == 2


def test_silence__is_shown_everywhere_and_ends_by_itself(month: Site, site: Site) -> None:
    """Criterion 20: on the alert, the rule and the inbox, with its end; in the audit log."""
    page = site.open("/inbox")
    message = page.locator("article").first
    message.get_by_label("Silence for").select_option("1 h")
    message.get_by_role("button", name="Silence").click()
    [silence] = site.service.list_items("/silences")
    ends_in = datetime.fromisoformat(silence["endsAt"]) - datetime.now(UTC)
    assert timedelta(minutes=50) < ends_in <= timedelta(hours=1)
    expect(page.locator("article")).to_contain_text("until")
    for path in (ALERT, RULE, "/inbox?tab=silenced"):
        page.goto(f"{site.url}{path}")
        expect(page.locator("main")).to_contain_text(
            re.compile(r"until \w{3} \d+ \w{3} \d{4}, \d\d:\d\d")
        )
    actions = [entry["action"] for entry in site.service.list_items("/audit")]
    assert "create_silence" in actions
    with site.service.resources.db.begin() as session:
        session.execute(
            text("UPDATE alert_silences SET starts_at = starts_at - interval '2 h', ends_at = ends_at - interval '2 h'")
        )  # fmt: skip
    for path in (ALERT, RULE):
        page.goto(f"{site.url}{path}")
        expect(page.get_by_text("until")).to_have_count(0)
    page.goto(f"{site.url}/inbox?tab=silenced")
    expect(page.locator(".empty")).to_contain_text("Nothing is silenced")
