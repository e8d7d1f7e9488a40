"""Somebody's program that takes webhooks of the service, and checks that they are signed by it."""

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
    """A call as it came: nobody has said yet from whom it is."""

    headers: Mapping[str, str]
    body: bytes

    @property
    def id(self) -> str:
        return self.headers.get("webhook-id", "")

    def document(self) -> dict[str, Any]:
        return dict(json.loads(self.body))


class Receiver:
    """The address that calls go to, and the calls that came."""

    def __init__(self, url: str, came: "queue.Queue[ReceivedWebhook]") -> None:
        self.url = url
        self._came = came

    def next_call(self, within_s: float = ARRIVES_WITHIN_S) -> ReceivedWebhook | None:
        """The oldest call that nobody has asked for yet; None when none comes in time."""
        try:
            return self._came.get(timeout=within_s)
        except queue.Empty:
            return None


@contextmanager
def receiving() -> Iterator[Receiver]:
    """A receiver on a free port of this machine, until the block ends."""
    came: queue.Queue[ReceivedWebhook] = queue.Queue()

    class Takes(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = min(int(self.headers.get("content-length", "0")), MAX_BYTES)
            headers = {name.lower(): value for name, value in self.headers.items()}
            came.put(ReceivedWebhook(headers, self.rfile.read(length)))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """The demo tells what came."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Takes) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield Receiver(f"http://127.0.0.1:{server.server_port}/mosaico", came)
        finally:
            server.shutdown()
            thread.join()


def is_signed(secret: str, call: ReceivedWebhook) -> bool:
    """Whether a call is from whoever has the secret, and of the last five minutes.

    Source: Standard Webhooks 1.0.
    """
    at = call.headers.get("webhook-timestamp", "")
    if not at.isdecimal() or abs(time.time() - int(at)) > MAX_AGE_S:
        return False
    key = base64.b64decode(secret.removeprefix("whsec_"))
    digest = hmac.digest(key, f"{call.id}.{at}.".encode() + call.body, hashlib.sha256)
    expected = "v1," + base64.b64encode(digest).decode()
    offered = call.headers.get("webhook-signature", "").split(" ")
    return any(hmac.compare_digest(expected, signature) for signature in offered)
