"""Acceptance criteria of the pages of alerts; the docstring of a test names its criterion in
`docs/page-criteria.md`."""

from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import expect

from mosaico.alerts.details import AnomalyDetails
from mosaico.alerts.models import AlertEvent
from mosaico.notifications.models import Delivery, Endpoint
from tests.browser.conftest import MovableClock, Site
from tests.support.page_data import write_month

ALERT, RULE, INCIDENT = "/alerts/events/alert-0", "/alerts/rule-1", "/incidents/alert-0"
ENDS_OF_SILENCES = """times => times
  .filter(time => time.parentElement.textContent.includes("until")).map(time => time.dateTime)"""
pytestmark = pytest.mark.xdist_group("browser")


@pytest.fixture(scope="module")
def month(module_site: Site) -> Site:
    with module_site.service.resources.db.begin() as session:
        write_month(session)
        session.add(
            Endpoint(
                id="endpoint-2", channel="EMAIL", recipient="on-call@example.org", recipient_hash="2",
                host="example.org",
            )
        )  # fmt: skip
        session.flush()
        session.add(
            Delivery(
                id="delivery-2", notification_id="note-0", endpoint_id="endpoint-2", status="FAILED",
                attempts=5, detail="550 mailbox unavailable", tried_at=datetime.now(UTC),
            )
        )  # fmt: skip
    return module_site


def test_alert__shows_its_value_revision_and_deliveries_and_no_button_to_a_reader(
    month: Site, site: Site
) -> None:
    """Criterion 21: a reader sees the value, what was expected, the revision of the rule and each delivery
    with its status, no button that edits, and is refused."""
    key = site.service.post("/keys", {"name": "a reader", "role": "read"})["token"]
    context = site.context(key=key)
    page = site.open(ALERT, context=context)
    facts = page.locator("main .facts")
    expect(facts).to_contain_text("0.745")
    expect(facts).to_contain_text("0.895")
    expect(facts).to_contain_text("revision 1")
    chart = page.locator("svg.chart")
    expect(chart).to_contain_text("fires")
    expect(chart).to_contain_text("expected 0.895")
    expect(chart.locator("[data-point]").last).to_contain_text("the run of the alert")
    deliveries = page.get_by_role("region", name="Deliveries").locator("tbody tr")
    expect(deliveries).to_have_count(2)
    for channel, status in (("slack", "✓ delivered"), ("email", "✗ failed")):
        expect(deliveries.filter(has_text=channel)).to_contain_text(status)
    expect(deliveries.filter(has_text="email")).to_contain_text("550 mailbox unavailable")
    expect(page.locator("main button:not(.copy)")).to_have_count(0)
    expect(page.get_by_text("Edit the rule")).to_have_count(0)
    for path in (f"{ALERT}/ack", f"{RULE}", f"{INCIDENT}/acknowledge"):
        response = context.request.post(f"{site.url}{path}", headers={"Origin": site.url})
        assert response.status == 403


def test_alert__of_an_anomaly_shows_the_expected_range(month: Site, site: Site) -> None:
    """Criterion 21: the range of the runs before."""
    anomaly = AnomalyDetails(
        method="mad", history=29, z=5.2, critical=3.1, expected_low=0.86,
        expected_high=0.93, min_detectable_effect=0.04,
    )  # fmt: skip
    with site.service.resources.db.begin() as session:
        event = session.get_one(AlertEvent, "alert-0")
        stored = event.details
        event.details = stored.model_copy(update={"anomaly": anomaly})
    page = site.open(ALERT)
    expect(page.locator("main .facts")).to_contain_text("0.860 to 0.930, from 29 runs")
    with site.service.resources.db.begin() as session:
        session.get_one(AlertEvent, "alert-0").details = stored


# Before the condition of the rule changes, which closes the incident.
def test_incident__its_level_is_accepted_with_a_note(month: Site, site: Site) -> None:
    page = site.open(INCIDENT)
    expect(page.locator("svg.chart")).to_contain_text("incident began")
    page.on("dialog", lambda dialog: dialog.accept())
    page.locator("#note").fill("The new model is cheaper.")
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


def test_silence__is_shown_everywhere_and_ends_by_itself(
    month: Site, site: Site, module_clock: MovableClock
) -> None:
    """Criterion 20: on the alert, the rule and the inbox, with its end; it ends as the clock passes that
    time, and the audit log has it."""
    page = site.open("/inbox")
    message = page.locator("article").first
    message.get_by_label("Silence for").select_option("1 h")
    message.get_by_role("button", name="Silence").click()
    [silence] = site.service.list_items("/silences")
    ends_at = datetime.fromisoformat(silence["endsAt"]).replace(microsecond=0)
    assert timedelta(minutes=50) < ends_at - datetime.now(UTC) <= timedelta(hours=1)
    for path in (ALERT, RULE, "/inbox?tab=silenced&ended=false"):
        page.goto(f"{site.url}{path}")
        ends = page.locator("main time").evaluate_all(ENDS_OF_SILENCES)
        assert ends_at in map(datetime.fromisoformat, ends), path
    [entry] = site.service.list_items("/audit", action="create_silence")
    assert (entry["outcome"], entry["resourceType"]) == ("done", "inbox")
    page.goto(f"{site.url}/audit?action=create_silence")
    expect(page.locator("tbody")).to_contain_text("done")
    # Just before the end of the silence of an hour, and below just after it.
    module_clock.move(timedelta(minutes=59))
    page.goto(f"{site.url}{ALERT}")
    expect(page.locator("main")).to_contain_text("until")
    module_clock.move(timedelta(minutes=2))
    for path in (ALERT, RULE):
        page.goto(f"{site.url}{path}")
        expect(page.get_by_text("until")).to_have_count(0)
    page.goto(f"{site.url}/inbox?tab=silenced&ended=false")
    expect(page.locator(".empty")).to_contain_text("Nothing is silenced")
