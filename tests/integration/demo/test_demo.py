"""The demo tour and its webhook receiver against a real service."""

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime

import httpx
import pytest
from standardwebhooks.webhooks import Webhook as Reference

from app.comparison.change_text import describe_change
from app.kpis.verdict_types import ValueVerdict
from demo.receiver import ReceivedWebhook, is_signed, receiving
from demo.tour import Api, show
from tests.support.service import Service

SECRET = "whsec_" + "QUFB" * 8


@contextmanager
def working_api(service: Service) -> Iterator[Api]:
    """The service as the demo sees it, with somebody who does the jobs."""
    done = threading.Event()

    def work() -> None:
        while not done.wait(0.05):
            service.work()

    worker = threading.Thread(target=work)
    worker.start()
    key = service.client.headers["Authorization"].removeprefix("Bearer ")
    try:
        with closing(Api(str(service.client.base_url), key)) as api:
            yield api
    finally:
        done.set()
        worker.join()


def test_demo_tour__second_run_fires_alert_and_signed_webhook(
    service: Service, capsys: pytest.CaptureFixture[str]
) -> None:
    with working_api(service) as api:
        last_run = show(api)
    output = capsys.readouterr().out
    assert (
        'Alert rule "answer quality falls" is FIRING since run-2:\n  answer quality fell by'
        in output
    )
    assert "CRITICAL, unread: Pelican handbook agent: answer quality 0." in output
    assert " (Handbook questions)" in output
    assert '"alert.firing" was received at http://127.0.0.1:' in output
    assert "its signature is valid" in output
    # The demo prints the change that the run has stored, as reports and messages do.
    rows = service.get(f"/benchmark-runs/{last_run.run['id']}/kpis")["items"]
    quality = ValueVerdict.model_validate(
        next(row["verdict"] for row in rows if row["name"] == "answer quality")
    )
    text = describe_change(quality, quality.scale)
    assert text is not None
    assert f"{text.before:>8}{text.after:>8}  ▼ {text.change}" in output
    [alert] = service.list_items("/alerts", state="FIRING")
    assert alert["runId"] == last_run.run["id"]
    assert service.get("/alert-configs/demo-rule")["channels"] == ["IN_APP"]


def post_webhook(url: str, headers: dict[str, str]) -> None:
    assert httpx.post(url, content=b'{"type": "test"}', headers=headers).status_code == 204


@pytest.mark.parametrize(
    ("secret", "age_s", "is_ours"),
    [(SECRET, 0, True), ("whsec_" + "QkJC" * 8, 0, False), (SECRET, 3600, False)],
)
def test_demo_receiver__accepts_reference_signatures(
    secret: str, age_s: int, *, is_ours: bool
) -> None:
    at = datetime.fromtimestamp(int(datetime.now(UTC).timestamp()) - age_s, UTC)
    signature = Reference(secret).sign("m-1", at, '{"type": "test"}')
    headers = {
        "webhook-id": "m-1",
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": f"v1,bm90IG91cnM= {signature}",
    }
    with receiving() as receiver:
        post_webhook(receiver.url, headers)
        call = receiver.next_call()
    assert call is not None
    assert call.document() == {"type": "test"}
    assert is_signed(SECRET, call) is is_ours


def test_demo_receiver__modified_request_is_rejected() -> None:
    at = datetime.now(UTC)
    signature = Reference(SECRET).sign("m-1", at, "{}")
    headers = {
        "webhook-id": "m-1",
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": signature,
    }
    assert is_signed(SECRET, ReceivedWebhook(headers, b"{}"))
    assert not is_signed(SECRET, ReceivedWebhook(headers, b"{ }"))
    assert not is_signed(SECRET, ReceivedWebhook({**headers, "webhook-id": "m-2"}, b"{}"))
    assert not is_signed(SECRET, ReceivedWebhook({}, b"{}"))
