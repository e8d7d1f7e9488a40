"""Acceptance criteria that hold for every page; the docstring of a test names its criterion in
`docs/page-criteria.md`.

A page is loaded once, and all tests of it follow. The names of its rows are those that an attacker would choose. Without
data, pages have the same parts: their HTML is read, and `make prove` opens them in the browser, too.
"""

import json
import os
import re
import shlex
import subprocess
from collections.abc import Iterator, Mapping
from html import unescape
from http import HTTPStatus
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

import pytest
from playwright.sync_api import Dialog, Page, Response, ViewportSize

from mosaico.agents.models import Agent
from mosaico.core.web.response_headers import CONTENT_SECURITY_POLICY
from tests.browser.axe import find_color_violations, find_violations
from tests.browser.conftest import NARROW, WIDE, Site
from tests.browser.identities import list_names
from tests.browser.shown_data import ApiData, count_rows, read_shown_parts
from tests.support.every_page import (
    EXAMPLES,
    STATES,
    is_form,
    page_paths,
    page_paths_without_data,
    shorten_lists,
    write_hostile_pages,
)

ZOOMED: Final[ViewportSize] = {"width": 720, "height": 450}
MIN_CHART_PX = 11
# Of the screen of a phone: a title that is higher hides the verdict and the buttons.
MAX_TITLE_HEIGHT_PX = 300
# An override of the reading direction in a hostile name, and what a page shows instead.
DIRECTION, MARKED_DIRECTION = "\u202e", "[U+202E]"
ROWS_OF_LIST = 12
# How large a page and its parts are. A wide table that cannot be scrolled is cut; charts are scaled with their boxes.
MEASURES: Final = """screenWidth => ({
  titleHeights: [...document.querySelectorAll("h1")].map(title => title.getBoundingClientRect().height),
  width: document.documentElement.scrollWidth,
  cutTables: [...document.querySelectorAll("table")].filter(table =>
    table.getBoundingClientRect().right > screenWidth && !["auto", "scroll"].includes(getComputedStyle(table.parentElement).overflowX)
  ).length,
  chartTexts: [...document.querySelectorAll("svg.chart text")].map(
    text => parseFloat(getComputedStyle(text).fontSize) * text.getScreenCTM().a),
})"""
# A missing value without its reason.
UNEXPLAINED: Final = """[...document.querySelectorAll("main *")].filter(part =>
  [...part.childNodes].some(node => node.nodeType === Node.TEXT_NODE && node.data.trim() === "–")
  && !part.closest("[aria-hidden], kbd, dt") && !part.querySelector(".hidden")).map(part => part.parentElement.outerHTML.slice(0, 200))"""
# Numbers in the text of a page that the script does not write in the language of the browser, and negative
# numbers or exponents as programs write them. What somebody typed, names, commands and times stay.
FOREIGN_NUMBERS: Final = r"""(() => {
  const found = [], texts = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const { data, parentElement } = texts.currentNode;
    if (parentElement.closest("code, pre, kbd, textarea, option, time, .help, [id=functions] + *, [id=operators] + *")) continue;
    const isEnglish = /(?<![\w.,-])(\d{1,3}(,\d{3})+|\d+\.\d+)(?![\w-]|[.,]\d)/.test(data);
    const isLocalized = parentElement.closest(".num, .line, [data-numbers], svg");
    if ((isEnglish && !isLocalized) || /(?<![\w.,-])-\d|\d[eE][+-]\d/.test(data)) found.push(data.trim());
  }
  return found;
})()"""
# One call for all facts: a call takes longer than to find one.
TEXTS: Final = f"""() => ({{
  scripts: document.querySelectorAll("main script").length,
  text: document.querySelector("main").innerText,
  unexplained: {UNEXPLAINED},
  times: document.querySelectorAll("main time").length,
  explainedTimes: document.querySelectorAll("main time[datetime][title], main .times time[datetime]").length,
  foreignNumbers: {FOREIGN_NUMBERS},
}})"""
# Not numbers that are measured.
VERSIONS: Final = re.compile(r"Postgres [\d.]+|Python [\d.]+|[\d.]+ on .*")
# Pages that have content in an empty database.
NEVER_EMPTY: Final = ("/audit", "/keys", "/providers", "/system", "/formulas", "/daily-summary")
# Forms whose choices are missing in an empty database. The others are the same with data.
CHOOSING_FORMS: Final = ("/new/benchmark", "/new/schedule", "/new/silence")
PATHS_WITHOUT_DATA: Final = [
    path for path in page_paths_without_data() if path in CHOOSING_FORMS or not is_form(path)
]
VISITS: Final = [
    *(pytest.param(("empty", path), marks=pytest.mark.prove) for path in PATHS_WITHOUT_DATA),
    *(("data", path) for path in page_paths()),
]
EMPTY_STATE: Final = re.compile(r'<div class="empty">(.*?)</div>', re.DOTALL)
NEXT_STEP: Final = re.compile(r'<a class="button"|<code>')
# A row of a table or a fact in the content of a page.
FIRST_ROW: Final = re.compile(r"<main.*(?:<tbody[^>]*>\s*<tr|<dt)", re.DOTALL)
FORM: Final = re.compile(r'<section class="form">.*?</section>', re.DOTALL)
# At least so many figures and verdicts are compared with the API, so that a page which shows them in other parts fails.
SHOWN_DATA: Final = {
    "/": 40, "/fleet": 7, "/runs": 40, "/runs/run-billing-support-0": 130, "/runs/run-billing-support-0/traces": 30, "/compare": 30,
    "/benchmarks/support/kpis/support-pass": 160, "/inbox": 7, "/agents": 7, "/agents/billing": 11, "/benchmarks": 7,
    "/benchmarks/support": 12, "/alerts/rule-1": 14, "/incidents/alert-0": 39, "/alerts/events/alert-0": 45,
    "/benchmarks/support/power": 7, "/daily-summary": 3, "/schedules/nightly": 39, "/system": 10, "/providers": 50,
}  # fmt: skip
pytestmark = pytest.mark.xdist_group("every page")


class Visit(NamedTuple):
    """A page of the browser, what it was loaded from, and what went wrong on it."""

    page: Page
    path: str
    is_empty: bool
    response: Response
    html: str
    problems: list[str]


@pytest.fixture(scope="module", autouse=True)
def short_lists() -> Iterator[None]:
    """Further rows of a list are like the first ones, and axe looks at each of their elements."""
    with pytest.MonkeyPatch.context() as patch:
        shorten_lists(patch, ROWS_OF_LIST)
        yield


@pytest.fixture(scope="module")
def tab(module_site: Site) -> Iterator[Page]:
    page = module_site.open("/")

    def note_dialog(dialog: Dialog) -> None:
        """No page opens one by itself: a script in a name would."""
        module_site.problems.append(dialog.message)
        dialog.dismiss()

    page.on("dialog", note_dialog)
    yield page
    module_site.close()


# First, because the database has no rows yet.
@pytest.mark.parametrize("path", PATHS_WITHOUT_DATA)
def test_page__without_data_names_the_next_step(path: str, module_site: Site) -> None:
    """Criterion 5; a form that nothing can be chosen in leads to the lists of its choices."""
    response = module_site.service.client.get(path, headers={"Accept": "text/html"})
    assert response.status_code == HTTPStatus.OK
    assert_no_inline_code(response.text, response.headers)
    if path == "/new/schedule":
        [form] = FORM.findall(response.text)
        assert {"/benchmarks", "/agents"} <= {*re.findall(r'href="([^"]+)"', form)}
    if is_form(path):
        return
    if path in NEVER_EMPTY:
        assert FIRST_ROW.search(response.text)
        return
    first, *_ = EMPTY_STATE.findall(response.text)
    assert NEXT_STEP.search(first)


def assert_no_inline_code(html: str, headers: Mapping[str, str]) -> None:
    assert headers["content-security-policy"] == CONTENT_SECURITY_POLICY
    assert "unsafe-" not in CONTENT_SECURITY_POLICY
    assert not re.search(r"<script(?![^>]* src=)|<style|\sstyle=|\son[a-z]+=", html)
    # The policy forbids inline code: both scripts are files.
    assert re.findall(r"<script[^>]*>([^<]*)</script>", html).count("") == 2


@pytest.fixture(scope="module", params=VISITS, ids="-".join)
def visit(request: pytest.FixtureRequest, tab: Page, module_site: Site) -> Visit:
    content, path = request.param
    if content == "data":
        write_rows_once(module_site)
    module_site.problems.clear()
    tab.set_viewport_size(WIDE)
    tab.emulate_media(color_scheme="light")
    response = tab.goto(f"{module_site.url}{path}", wait_until="load")
    assert response is not None
    return Visit(
        page=tab,
        path=path,
        is_empty=content == "empty",
        response=response,
        html=response.text(),
        problems=module_site.problems,
    )


def write_rows_once(site: Site) -> None:
    with site.service.resources.db.begin() as session:
        if session.get(Agent, EXAMPLES["agentId"]) is None:
            write_hostile_pages(session)


def test_page__is_answered_without_inline_script_style_or_handler(visit: Visit) -> None:
    """Criteria 3 and 4."""
    assert visit.response.status == (404 if "/no-such-" in visit.path else 200)
    assert_no_inline_code(visit.html, visit.response.headers)


def test_hostile_names__are_on_most_pages(module_site: Site) -> None:
    """Criterion 29: pages without any hostile name would prove nothing."""
    write_rows_once(module_site)
    client, headers = module_site.service.client, {"Accept": "text/html"}
    texts = (client.get(path, headers=headers).text for path in page_paths())
    marked = (text for text in texts if MARKED_DIRECTION in text)
    # The other pages need not be read then.
    assert len([*islice(marked, 31)]) == 31


def test_page__hostile_names_are_text_and_values_are_explained_and_localized(visit: Visit) -> None:
    """Criterion 29: names of 200 characters with markup and an override of the reading direction are text. 6.4: "–" with
    its reason; times as `<time datetime>`. 6.7: each number is written through `Intl`, a negative one with "−" and none
    with an exponent."""
    texts = visit.page.evaluate(TEXTS)
    if not visit.is_empty:
        assert texts["scripts"] == 0
        assert DIRECTION not in texts["text"]
    assert texts["unexplained"] == []
    assert texts["times"] == texts["explainedTimes"]
    assert [text for text in texts["foreignNumbers"] if not VERSIONS.search(text)] == []


def test_page__is_accessible_in_both_themes(visit: Visit) -> None:
    """Criterion 31: axe finds nothing, with closed parts opened, in each state with data. Without data a page has the same
    parts, and that of `/runs?text=nothing-matches`. The sizes of links and buttons are of the style sheet: the other tests
    of a page check them, and `make prove` on every page."""
    if not visit.is_empty:
        assert find_violations(visit.page, has_sizes=False) == []


@pytest.mark.prove
def test_page__every_text_is_accessible_in_both_themes(visit: Visit) -> None:
    """Criterion 31, also without data, and for each further text of a style that was found right."""
    assert find_violations(visit.page) == []
    assert find_color_violations(visit.page) == []


def test_page__fits_a_narrow_screen(visit: Visit) -> None:
    """Criteria 34 and 35: the page does not scroll sideways, a wide table scrolls inside its box, and a title of a
    hostile name leaves room below."""
    visit.page.set_viewport_size(NARROW)
    narrow = visit.page.evaluate(MEASURES, NARROW["width"])
    [title_height] = narrow["titleHeights"]
    assert 0 < title_height <= MAX_TITLE_HEIGHT_PX
    assert narrow["width"] <= NARROW["width"]
    assert narrow["cutTables"] == 0
    assert min(narrow["chartTexts"], default=MIN_CHART_PX) >= MIN_CHART_PX
    # A zoom of 200 % halves the width of a screen in its pixels.
    visit.page.set_viewport_size(ZOOMED)
    assert visit.page.evaluate("document.documentElement.scrollWidth") <= ZOOMED["width"]


def test_page__has_no_error_and_asks_no_other_host(visit: Visit) -> None:
    """Criteria 2 and 3. The last checks of the browser give it time to send more."""
    visit.page.wait_for_load_state("networkidle")
    assert visit.problems == []


def test_page__json_twin_has_its_data(visit: Visit, module_site: Site, tmp_path: Path) -> None:
    """Criterion 39: the links to JSON and the command to copy give what the page shows: its rows, and the figures, times
    and verdicts of each part."""
    if is_form(visit.path) or visit.response.status != HTTPStatus.OK:
        return
    command = str(visit.page.locator("[data-copy^=curl]").get_attribute("data-copy"))
    documents = run_command(command, key=module_site.key, home=tmp_path)
    page_text = unquote(unescape(visit.html)).replace(MARKED_DIRECTION, DIRECTION)
    names = list_names(documents[0])
    assert [name for name in names if name not in page_text] == []
    parts = read_shown_parts(visit.page)
    data = ApiData(documents, count_rows(visit.page))
    missing = {part.name[:100]: texts for part in parts if (texts := data.missing(part))}
    assert missing == {}
    least = (
        0
        if visit.is_empty or visit.path in STATES
        else SHOWN_DATA.get(visit.path.partition("?")[0], 0)
    )
    assert sum(map(data.count, parts)) >= least
    twins = re.findall(
        r'<link rel="alternate" type="application/json" (?:title="[^"]+" )?href="([^"]+)"',
        visit.html,
    )
    # The link and the command have the same addresses: their answers are those of the documents.
    reads, *questions = command.split(" && ")
    addresses = [word for word in shlex.split(reads) if word.startswith(module_site.url)]
    assert [f"{module_site.url}{unescape(twin)}" for twin in twins] == addresses
    assert len(documents) == len(addresses) + len(questions)


def run_command(command: str, *, key: str, home: Path) -> list[Any]:
    """The documents that a copied command prints, one for each of its addresses."""
    (home / ".curlrc").write_text("silent\nshow-error\nfail-with-body\nnoproxy = *\n")
    environment = {"PATH": os.environ["PATH"], "MOSAICO_API_KEY": key, "HOME": str(home)}
    done = subprocess.run(
        ["sh", "-c", command], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    documents, rest = [], done.stdout.strip()
    while rest:
        document, end = json.JSONDecoder().raw_decode(rest)
        documents.append(document)
        rest = rest[end:].lstrip()
    return documents
