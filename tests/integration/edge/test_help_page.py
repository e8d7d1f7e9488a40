"""The page Help: what each page is for."""

import re
from html import unescape

from tests.support.every_page import is_form, page_paths_without_data
from tests.support.service import Service


def test_help__has_a_sentence_about_each_page_that_a_reader_opens_by_its_name(
    service: Service,
) -> None:
    html = unescape(service.client.get("/help", headers={"Accept": "text/html"}).text)
    sentences = dict(re.findall(r'<dt><a href="([^"]+)">[^<]+</a></dt><dd>([^<]+\.)</dd>', html))
    assert [path for path in page_paths_without_data() if not is_form(path)] == [
        path for path in page_paths_without_data() if path in sentences
    ]
    for path in sentences:
        page = service.client.get(path, headers={"Accept": "text/html"})
        assert page.status_code == 200, path
