"""Figures of a KPI have the same digits in tables, headlines, intervals and the spoken texts of charts."""

import re
from html import unescape
from typing import Final

import pytest
from sqlalchemy import text

from tests.support.every_page import RUN, write_every_page
from tests.support.service import Service

TREND: Final = "/benchmarks/support/kpis/support-pass"
# A share with more digits than its interval supports, in every second run without a comparison.
LONG_SHARES: Final = """
    UPDATE kpi_history SET value = 0.712345 + run_seq % 7 / 81.0, interval_low = 0.654321, interval_high = 0.787654,
        verdict = CASE WHEN run_seq % 2 = 0 THEN verdict END
    WHERE kpi_id = 'support-pass'
"""
LONG_COSTS: Final = """
    UPDATE kpi_history SET value = 12345.678 + run_seq % 7, interval_low = 11111.11, interval_high = 13333.33, verdict = NULL
    WHERE kpi_id = 'support-cost'
"""


@pytest.fixture(scope="module")
def month(module_service: Service) -> Service:
    with module_service.resources.db.begin() as session:
        write_every_page(session)
        session.execute(text(LONG_SHARES))
        session.execute(text(LONG_COSTS))
        session.execute(text("UPDATE incidents SET baseline = 0.867891, value = 0.712345"))
    return module_service


def read_texts(service: Service, path: str) -> list[str]:
    """What a page shows and says: its texts, titles and labels."""
    response = service.client.get(path, headers={"Accept": "text/html"})
    assert response.status_code == 200, response.text
    main = response.text.partition("<main")[2].partition("</main>")[0]
    labels = re.findall(r'(?:aria-label|title)="([^"]*)"', main)
    return [
        unescape(part).strip() for part in [*re.split(r"<[^>]+>", main), *labels] if part.strip()
    ]


@pytest.mark.parametrize(
    "path",
    [
        "/", f"/runs/{RUN}", f"{TREND}?agent=billing", f"{TREND}?agent=billing&agent=sql", f"{TREND}?days=3660",
        "/agents/billing", "/benchmarks/support", "/incidents/alert-0", "/incidents", "/alerts/events/alert-0",
    ],
)  # fmt: skip
def test_share__has_three_decimals_wherever_a_page_shows_it(path: str, month: Service) -> None:
    # The costs of an answer are below 0.01.
    texts = read_texts(month, path)
    assert [part for part in texts if re.search(r"(?<![\w.])0\.(?!00)\d{4,}", part)] == []
    assert any(re.search(r"\b0\.\d{3}\b", part) for part in texts)
