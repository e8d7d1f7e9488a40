"""The site of the documentation: every page is on the map, every link leads somewhere, nothing comes from the network."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.docs_site import DOCS, MAP, ROOT, SOURCES, anchor, navigation

MAP_TEXT = (DOCS / MAP).read_text("utf-8")
MAX_LINES_OF_A_JOB = 200


def build(config: Path, site: Path) -> subprocess.CompletedProcess[str]:
    """Build the site; other hosts are refused, and written down beside it."""
    environment = os.environ | {
        "PYTHONPATH": str(ROOT / "tests/support/blocked_network"),
        "MOSAICO_TEST_HOSTS": str(asked_hosts(site)),
    }
    command = [sys.executable, "-m", "properdocs", "build", "--strict"]
    options = ["--config-file", str(config), "--site-dir", str(site)]
    return subprocess.run(
        [*command, *options], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )


def asked_hosts(site: Path) -> Path:
    return site.with_name("hosts.txt")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("built") / "site"
    built = build(ROOT / "properdocs.yml", folder)
    assert built.returncode == 0, built.stderr
    return folder


def test_site__has_a_page_for_each_file(site: Path) -> None:
    names = {path.relative_to(DOCS).with_suffix("") for path in DOCS.rglob("*.md")}
    pages = {name.with_name("index") if name.name == "README" else name for name in names}
    built = {path.relative_to(site).with_suffix("") for path in site.rglob("*.html")}
    assert pages <= built


def test_site__is_built_without_the_network(site: Path) -> None:
    assert not asked_hosts(site).exists()


def test_site__loads_nothing_from_the_network(site: Path) -> None:
    loading = re.compile(
        r"<(?:script|img|iframe)[^>]* src=[\"']?(?:https?:)?//|<link[^>]* href=[\"']?(?:https?:)?//"
    )
    assert [
        path.name for path in site.rglob("*.html") if loading.search(path.read_text("utf-8"))
    ] == []
    styles = [
        path
        for path in site.rglob("*.css")
        if re.search(r"(?:url\(|@import)[\"' ]*(?:https?:)?//", path.read_text("utf-8"))
    ]
    assert styles == []


def test_site__reads_lists_and_tables_as_the_forge_does(site: Path) -> None:
    """Its reader wants four spaces before an inner list, and no blank line within a table."""
    as_text = {}
    for path in site.rglob("*.html"):
        text = re.sub(r"<(pre|code)\b.*?</\1>", "", path.read_text("utf-8"), flags=re.DOTALL)
        as_text[path.name] = re.findall(r"^(?:<p>)?\s*[-|] .{0,60}", text, re.MULTILINE)
    assert {name: lines for name, lines in as_text.items() if lines} == {}


def test_site__has_the_sources_that_pages_link_to(site: Path) -> None:
    page = (site / "ci.html").read_text("utf-8")
    copy = f"{SOURCES}/ci/gitlab.yml.txt"
    assert f'href="{copy}"' in page
    assert (site / copy).read_text("utf-8") == (ROOT / "ci/gitlab.yml").read_text("utf-8")


def test_build__refuses_what_leads_nowhere(tmp_path: Path) -> None:
    pages = {
        "ci": "# CI\n\n[gone](gone.md) [gone](alerts.md#gone)\n",
        "alerts": "# Alerts\n",
        "new": "# A page that is not on the map\n",
    }
    docs = tmp_path / "docs"
    docs.mkdir()
    for name, text in pages.items():
        (docs / f"{name}.md").write_text(text, encoding="utf-8")
    settings = (ROOT / "properdocs.yml").read_text("utf-8")
    config = tmp_path / "properdocs.yml"
    hook = ROOT / "tests/support/docs_site.py"
    config.write_text(settings.replace("tests/support/docs_site.py", str(hook)), encoding="utf-8")
    built = build(config, tmp_path / "site")
    assert built.returncode == 1
    complaints = ("new.md", "'gone.md'", "'alerts.md#gone'")
    assert [complaint for complaint in complaints if complaint not in built.stderr] == []


def test_map__every_entry_has_a_line() -> None:
    lines = [line for line in MAP_TEXT.splitlines() if line.startswith("- ")]
    assert lines
    assert [
        line for line in lines if not re.fullmatch(r"- \[.+\]\([\w/-]+\.md\): .+\.", line)
    ] == []


def test_job_pages__are_short_and_begin_with_commands_then_a_picture() -> None:
    [jobs] = [section["Jobs"] for section in navigation(MAP_TEXT) if "Jobs" in section]
    assert len(jobs) >= 8
    for job in jobs:
        assert isinstance(job, dict)
        [page] = job.values()
        text = (DOCS / page).read_text("utf-8")
        beginning = text.split("\n## ")[0]
        assert re.search(r"^```(console|sh)$.*^!\[", beginning, re.DOTALL | re.MULTILINE), page
        assert len(text.splitlines()) <= MAX_LINES_OF_A_JOB, page
        assert "`test_" not in text, page


def test_navigation__has_the_sections_of_the_map() -> None:
    text = "# Documentation\n\n## Jobs\n\n- [Compare](a.md): two files.\n\n## Data\n\n- [Import](b/c.md): formats.\n"
    assert navigation(text) == [
        {"Map": "README.md"},
        {"Jobs": [{"Compare": "a.md"}]},
        {"Data": [{"Import": "b/c.md"}]},
    ]


def test_anchor__is_that_of_the_forge() -> None:
    headings = {
        "Could it be chance?": "could-it-be-chance",
        "Latency, cost, effort": "latency-cost-effort",
        "LLM_JUDGE": "llm_judge",
    }
    assert {heading: anchor(heading, "-") for heading in headings} == headings
