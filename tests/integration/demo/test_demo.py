"""The demo tour and its webhook receiver against a real service."""

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime

import httpx
import pytest
from standardwebhooks.webhooks import Webhook as Reference
from structlog.testing import capture_logs

from demo.receiver import ReceivedWebhook, is_signed, receiving
from demo.tour import Api, show
from tests.support.service import Service
from tests.support.texts import assert_names
from tests.support.waiting import LIVENESS_S

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
    # The worker of the test logs to the output of the demo.
    with capture_logs(), working_api(service) as api:
        last_run = show(api)
    output = capsys.readouterr().out
    first, second, verdict, items, alert_line, message, webhook = output.splitlines()
    for name, line in (("run-1", first), ("run-2", second)):
        assert line.startswith(f"{name}: 272 answers of the Pelican handbook agent measured in ")
        assert line.endswith(", VALID")
    # The mean over 270 common items and its interval, rounded.
    assert verdict == (
        "REGRESSED: answer quality 0.60 → 0.42 (−0.18, adjusted 95 % CI −0.25 to −0.12)"
    )
    assert_names(items, "118 of 272 items fell", "23 rose in ROUGE", "2 were not measured")
    assert alert_line.startswith('alert rule "answer quality falls" is FIRING; its worst trace is ')
    assert message.startswith("message: CRITICAL, Pelican handbook agent: answer quality 0.")
    assert webhook.startswith('webhook: "alert.firing" was received at http://127.0.0.1:')
    assert webhook.endswith("its signature is valid")
    [alert] = service.list_items("/alerts", state="FIRING")
    assert alert["runId"] == last_run.run["id"]
    assert service.get("/alert-configs/demo-rule")["channels"] == ["IN_APP"]


def post_webhook(url: str, headers: dict[str, str]) -> None:
    assert (
        httpx.post(
            url, content=b'{"type": "test"}', headers=headers, timeout=LIVENESS_S
        ).status_code
        == 204
    )


@pytest.mark.parametrize(
    ("secret", "age_s", "is_ours"),
    # The tolerance is five minutes.
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
        # While a secret is exchanged, a sender signs with both; the first is "not ours".
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
