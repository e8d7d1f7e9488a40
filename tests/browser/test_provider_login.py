"""People who log in at a real provider: one is blocked by an admin, one says that an alert was a false alarm."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from email.message import EmailMessage

import pytest
from playwright.sync_api import Page, expect

from mosaico.jobs.process_pool import ProcessPool
from tests.browser.conftest import Site
from tests.support.mail_server import Mailbox, access, mail_server
from tests.support.openid_provider import provider_settings, running_provider, served
from tests.support.serve import free_port
from tests.support.service import Service, pair, running_service, working
from tests.support.waiting import until

pytestmark = pytest.mark.xdist_group("browser")


def log_in(page: Page) -> None:
    """Follow the button of the login page, and fill the forms of the provider that it shows."""
    page.get_by_role("link", name="Log in with 127.0.0.1").click()
    for name, value in (("login", "ana"), ("password", "password of ana")):
        page.locator(f"input[name={name}]").fill(value)
        page.locator(f"form:has(input[name={name}]) [type=submit]").last.click()
    # Consent that the provider tells this service who logs in.
    page.locator("[name=answer][value=accept]").click()


@contextmanager
def login_page(site: Site, service: Service) -> Iterator[Page]:
    """The login page of a service, with a provider, in a browser that nobody has used."""
    port = free_port()
    with served(service, provider_settings(f"http://127.0.0.1:{port}")) as client:
        # Another site than the provider, which the browser tells apart by its name.
        address = str(client.base_url).rstrip("/").replace("127.0.0.1", "localhost")
        with running_provider(port, address):
            page = site.context(login=False, base_url=address).new_page()
            page.goto("/")
            yield page


def test_person__logs_in_opens_morning_logs_out_and_is_blocked(site: Site) -> None:
    with login_page(site, site.service) as page:
        log_in(page)
        expect(page).to_have_url(re.compile("^http://localhost:[0-9]+/$"))
        expect(page.get_by_role("heading", level=1)).to_have_text("No run has ended")
        [person] = site.service.list_items("/people")
        assert person["name"] == "Ana Rossi"

        page.get_by_role("button", name=re.compile("Log out")).click()
        page.wait_for_load_state()
        page.goto("/")
        expect(page.get_by_label("API key")).to_be_visible()

        site.service.patch(f"/people/{person['id']}", {"blocked": True})
        # The provider remembers the person and their consent.
        page.get_by_role("link", name="Log in with 127.0.0.1").click()
        expect(page.get_by_role("alert")).to_contain_text("blocked")
        page.goto("/")
        expect(page.get_by_label("API key")).to_be_visible()


@pytest.fixture
def mailbox() -> Mailbox:
    return Mailbox()


@pytest.fixture
def mailing(site: Site, mailbox: Mailbox, metric_pool: ProcessPool) -> Iterator[Service]:
    """The service of the site, which sends its mails to the mailbox."""
    with mail_server(mailbox) as port:
        smtp = access(port, require_tls=False)
        resources = replace(site.service.resources, smtp=smtp)
        with running_service(resources, metric_pool) as service, working(service):
            yield service


def run_with(service: Service, name: str, right: int) -> None:
    """A run of ten traces, of which so many are right."""
    traces = [
        {**pair(number, "yes", "yes" if number < right else "no"), "traceId": f"{name}-{number}"}
        for number in range(10)
    ]
    service.upload(traces, run_name=name)
    run_id = service.start_run(runName=name)["id"]
    until(lambda: service.get(f"/benchmark-runs/{run_id}")["status"] == "COMPLETED")


def text_of(mail: EmailMessage) -> str:
    body = mail.get_body(("plain",))
    assert body is not None
    return f"{mail['Subject']} {body.get_content()}"


def test_false_alarm__has_the_name_and_the_note_of_a_person_everywhere(
    site: Site, mailing: Service, mailbox: Mailbox
) -> None:
    mailing.create_agent(name="Pelican")
    mailing.create_benchmark(
        metrics=["EXACT_MATCH"],
        measures=[{"id": "k-1", "name": "quality", "formula": "EXACT_MATCH"}],
    )
    limit = {"kpi": "quality", "condition": "PERCENTAGE_DROP", "threshold": 10}
    to_ops = {"channels": ["EMAIL"], "recipients": ["ops@example.org"]}
    rule = {"name": "quality falls", "benchmarkId": "bench-001", **limit, **to_ops}
    mailing.post("/alert-configs", rule)
    run_with(mailing, "first", right=10)
    run_with(mailing, "second", right=5)
    until(lambda: len(mailbox.mails) == 1)
    assert "Pelican" in text_of(mailbox.mail())

    [alert] = mailing.list_items("/alerts")
    words = "new prompt was planned"
    with login_page(site, mailing) as page:
        log_in(page)
        page.goto(f"/alerts/events/{alert['id']}")
        page.get_by_label("Note").fill(words)
        page.on("dialog", lambda dialog: dialog.accept())
        page.get_by_role("button", name="False alarm").click()
        expect(page.get_by_text(words).first).to_be_visible()
        page.goto("/")
        main = page.get_by_role("main")
        expect(main).to_contain_text("Ana Rossi")
        expect(main).to_contain_text("false alarm")
        expect(main).to_contain_text(words)
        page.goto("/audit")
        entry = page.get_by_role("row").filter(has_text="Ana Rossi").filter(has_text="acknowledge")
        expect(entry.first).to_be_visible()
    until(lambda: len(mailbox.mails) == 2)
    [_, ended] = mailbox.read_mails()
    assert f"Ana Rossi: false alarm, {words}" in text_of(ended)
