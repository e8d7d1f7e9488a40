"""Pages of uploads: files of several formats, and what is wrong with a file."""

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Site, error_of
from tests.support.import_files import recorded
from tests.support.service import ndjson, pair

pytestmark = pytest.mark.xdist_group("browser")


@pytest.fixture(scope="module")
def pelican(module_site: Site) -> Site:
    module_site.service.create_agent("pelican")
    return module_site


def upload(page: Page, name: str, content: bytes, dataset: str = "tides") -> None:
    """Send the form of a file that is open."""
    file: Any = {"name": name, "mimeType": "application/octet-stream", "buffer": content}
    page.get_by_label("File").set_input_files(file)
    page.get_by_label("Dataset", exact=True).fill(dataset)
    page.get_by_role("button", name="Upload", exact=True).click()


def test_dataset__file_is_uploaded_and_a_wrong_line_is_named(pelican: Site, site: Site) -> None:
    page = site.open("/datasets")
    upload(page, "night.jsonl", b'{"traceId": "t-1"}\nno trace\n')
    assert "line 2" in error_of(page, "file")
    upload(page, "night.jsonl", ndjson(pair(number) for number in range(3)))
    expect(page.locator("h1")).to_have_text("tides, night")
    expect(page.locator("tbody tr")).to_have_count(3)
    page.goto(f"{site.url}/datasets")
    expect(page.get_by_role("row", name="tides")).to_contain_text("night")
    [dataset] = site.service.get("/local-datasets")["items"]
    assert (dataset["name"], dataset["runName"], dataset["traceCount"]) == ("tides", "night", 3)
    page.on("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Delete").click()
    expect(page.get_by_text("No uploads yet")).to_be_visible()


def test_dataset__tables_and_results_of_other_tools_are_imported(
    pelican: Site, site: Site, tmp_path: Path
) -> None:
    """Files of `docs/import.md`: CSV with columns by name, Parquet, promptfoo; errors name their line."""
    page = site.open("/datasets")
    upload(page, "run.csv", b"id,question,reply,gold\n1,How high?,3 m,3 m\n2,How low?\n")
    assert "line 3: 2 cells, but the header has 4 columns" in error_of(page, "file")
    upload(page, "run.csv", b"id,note\n1,x\n")
    assert "output=COLUMN in the field Columns" in error_of(page, "file")
    page.get_by_label("Columns").fill("output=answer")
    upload(page, "run.csv", b"id,question,reply,gold\n1,How high?,3 m,4 m\n")
    assert "answer" in error_of(page, "columns")
    page.get_by_label("Columns").fill("input=question,output=reply,expected=gold")
    page.get_by_label("Agent", exact=True).select_option("pelican")
    upload(page, "run.csv", b"id,question,reply,gold\n1,How high?,3 m,4 m\n")
    expect(page.locator("h1")).to_have_text("tides, run")
    expect(page.locator("tbody tr")).to_have_text(re.compile(r"1\s*How high\?\s*4 m\s*3 m"))
    table = tmp_path / "table.parquet"
    pq.write_table(
        pa.table({"input": ["How high?"], "output": ["5 m"], "expected": ["5 m"]}), table
    )
    for name, content in (
        ("table.parquet", table.read_bytes()),
        ("promptfoo.json", recorded("promptfoo/results_trimmed.json").read_bytes()),
    ):
        page.goto(f"{site.url}/datasets")
        page.locator("summary", has_text="Upload a file").click()
        upload(page, name, content)
        expect(page.locator("h1")).to_have_text(f"tides, {name.partition('.')[0]}")
    uploads = {row["runName"]: row for row in site.service.get("/local-datasets")["items"]}
    assert uploads["run"]["agentId"] == "pelican"
    assert uploads["table"]["traceCount"] == 1
    assert uploads["promptfoo"]["traceCount"] > 1
