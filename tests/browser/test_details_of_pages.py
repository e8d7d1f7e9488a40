"""Details of pages besides the criteria: a comparison by case, a rule beside another
one, the request of a delivery, the note of a revision, and the JSON of a filtered inbox."""

import json
import re
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import expect
from sqlalchemy import text

from mosaico.core.postgres_notify import notify_streams
from mosaico.notifications.models import Delivery, Endpoint
from tests.browser.axe import find_violations
from tests.browser.conftest import Site
from tests.support.every_page import BASE, RUN
from tests.support.page_data import write_month, write_traces

pytestmark = pytest.mark.xdist_group("browser")

CASES = f"/compare?base={BASE}&run={RUN}&layout=case"
SECRET_URL = "https://hooks.example.org/services/never-shown"


@pytest.fixture(scope="module")
def month(module_site: Site) -> Site:
    service = module_site.service
    with service.resources.db.begin() as session:
        write_month(session)
    endpoint = service.post("/endpoints", {"channel": "WEBHOOK", "recipient": SECRET_URL})
    with service.resources.db.begin() as session:
        session.add(
            Delivery(
                id="delivery-2", notification_id="note-0", endpoint_id=endpoint["id"], status="FAILED",
                attempts=5, detail="HTTP 503: closed", tried_at=datetime.now(UTC),
            )
        )  # fmt: skip
    return module_site


def read_json(site: Site, path: str, html: str) -> list[dict[str, object]]:
    """The rows of the JSON link of a page."""
    [address] = re.findall(r'rel="alternate" type="application/json" href="([^"]+)"', html)
    response = site.service.client.get(address.replace("&amp;", "&"))
    assert response.status_code == 200, (path, response.text)
    items: list[dict[str, object]] = response.json()["items"]
    return items


def test_compare__by_case_shows_each_item_with_its_trials_and_changes(
    month: Site, site: Site
) -> None:
    """58 items of 3 trials: ten fell from 3 of 3 to 0 of 3, so they are first."""
    page = site.open(f"/compare?base={BASE}&run={RUN}")
    page.get_by_role("link", name="By case").click()
    rows = page.locator("table tbody tr")
    expect(rows).to_have_count(50)
    first = rows.first
    expect(first).to_contain_text("case-000")
    expect(first).to_contain_text("✓✓✓")
    expect(first).to_contain_text("0 of 3 pass")
    expect(first).to_contain_text("▼ −1")
    expect(first).to_contain_text("tool refund.lookup failed")
    expect(rows.nth(10)).not_to_contain_text("▼")
    names = [str(item["itemId"]) for item in read_json(site, CASES, page.content())]
    assert names == [text.strip() for text in rows.locator("th code").all_inner_texts()]
    page.get_by_role("link", name="Next page").click()
    # 58 items: 50 on the first page.
    expect(rows).to_have_count(8)
    page.goto(f"{site.url}{CASES}")
    page.get_by_label("By metric").select_option("LATENCY_MS")
    page.get_by_label("Order").select_option("by item")
    page.get_by_role("button", name="Show").click()
    expect(page.locator("thead")).to_contain_text("LATENCY_MS")
    assert "layout=case" in page.url


def test_answers__show_both_nights_and_what_failed(month: Site, site: Site) -> None:
    """Question, expected answer, and the answers before and now in the row; `j` and `o` open an item, `j` and `k` turn."""
    page = site.open(f"/runs/{RUN}")
    first = page.locator(".answers > li").first
    for shown in ("case-000", "How much is the refund of order 0?", "tool refund.lookup failed"):
        expect(first).to_contain_text(shown)
    before, now = (first.locator(".side").nth(number) for number in (0, 1))
    expect(before).to_contain_text("✓ right ✓✓✓")
    expect(before).to_contain_text("3 of 3 pass")
    expect(now).to_contain_text("✗ wrong ✗✗✗")
    expect(before.locator("ins")).to_have_text("The refund of order 0 is 12 EUR")
    expect(now.locator("del").last).to_have_text("500 Internal Server Error")
    page.wait_for_load_state()
    page.keyboard.press("j")
    page.keyboard.press("o")
    expect(page.locator("h1")).to_have_text("case-000")
    for key, item in (("j", "case-001"), ("k", "case-000")):
        page.wait_for_load_state()
        page.keyboard.press(key)
        expect(page.locator("h1")).to_have_text(item)
    page.get_by_role("link", name="Back to the list").click()
    expect(page).to_have_url(re.compile("show=fell#answers$"))


def test_item__wrong_is_red_and_right_is_green(month: Site, site: Site) -> None:
    page = site.open(f"/runs/{RUN}/items?item=case-000&base={BASE}")
    colors = {
        state: page.locator(f".night.{state} .badge").first.evaluate(
            "badge => getComputedStyle(badge).color"
        )
        for state in ("right", "wrong")
    }
    red, green = (
        page.evaluate(
            "name => { const probe = document.createElement('i'); probe.className = name;"
            " document.body.append(probe); return getComputedStyle(probe).color }",
            name,
        )
        for name in ("error", "good")
    )
    assert colors == {"right": green, "wrong": red}


def test_charts__begin_with_the_newest_point_on_a_narrow_screen(month: Site, site: Site) -> None:
    page = site.open(f"/runs/{RUN}")
    page.set_viewport_size({"width": 390, "height": 800})
    newest = page.locator("svg.chart [data-point]").last.bounding_box()
    assert newest is not None
    assert 0 <= newest["x"] <= 390


def test_navigation__is_in_sight_on_a_narrow_screen(month: Site, site: Site) -> None:
    page = site.open("/")
    page.set_viewport_size({"width": 390, "height": 800})
    entries = page.locator(".top nav > *")
    boxes = [entry.bounding_box() for entry in entries.all()]
    assert len(boxes) > 5
    assert all(box and box["x"] >= 0 and box["x"] + box["width"] <= 390 for box in boxes)


def test_rule_form__backtest_is_compared_with_the_stored_rule_and_with_another(
    month: Site, site: Site
) -> None:
    page = site.open("/alerts/rule-1/edit")
    page.locator("#condition").select_option("LESS_THAN")
    page.locator("#threshold").fill("0.8")
    page.locator("[name=compareCondition]").select_option("PERCENTAGE_DROP")
    page.get_by_label("Its threshold").fill("2")
    compared = page.get_by_role("region", name="Compared with").locator("tbody tr")
    expect(compared).to_have_count(3)
    other = site.service.post(
        "/alert-configs/backtest",
        {
            "rule": {"name": "x", "benchmarkId": "support", "kpi": "support-pass", "condition": "PERCENTAGE_DROP", "threshold": 2},
            "agentId": "billing", "days": 90,
        },
    )  # fmt: skip
    assert other["fired"] > 1, "the other rule has to differ"
    for row, texts in zip(
        compared.all(),
        (["this rule", "1"], ["as stored, revision 1", "1"], ["falls by 2 %", str(other["fired"])]),
        strict=True,
    ):
        for words in texts:
            expect(row).to_contain_text(words)
    page.get_by_label("Its threshold").fill("much")
    expect(compared.last).to_contain_text("its threshold is not a number")
    assert site.service.get("/alert-configs/rule-1")["revision"] == 1


def test_rule__backtest_is_compared_without_a_script(month: Site, site: Site) -> None:
    page = site.open("/alerts/rule-1", context=site.context(java_script_enabled=False))
    page.get_by_label("Agent").select_option("Billing bot")
    page.locator("[name=compareCondition]").select_option("PERCENTAGE_DROP")
    page.get_by_label("Its threshold").fill("10")
    page.get_by_role("button", name="Replay").click()
    expect(page.get_by_role("region", name="Compared with")).to_contain_text("falls by 10 %")


def test_delivery__shows_the_request_and_the_answer_without_credentials(
    month: Site, site: Site
) -> None:
    page = site.open("/deliveries/delivery-2")
    page.get_by_role("link", name="hooks.example.org").last.click()
    page.locator("tbody tr").first.get_by_role("link").click()
    main = page.locator("main")
    expect(main).to_contain_text("HTTP 503: closed")
    expect(main).to_contain_text("https://hooks.example.org/…hown")
    expect(main).to_contain_text("webhook-signature")
    body = json.loads(page.locator("pre").inner_text())
    assert body["data"]["id"] == "note-0"
    assert "never-shown" not in page.content()
    answer = site.service.get("/deliveries/delivery-2/request")
    assert answer["headers"]["webhook-signature"] == "…"
    assert json.loads(answer["body"]) == body
    assert "never-shown" not in json.dumps(answer)


def test_endpoint__secret_before_signs_for_the_chosen_time(month: Site, site: Site) -> None:
    [endpoint] = site.service.list_items("/endpoints", channel="WEBHOOK")
    page = site.open(f"/endpoints/{endpoint['id']}")
    page.on("dialog", lambda dialog: dialog.accept())
    for overlap in ("signs for a day", "ends now"):
        page.get_by_label("Previous secret").select_option(f"previous secret {overlap}")
        page.get_by_role("button", name="New signing secret").click()
        expect(page.locator("#secret")).to_contain_text("whsec_")
    with site.service.resources.db.read() as session:
        stored = session.get_one(Endpoint, endpoint["id"])
        assert stored.previous_expires_at is not None
        assert stored.previous_expires_at <= datetime.now(UTC) + timedelta(seconds=5)


def test_missing__reason_is_shown_on_focus(month: Site, site: Site) -> None:
    """6.4 and 6.7: the reason of a "–" is no information of a pointer only."""
    page = site.open("/runs")
    page.set_viewport_size({"width": 390, "height": 800})
    missing = page.locator(".missing").first
    reason = missing.locator(".hidden")
    box = reason.bounding_box()
    assert box is not None
    # Out of sight, and read by a screen reader all the same.
    assert box["width"] <= 1
    missing.focus()
    visible_box = reason.bounding_box()
    assert visible_box is not None
    assert visible_box["width"] > 100
    assert visible_box["x"] >= 0
    assert visible_box["x"] + visible_box["width"] <= 390
    assert visible_box["y"] + visible_box["height"] <= 800
    assert find_violations(page) == []


def test_copy_json__copies_the_data_of_the_page(month: Site, site: Site) -> None:
    page = site.open("/agents")
    page.get_by_role("button", name="Copy JSON").click()
    expect(page.locator("#live")).to_have_text("Copied")
    page.goto(f"{site.url}/formulas")
    # A field to paste into: a page cannot read the clipboard without a permission.
    page.get_by_label("Formula").focus()
    page.keyboard.press("Control+v")
    # The page shows the data of several addresses: each is copied on a line of its own.
    agents, *_ = page.get_by_label("Formula").input_value().splitlines()
    assert [row["id"] for row in json.loads(agents)["items"]] == [
        row["id"] for row in site.service.list_items("/agents")
    ]


def test_traces__are_turned_with_j_and_k(month: Site, site: Site) -> None:
    with site.service.resources.db.begin() as session:
        write_traces(session, "run-sql-support-1", broken=0)
    page = site.open("/runs/run-sql-support-1/traces/run-sql-support-1/t-0")
    page.wait_for_load_state()
    page.keyboard.press("j")
    expect(page).to_have_url(re.compile("t-1$"))
    page.wait_for_load_state()
    page.keyboard.press("k")
    expect(page).to_have_url(re.compile("t-0$"))


@pytest.mark.parametrize(
    "path",
    [
        f"/runs/{RUN}",
        "/alerts/rule-1?agent=billing&days=90",
    ],
)
def test_chart__has_its_points_as_a_table(path: str, month: Site, site: Site) -> None:
    """6.7: a group with a name, a table twin and arrow keys."""
    page = site.open(path)
    chart = page.locator("[data-chart]").first
    assert chart.get_attribute("role") == "group"
    points = [point.text_content() for point in chart.locator("[data-point] > title").all()]
    card = page.locator(".card", has=chart)
    card.locator("summary").click()
    rows = card.locator("tbody tr")
    assert rows.count() == len(points) > 1
    assert [": ".join(cells.split("\t")) for cells in rows.all_inner_texts()] == points[::-1]


def test_numbers__are_those_of_the_browsers_language(month: Site, site: Site) -> None:
    """6.7: numbers through `Intl`, with the text of the server without a script."""
    words = {
        "de-DE": ("0,745", "−0,150", "0,80", "0,745"),
        "server": ("0.745", "−0.150", "0.80", "0.745"),
    }
    for language, (value, change, tick, sentence) in words.items():
        is_server = language == "server"
        context = site.context(
            locale="de-DE" if is_server else language, java_script_enabled=not is_server
        )
        page = site.open("/runs/run-billing-support-0", context=context)
        row = page.get_by_role("row").filter(has_text="pass rate").first
        expect(row).to_contain_text(value)
        expect(row).to_contain_text(change)
        expect(page.locator("svg.chart").first).to_contain_text(tick)
        expect(page.locator(".facts [data-numbers]").first).to_contain_text(sentence)
        # A name keeps its numbers, and so does what is copied.
        expect(page.locator("h1")).to_contain_text("Billing bot")


def test_numbers__of_live_updates_are_those_of_the_browsers_language(
    month: Site, site: Site
) -> None:
    """6.7: an event writes its numbers through `Intl` once, also when a part of the page is replaced."""
    page = site.open("/", context=site.context(locale="de-DE"))
    progress = page.locator("#now [data-progress-text]")
    for processed, progress_text in ((3_620, "3.620 of 5.840"), (4_000, "4.000 of 5.840")):
        with site.service.resources.db.begin() as session:
            session.execute(
                text(
                    "UPDATE benchmark_runs SET traces_processed = :processed, traces_total = 5840"
                    " WHERE id = 'run-in-progress'"
                ),
                {"processed": processed},
            )
            notify_streams(session, "run-in-progress")
        expect(progress).to_contain_text(f"{progress_text} traces")
    page.goto(f"{site.url}/runs/run-in-progress")
    expect(page.locator("#progress")).to_contain_text("4.000 of 5.840 traces")


def test_ages__grow_while_a_page_is_open(month: Site, site: Site) -> None:
    """6.4: an age is true later, too; a time without an age stays."""
    context = site.context()
    context.clock.install()
    page = site.open("/runs/run-in-progress", context=context)
    age = page.locator("main time[data-kind=age]").first
    # Otherwise a minute could end between two looks. The age is written anew within a minute.
    context.clock.pause_at(datetime.now(UTC) + timedelta(minutes=1))
    context.clock.run_for(timedelta(minutes=1) // timedelta(milliseconds=1))
    minutes = int(age.inner_text().split(" ")[0])
    context.clock.run_for(timedelta(minutes=10) // timedelta(milliseconds=1))
    expect(age).to_have_text(f"{minutes + 10} min ago")
    context.clock.run_for(timedelta(hours=2) // timedelta(milliseconds=1))
    expect(age).to_have_text("2 h ago")


OVERLAY = "/benchmarks/support/kpis/support-pass?agent=billing&agent=sql"
# The color of the line of an agent, and that of its squares on the page.
LINE_AND_SQUARES = """(number) => [
  getComputedStyle(document.querySelector(`.agent-line.a${number}`)).stroke,
  ...[...document.querySelectorAll(`.swatch.a${number}`)].map((square) => getComputedStyle(square).color),
]"""
# Contents that are higher than the cell of their table.
OVERFLOWING_CELLS = """() => [...document.querySelectorAll("main td")]
  .filter((cell) => cell.scrollHeight > cell.clientHeight + 1).length"""


def test_overlay__squares_have_the_color_of_the_line_and_values_fit_their_rows(
    month: Site, site: Site
) -> None:
    page = site.open(OVERLAY)
    classes = page.locator(".agent-line").first.get_attribute("class") or ""
    line, *squares = page.evaluate(LINE_AND_SQUARES, classes[-1])
    assert squares
    assert {*squares} == {line}
    assert page.evaluate(OVERFLOWING_CELLS) == 0


def test_header__has_the_name_of_the_service_on_one_line(month: Site, site: Site) -> None:
    page = site.open("/inbox")
    for width in (1440, 1000, 390):
        page.set_viewport_size({"width": width, "height": 900})
        box = page.locator(".brand").bounding_box()
        assert box is not None
        assert box["height"] < 32
