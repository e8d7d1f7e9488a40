"""The pages of trigger events: filters by status and type, and one event with its payload and its runs."""

from datetime import UTC, datetime, timedelta
from typing import Final

import pytest

from mosaico.triggers.models import TriggerEvent
from tests.support.every_page import RUN, write_every_page
from tests.support.service import Service

HTML: Final = {"Accept": "text/html"}
EVENTS: Final = {
    "started": ("webhook", "STARTED", None),
    "ignored": ("prompt-version", "IGNORED", "No benchmark has a trigger for this prompt."),
    "waiting": ("agent-updated", "WAITING", None),
}


@pytest.fixture(scope="module")
def events(module_service: Service) -> Service:
    with module_service.resources.db.begin() as session:
        write_every_page(session)
        session.add_all(
            TriggerEvent(
                id=event_id, type=kind, subject="billing", details={"prompt": {"name": "<b>refund</b>"}},
                status=status, reason=reason, benchmark_ids=["support"], occurrences=3,
                run_ids=[RUN] if status == "STARTED" else [],
                received_at=datetime.now(UTC) - timedelta(minutes=number),
            )
            for number, (event_id, (kind, status, reason)) in enumerate(EVENTS.items())
        )  # fmt: skip
    return module_service


def read_page(service: Service, path: str) -> str:
    response = service.client.get(path, headers=HTML)
    assert response.status_code == 200, response.text
    return response.text


def test_trigger_event__has_its_payload_its_runs_and_its_reason(events: Service) -> None:
    page = read_page(events, "/triggers")
    assert 'href="/triggers/ignored"' in page
    started = read_page(events, "/triggers/started")
    assert f'href="/runs/{RUN}"' in started
    assert 'href="/benchmarks/support">Support, nightly</a>' in started
    assert "2 later that were merged into it" in started
    # The payload is text, whatever it has.
    assert "&#34;name&#34;: &#34;&lt;b&gt;refund&lt;/b&gt;&#34;" in started
    ignored = read_page(events, "/triggers/ignored")
    assert EVENTS["ignored"][2] is not None
    assert str(EVENTS["ignored"][2]) in ignored
    assert "no run was started" in ignored
    assert events.client.get("/triggers/none", headers=HTML).status_code == 404
