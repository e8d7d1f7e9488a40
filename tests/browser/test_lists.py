"""Lists that change while they are read: new rows are offered, rows in progress follow, and what a reader has chosen,
ticked and typed stays.
"""

import re
from datetime import UTC, datetime

import pytest
from playwright.sync_api import Dialog, Page, Route, expect
from sqlalchemy import text

from mosaico.core.postgres_notify import notify_streams
from mosaico.notifications import inbox
from mosaico.notifications.models import Notification
from tests.browser.conftest import Site
from tests.browser.keyboard import press
from tests.support.page_alerts import write_open_alert
from tests.support.page_data import write_month, write_traces

RUN, BASE, OLD = "run-billing-support-0", "run-billing-support-1", "run-billing-support-20"
pytestmark = pytest.mark.xdist_group("browser")


@pytest.fixture(scope="module")
def month(module_site: Site) -> Site:
    with module_site.service.resources.db.begin() as session:
        write_month(session)
        write_traces(session, "run-billing-support-2", broken=0)
    return module_site


def start_run(site: Site, agent: str = "triage") -> str:
    run = site.service.post("/benchmark-runs", {"benchmarkId": "support", "agentId": agent})
    return str(run["id"])


def chosen_row(page: Page) -> str:
    return str(page.evaluate("document.querySelector('[data-row][aria-current]')?.id"))


def write_message(site: Site, message_id: str) -> None:
    """A message that is announced to the open pages."""
    with site.service.resources.db.begin() as session:
        first = session.query(Notification).first()
        assert first is not None
        session.add(
            Notification(
                id=message_id, title="Something new", severity="INFO", topic=first.topic,
                message=first.message, created_at=datetime.now(UTC),
            )
        )  # fmt: skip
        session.flush()
        notify_streams(session, inbox.INBOX)


def test_inbox__new_message_is_offered_and_keeps_ticks_note_and_row(
    month: Site, site: Site
) -> None:
    with site.service.resources.db.begin() as session:
        write_open_alert(session)
    page = site.open("/inbox")
    press(page, "j", "x")
    row = chosen_row(page)
    page.get_by_label("Note").fill("seen by me")
    page.get_by_label("Note").blur()
    write_message(site, "note-new")
    expect(page.locator("#new-rows")).to_have_text("1 new – show")
    assert chosen_row(page) == row
    expect(page.locator("article input:checked")).to_have_count(1)
    page.locator("#new-rows").click()
    expect(page.locator("#m-note-new")).to_be_visible()
    expect(page.locator("#new-rows")).to_be_hidden()
    assert chosen_row(page) == row
    expect(page.locator(f"#{row} input:checked")).to_have_count(1)
    expect(page.get_by_label("Note")).to_have_value("seen by me")


def test_inbox__choice_of_a_message_stays_in_its_row(month: Site, site: Site) -> None:
    """Each message has a choice of the same name."""
    with site.service.resources.db.begin() as session:
        write_open_alert(session)
    page = site.open("/inbox")
    first, second = (page.locator(f"#m-note-{number} select") for number in (0, 1))
    default = first.input_value()
    second.select_option(index=3)
    selected = second.input_value()
    assert selected != default
    second.blur()
    write_message(site, "note-newer")
    page.locator("#new-rows").click()
    expect(page.locator("#m-note-newer")).to_be_visible()
    expect(second).to_have_value(selected)
    expect(first).to_have_value(default)


def test_part__what_a_reader_opened_stays_open(month: Site, site: Site) -> None:
    page = site.open("/alerts/rule-1/edit")
    page.locator("#condition").select_option("LESS_THAN")
    page.locator("#threshold").fill("0.8")
    table = page.locator("#backtest details", has_text="Values as a table")
    table.locator("summary").click()
    page.locator("#backtest").evaluate("part => part.classList.add('before')")
    page.locator("#threshold").fill("0.7")
    expect(page.locator("#backtest:not(.before) [data-chart]")).to_be_visible()
    expect(table.locator("table")).to_be_visible()
    table.locator("summary").click()
    page.locator("#backtest").evaluate("part => part.classList.add('before')")
    page.locator("#threshold").fill("0.6")
    expect(page.locator("#backtest:not(.before) [data-chart]")).to_be_visible()
    expect(table.locator("table")).to_be_hidden()


@pytest.mark.parametrize("has_moved", [False, True], ids=["click", "press"])
def test_part__is_not_replaced_while_a_link_in_it_is_pressed(
    has_moved: bool, month: Site, site: Site
) -> None:
    """The click would be lost. A press that ends elsewhere is no click: the part is replaced then."""
    page = site.open(f"/formulas?formula=AVERAGE(EXACT_MATCH)&run={RUN}")
    answers: list[Route] = []

    def hold(route: Route) -> None:
        answers.append(route)

    page.route("**/formulas?*", hold)
    with page.expect_request("**/formulas?*"):
        page.get_by_label("Formula").fill("MAX(EXACT_MATCH)")
    box = page.get_by_role("link", name="Open the run").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 5, box["y"] + 5)
    page.mouse.down()
    with page.expect_event("requestfinished"):
        answers[0].continue_()
    page.unroute_all()
    # A second answer is shown after the first one.
    page.evaluate("() => fetch('/help').then(answer => answer.text())")
    expect(page.locator("#result")).not_to_contain_text("MAX")
    if has_moved:
        page.mouse.move(1, 1)
    page.mouse.up()
    if has_moved:
        expect(page.locator("#result")).to_contain_text("MAX")
    else:
        expect(page).to_have_url(f"{site.url}/runs/{RUN}")


def test_page__says_that_the_server_does_not_answer_and_tries_again(
    month: Site, site: Site
) -> None:
    page = site.open("/runs", context=site.context())
    expect(page.locator("#run-count")).to_contain_text("runs")
    for answer in ("abort", "503"):
        page.route(
            "**/runs?*",
            lambda route, answer=answer: (
                route.abort() if answer == "abort" else route.fulfill(status=503, body="broken")
            ),
        )
        rows = page.locator("tbody tr").count()
        page.locator("form.filter select[name=agent]").select_option("billing")
        expect(page.locator("#trouble")).to_have_text(re.compile("The server does not answer"))
        expect(page.locator("#live")).to_have_text(re.compile("The server does not answer"))
        expect(page.locator("tbody tr")).to_have_count(rows)
        page.unroute_all()
        expect(page.locator("#trouble")).to_be_hidden()
        expect(page).to_have_url(re.compile("agent=billing"))
        page.goto(f"{site.url}/runs")


def test_runs__rows_in_progress_follow_without_a_reload(month: Site, site: Site) -> None:
    run_id = start_run(site)
    page = site.open("/runs?sort=agent&agent=triage&status=PENDING")
    page.evaluate("window.isSamePage = true")
    row = page.locator(f"#r-{run_id}")
    expect(row).to_contain_text("PENDING")
    site.service.post(f"/benchmark-runs/{run_id}/cancel")
    expect(row).to_contain_text("CANCELLED")
    assert page.evaluate("window.isSamePage")


@pytest.mark.parametrize("query", ["?status=PENDING&agent=sql", "?sort=agent"])
def test_runs__new_run_is_offered_on_every_list(query: str, month: Site, site: Site) -> None:
    """On an empty list, in another order and with a filter; the link leads to the newest runs."""
    page = site.open(f"/runs{query}")
    page.wait_for_load_state()
    expect(page.locator("#new-rows")).to_be_hidden()
    run_id = start_run(site, "sql")
    expect(page.locator("#new-rows")).to_have_text("1 new – show")
    page.locator("#new-rows").click()
    expect(page.locator(f"#r-{run_id}")).to_be_visible()
    site.service.post(f"/benchmark-runs/{run_id}/cancel")


def test_runs__new_run_is_offered_on_a_later_page(month: Site, site: Site) -> None:
    page = site.open("/runs")
    page.get_by_role("link", name="Next page").click()
    expect(page.get_by_role("link", name="First page")).to_be_visible()
    run_id = start_run(site)
    expect(page.locator("#new-rows")).to_have_text("1 new – show")
    page.locator("#new-rows").click()
    expect(page.locator(f"#r-{run_id}")).to_be_visible()


def test_runs__selection_stays_over_pages_and_filters(month: Site, site: Site) -> None:
    page = site.open("/runs?agent=billing&text=support")
    press(page, "j", "x")
    expect(page.locator("#run-count")).to_contain_text("1 selected")
    expect(page).to_have_url(re.compile("run="))
    first = chosen_row(page).removeprefix("r-")
    field = page.locator("form.filter input[name=text]")
    field.fill("support-20")
    expect(page.locator("#runs")).to_contain_text("Also selected")
    page.locator(f"#r-{OLD} input").check()
    expect(page.locator("#run-count")).to_contain_text("2 selected")
    page.get_by_role("button", name="Compare two runs").click()
    expect(page).to_have_url(re.compile(f"/compare\\?.*{first}"))
    assert OLD in page.url


def test_compare__other_run_is_chosen_on_the_page_of_a_run_and_of_a_comparison(
    month: Site, site: Site
) -> None:
    page = site.open(f"/runs/{RUN}", context=site.context(java_script_enabled=False))
    page.get_by_text("Compare with", exact=True).click()
    page.get_by_label("Recent run of the benchmark").select_option("run-billing-support-3")
    page.get_by_role("button", name="Compare", exact=True).click()
    expect(page).to_have_url(f"{site.url}/compare?base=run-billing-support-3&run={RUN}")
    expect(page.locator("h1")).to_contain_text("Billing bot")
    page.get_by_text("Other runs", exact=True).click()
    page.locator("input[name=baseId]").fill(BASE)
    page.get_by_role("button", name="Compare", exact=True).click()
    expect(page).to_have_url(f"{site.url}/compare?base={BASE}&run={RUN}")


def test_traces__keys_follow_the_filter_and_the_list_is_counted(month: Site, site: Site) -> None:
    page = site.open(f"/runs/{RUN}/traces")
    expect(page.locator("h1")).to_have_text(re.compile("^Traces of Billing bot on Support"))
    total = page.locator("#trace-count [data-count]").inner_text()
    assert total == f"{len(site.service.list_items(f'/benchmark-runs/{RUN}/results'))} traces"
    page.get_by_label("Below").fill("0.5")
    expect(page.locator("#trace-count [data-count]")).to_have_text(f"30 of {total}")
    addresses = [
        str(link.get_attribute("href")) for link in page.locator("tbody a[data-key=o]").all()
    ]
    page.goto(f"{site.url}{addresses[0]}")
    for address in (addresses[1], addresses[2]):
        press(page, "j")
        expect(page).to_have_url(f"{site.url}{address}")
    press(page, "k")
    expect(page).to_have_url(f"{site.url}{addresses[1]}")
    page.goto(f"{site.url}{addresses[-1]}")
    expect(page.get_by_role("link", name="Next", exact=True)).to_have_count(0)
    with site.service.resources.db.read() as session:
        ids = session.scalars(text("SELECT trace_id FROM collected_traces ORDER BY trace_id"))
        assert len(list(ids)) > len(addresses)


def test_inbox__several_false_alarms_are_confirmed_and_real_ones_are_not(
    month: Site, site: Site
) -> None:
    questions: list[str] = []

    def answer(dialog: Dialog) -> None:
        questions.append(dialog.message)
        # The first time no, then yes.
        dialog.accept() if len(questions) > 1 else dialog.dismiss()

    with site.service.resources.db.begin() as session:
        write_open_alert(session)
    page = site.open("/inbox")
    page.on("dialog", answer)
    tick = page.locator("#m-note-0 input[type=checkbox]")
    tick.check()
    page.get_by_role("button", name="Selected: false alarm").click()
    expect(tick).to_be_checked()
    assert [question.partition("?")[0] for question in questions] == ["Was it a false alarm"]
    assert site.service.get("/alerts/alert-0")["verdict"] is None
    page.get_by_role("button", name="Selected: it was real").click()
    expect(page.locator("#m-note-0")).to_have_count(0)
    assert len(questions) == 1
    assert site.service.get("/alerts/alert-0")["verdict"] == "true"
    with site.service.resources.db.begin() as session:
        write_open_alert(session)
    page.goto(f"{site.url}/inbox")
    tick.check()
    page.get_by_role("button", name="Selected: false alarm").click()
    expect(page.locator("#m-note-0")).to_have_count(0)
    assert site.service.get("/alerts/alert-0")["verdict"] == "noise"


def test_runs__run_within_the_millisecond_of_the_newest_one_is_offered(
    month: Site, site: Site
) -> None:
    """A database has microseconds, and the clock of a browser milliseconds."""
    run_id = start_run(site)
    at = "2030-01-01T00:00:00.000100+00:00"
    with site.service.resources.db.begin() as session:
        move = text("UPDATE benchmark_runs SET created_at = :at WHERE id = :id")
        session.execute(move, {"at": at, "id": run_id})
    page = site.open("/runs")
    expect(page.locator(f"#r-{run_id}")).to_be_visible()
    other_id = start_run(site)
    with site.service.resources.db.begin() as session:
        session.execute(move, {"at": at.replace("100+", "200+"), "id": other_id})
    expect(page.locator("#new-rows")).to_have_text("1 new – show")


def test_part__what_the_server_changed_is_shown_unless_the_reader_chose(
    month: Site, site: Site
) -> None:
    """A part is replaced twice: the server changes its choice and its folded text, then the reader does, too."""
    page = site.open("/inbox?tab=all")

    def replace(selected: str, opened: str) -> None:
        options = "".join(
            f"<option{' selected' if value == selected else ''}>{value}</option>" for value in "abc"
        )
        part = f'<div id="inbox" data-fragment><select name="c">{options}</select><details{opened}><summary>more</summary><p>all</p></details></div>'
        page.route("**/inbox?tab=all", lambda route: answer_part(route, part))
        page.evaluate("document.querySelector('#new-rows').click()")
        expect(page.locator("#inbox select[name=c]")).to_be_visible()

    def answer_part(route: Route, part: str) -> None:
        link = '<a id="new-rows" data-here href="/inbox?tab=all" hidden>new</a>'
        body = part.replace("<select", f"{link}<select")
        route.fulfill(content_type="text/html", body=f"<title>Inbox</title>{body}")

    choice, folded = page.locator("select[name=c]"), page.locator("#inbox details p")
    replace("", "")
    expect(choice).to_have_value("a")
    replace("b", " open")
    expect(choice).to_have_value("b")
    expect(folded).to_be_visible()
    choice.select_option("c")
    choice.blur()
    page.locator("#inbox summary").click()
    page.locator("#inbox summary").blur()
    replace("a", " open")
    expect(choice).to_have_value("c")
    expect(folded).to_be_hidden()


def test_rows__without_links_are_marked_and_scrolled_to(month: Site, site: Site) -> None:
    with site.service.resources.db.begin() as session:
        session.execute(
            text(
                "INSERT INTO audit_log (actor_type, actor_id, action, resource_type, outcome, fields)"
                " SELECT 'key', 'gone-' || n, 'create_agent', 'agents', 'done', '{}' FROM generate_series(1, 49) n"
            )
        )
    page = site.open("/audit")
    rows = page.locator("[data-row]")
    assert rows.first.locator("a, button").count() == 0
    press(page, *["j"] * 40)
    expect(rows.nth(39)).to_have_attribute("aria-current", "true")
    expect(rows.nth(39)).to_be_focused()
    expect(rows.nth(39)).to_be_in_viewport()
    press(page, *["k"] * 39)
    expect(rows.first).to_be_in_viewport()
    expect(page.locator("[data-row][aria-current]")).to_have_count(1)
