"""The page Help: what each page is for, every verdict, key and address."""

import re

from mosaico.core.web.static_files import FOLDER
from mosaico.statistics.verdict_rules import Verdict
from tests.support.page_reads import HTML, read_page
from tests.support.service import Service


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
