"""Two people annotate twenty answers, by keyboard and through the API, and the page says how far they agree."""

import re
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
# The others are judged through the API: a page in the browser takes ten times as long.
BY_KEY: Final = 4


@pytest.fixture
def run(site: Site) -> JSON:
    """A run of the month with 60 answers, which nobody has annotated."""
    with site.service.resources.db.begin() as session:
        if session.get(BenchmarkRun, RUN) is None:
            write_month(session)
        session.execute(delete(Annotation))
    return site.service.get(f"/benchmark-runs/{RUN}")


def judgement_of(trace_id: str) -> str:
    """What everybody says: each fifth answer is wrong."""
    return "wrong" if int(trace_id.rpartition("t-")[2]) % 5 == 0 else "right"


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


def judge_by_key(page: Page, trace_id: str, number: int) -> None:
    """One key judges an answer of the queue, and opens the next one."""
    expect(page.locator("main")).to_contain_text(f"{number} of {ANSWERS}")
    assert page.locator("[name=traceId]").input_value() == trace_id
    press(page, "3" if judgement_of(trace_id) == "wrong" else "1")


def judge(annotator: Annotator, run: JSON, trace_id: str, judgement: str) -> None:
    body = {"traceId": trace_id, "judgement": judgement}
    assert annotator.send("POST", f"/benchmark-runs/{run['id']}/annotations", body).is_success


def read_queue(site: Site, page: Page, annotator: Annotator) -> list[str]:
    """The traces of a queue that is open, from its pages."""
    headers = {"Authorization": f"Bearer {annotator.token}", "Accept": "text/html"}
    pages = (
        site.service.client.get(f"{page.url}&at={number}", headers=headers).text
        for number in range(1, ANSWERS + 1)
    )
    return [re.findall(r'name="traceId" value="([^"]+)"', html)[0] for html in pages]


def test_answers__are_judged_by_one_key_each_and_two_people_are_compared(
    site: Site, run: JSON
) -> None:
    ana, ben = Annotator(site.service, "Ana"), Annotator(site.service, "Ben")
    page = open_queue(site, run, ana.token)
    address, queue = page.url, read_queue(site, page, ana)
    assert len({*queue}) == ANSWERS
    for number, trace_id in enumerate(queue[:BY_KEY], start=1):
        judge_by_key(page, trace_id, number)
    for trace_id in queue[BY_KEY:-1]:
        judge(ana, run, trace_id, judgement_of(trace_id))
    page.goto(f"{address}&at={ANSWERS}")
    judge_by_key(page, queue[-1], ANSWERS)
    expect(page.locator("main h2")).to_have_text(f"All {ANSWERS} answers are judged")
    judged = site.service.list_items("/annotations")
    assert {row["traceId"]: row["judgement"] for row in judged} == {
        trace_id: judgement_of(trace_id) for trace_id in queue
    }
    # Nothing that Ana said is on his pages, and he gets the same answers.
    second = open_queue(site, run, ben.token)
    assert read_queue(site, second, ben) == queue
    disputed_answers = [row for row in judged if row["judgement"] == "right"][:2]
    for row in judged:
        judge(ben, run, row["traceId"], "wrong" if row in disputed_answers else row["judgement"])
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
