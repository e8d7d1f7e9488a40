"""The page Help: what each page is for, every verdict, key and address."""

import re
from html import unescape

from mosaico.core.web.static_files import FOLDER
from mosaico.statistics.verdict_rules import Verdict
from tests.support.every_page import is_form, page_paths_without_data
from tests.support.page_reads import HTML, read_page
from tests.support.service import Service


def test_help__has_a_sentence_about_each_page_that_a_reader_opens_by_its_name(
    service: Service,
) -> None:
    html = unescape(read_page(service, "/help"))
    sentences = dict(re.findall(r'<dt><a href="([^"]+)">[^<]+</a></dt><dd>([^<]+\.)</dd>', html))
    assert [path for path in page_paths_without_data() if not is_form(path)] == [
        path for path in page_paths_without_data() if path in sentences
    ]
    for path in sentences:
        page = service.client.get(path, headers={"Accept": "text/html"})
        assert page.status_code == 200, path


def test_help__is_linked_and_names_every_verdict_key_and_address(service: Service) -> None:
    assert 'href="/help"' in read_page(service, "/")
    page = read_page(service, "/help")
    content = page[page.index("<main") : page.index("</main>")]
    script = (FOLDER / "keyboard.js").read_text()
    keys = set(re.findall(r'key === "(.)"', script)) | set("oasx")
    assert keys >= set("/?gjk")
    assert keys <= set(re.findall("<kbd>(.)</kbd>", content))
    words = {
        re.sub("[^a-z]+", " ", words).strip() for words in re.findall(r'badge ([a-z-]+)"', content)
    }
    assert words == {verdict.replace("_", " ").lower() for verdict in Verdict}
    for address in re.findall(r'href="(/[^"]+)"', content):
        assert service.client.get(address, headers=HTML).status_code == 200, address
