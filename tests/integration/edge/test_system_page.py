"""The page of the system: one verdict from everything that the service needs."""

import re
from html import unescape

from tests.support.every_page import write_every_page
from tests.support.page_reads import read_page
from tests.support.service import Service


def test_system__lists_what_is_wrong_first_with_its_remedy(service: Service) -> None:
    with service.resources.db.begin() as session:
        write_every_page(session)
    page = unescape(read_page(service, "/system"))
    system = service.get("/overview/system")
    failed = [check["name"] for check in system["checks"] if not check["ok"]]
    assert {"workers", "scheduler"} <= set(failed)
    assert not system["isHealthy"]
    rows = re.findall(r'<tr><th scope="row" class="name">([^<]+)</th>', page)
    assert rows[: len(failed)] == failed
    assert f"{len(failed)} checks failed" in page
    assert "<code>mosaico worker</code>" in page
