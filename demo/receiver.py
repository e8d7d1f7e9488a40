"""A webhook receiver: accepts webhooks of the service and verifies their signatures."""

import base64
import hashlib
import hmac
import json
import queue
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

MAX_BYTES = 1_000_000
MAX_AGE_S = 300
ARRIVES_WITHIN_S = 60.0


class ReceivedWebhook(NamedTuple):
    """A received request whose signature is not verified yet."""

    headers: Mapping[str, str]
    body: bytes

    @property
    def id(self) -> str:
        return self.headers.get("webhook-id", "")

    def document(self) -> dict[str, Any]:
        return dict(json.loads(self.body))


class Receiver:
    """The URL of the receiver, and a queue of received webhooks."""

    def __init__(self, url: str, received: "queue.Queue[ReceivedWebhook]") -> None:
        self.url = url
        self._received = received

    def next_call(self, within_s: float = ARRIVES_WITHIN_S) -> ReceivedWebhook | None:
        """The oldest unread webhook; None if none arrives in time."""
        try:
            return self._received.get(timeout=within_s)
        except queue.Empty:
            return None


@contextmanager
def receiving() -> Iterator[Receiver]:
    """Run a receiver on a free local port until the block ends."""
    received: queue.Queue[ReceivedWebhook] = queue.Queue()

    class WebhookHandler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = min(int(self.headers.get("content-length", "0")), MAX_BYTES)
            headers = {name.lower(): value for name, value in self.headers.items()}
            received.put(ReceivedWebhook(headers, self.rfile.read(length)))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """No request log: the demo prints the webhook itself."""

    with ThreadingHTTPServer(("127.0.0.1", 0), WebhookHandler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield Receiver(f"http://127.0.0.1:{server.server_port}/mosaico", received)
        finally:
            server.shutdown()
            thread.join()


def is_signed(secret: str, call: ReceivedWebhook) -> bool:
    """Whether a webhook was signed with the secret in the last five minutes.

    Source: Standard Webhooks 1.0.
    """
    timestamp = call.headers.get("webhook-timestamp", "")
    if not timestamp.isdecimal() or abs(time.time() - int(timestamp)) > MAX_AGE_S:
        return False
    key = base64.b64decode(secret.removeprefix("whsec_"))
    digest = hmac.digest(key, f"{call.id}.{timestamp}.".encode() + call.body, hashlib.sha256)
    expected = "v1," + base64.b64encode(digest).decode()
    signatures = call.headers.get("webhook-signature", "").split(" ")
    return any(hmac.compare_digest(expected, signature) for signature in signatures)
