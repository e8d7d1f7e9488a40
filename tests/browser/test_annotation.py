"""Two people annotate twenty answers by keyboard, and the page says how far they agree."""

import re
from collections.abc import Callable
from time import monotonic
from typing import Final

import pytest
from playwright.sync_api import Page, expect
from sqlalchemy import delete

from mosaico.annotations.models import Annotation
from mosaico.run_store.models import BenchmarkRun
from tests.browser.conftest import Site
from tests.support.annotators import Annotator
from tests.support.page_data import write_month
from tests.support.service import JSON

pytestmark = pytest.mark.xdist_group("browser")
RUN: Final = "run-billing-support-0"
ANSWERS: Final = 20


@pytest.fixture
def run(site: Site) -> JSON:
    """A run of the month with 60 answers, which nobody has annotated."""
    with site.service.resources.db.begin() as session:
        if session.get(BenchmarkRun, RUN) is None:
            write_month(session)
        session.execute(delete(Annotation))
    return site.service.get(f"/benchmark-runs/{RUN}")


def is_fifth(item: str) -> bool:
    """Whether an item is one of those that everybody calls wrong."""
    return int(item.removeprefix("case-")) % 5 == 0


def open_queue(site: Site, run: JSON, key: str, *, has_script: bool = True) -> Page:
    """The queue that both get, opened from the page of the annotations of the run."""
    page = site.open(
        f"/runs/{run['id']}/annotations",
        context=site.context(key=key, java_script_enabled=has_script),
    )
    form = page.locator("form", has_text="A random sample")
    form.get_by_label("Name").fill("week 48")
    form.get_by_role("button", name="Start").click()
    expect(page.locator("main")).to_contain_text(f"1 of {ANSWERS}")
    return page


def press(page: Page, key: str) -> None:
    """Press a key of the page, and wait for the answer that it opens."""
    page.wait_for_load_state()
    with page.expect_navigation():
        page.keyboard.press(key)


def judge_all(page: Page) -> int:
    """Judge every answer of the queue; returns the number of keys that were pressed."""
    presses = 0
    for number in range(1, ANSWERS + 1):
        expect(page.locator("main")).to_contain_text(f"{number} of {ANSWERS}")
        press(page, "3" if is_fifth(page.locator("h1").inner_text()) else "1")
        presses += 1
    return presses


def read_queue(site: Site, page: Page, annotator: Annotator) -> list[str]:
    """The items of a queue that is open, as its pages name them."""
    headers = {"Authorization": f"Bearer {annotator.token}", "Accept": "text/html"}
    pages = (
        site.service.client.get(f"{page.url}&at={number}", headers=headers).text
        for number in range(1, ANSWERS + 1)
    )
    return [re.findall(r"<h1[^>]*>\s*(case-\d+)", html)[0] for html in pages]


def test_twenty_answers__are_judged_by_twenty_keys_and_two_people_are_compared(
    site: Site, run: JSON, record_property: Callable[[str, object], None]
) -> None:
    ana, ben = Annotator(site.service, "Ana"), Annotator(site.service, "Ben")
    page = open_queue(site, run, ana.token)
    began = monotonic()
    assert judge_all(page) == ANSWERS
    # Of the browser and the service; reading takes the rest of five minutes.
    record_property("seconds", round(monotonic() - began, 1))
    expect(page.locator("main h2")).to_have_text(f"All {ANSWERS} answers are judged")
    judged = site.service.list_items("/annotations")
    disputed_answers = [row for row in judged if row["judgement"] == "right"][:2]
    # Nothing that Ana said is on his pages, and he gets the same answers.
    second = open_queue(site, run, ben.token)
    assert sorted(read_queue(site, second, ben)) == sorted(row["itemId"] for row in judged)
    for row in judged:
        judgement = "wrong" if row in disputed_answers else row["judgement"]
        body = {"traceId": row["traceId"], "judgement": judgement}
        assert ben.send("POST", f"/benchmark-runs/{run['id']}/annotations", body).is_success
    second.reload()
    second.get_by_role("link", name="Annotations of the run").click()
    agreement = second.get_by_role("region", name="Agreement")
    expect(agreement).to_contain_text("Cohen's kappa")
    expect(agreement).to_contain_text("95 % CI")
    disputed = second.get_by_role("region", name="Disputed answers").locator("tbody th")
    items = sorted(row["itemId"] for row in disputed_answers)
    assert sorted(disputed.all_inner_texts()) == items


def test_note_skip_and_undo__by_keyboard(site: Site, run: JSON) -> None:
    page = open_queue(site, run, Annotator(site.service, "Ana").token)
    first = page.locator("h1").inner_text()
    page.keyboard.press("n")
    page.keyboard.type("123 n is a text")
    page.keyboard.press("Escape")
    page.keyboard.press("e")
    press(page, "2")
    [annotation] = site.service.list_items("/annotations")
    assert (annotation["itemId"], annotation["judgement"], annotation["note"]) == (
        first, "partly", "123 n is a text",
    )  # fmt: skip
    assert annotation["expectedIsWrong"] is True
    press(page, "u")
    expect(page.locator("h1")).to_have_text(first)
    assert site.service.list_items("/annotations") == []
    press(page, "ArrowRight")
    expect(page.locator("main")).to_contain_text(f"2 of {ANSWERS}")
    press(page, "ArrowLeft")
    expect(page.locator("h1")).to_have_text(first)
    # What metrics say is folded until somebody opens it.
    expect(page.get_by_text("EXACT_MATCH")).to_be_hidden()


def test_queue__is_judged_without_javascript(site: Site, run: JSON) -> None:
    ana = Annotator(site.service, "Ana")
    page = open_queue(site, run, ana.token, has_script=False)
    page.get_by_label("Note").fill("It stops too early")
    page.get_by_role("button", name=re.compile("Wrong$")).click()
    expect(page.locator("main")).to_contain_text(f"2 of {ANSWERS}")
    page.get_by_role("link", name="Skip →").click()
    page.get_by_role("button", name=re.compile("Right$")).click()
    expect(page.locator("main")).to_contain_text(f"4 of {ANSWERS}")
    page.get_by_role("button", name="Undo the last").click()
    expect(page.locator("main")).to_contain_text(f"3 of {ANSWERS}")
    [annotation] = site.service.list_items("/annotations")
    assert (annotation["judgement"], annotation["note"]) == ("wrong", "It stops too early")
