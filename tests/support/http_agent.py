"""An agent behind HTTP that is asked for runs."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.support.service import JSON


@dataclass
class HttpAgent:
    """Gets requests, and makes a run of each if it has `make`.

    `statuses` are those of its first answers, before `status`. It `promises` the run name that a repetition
    requests.
    """

    make: Callable[[JSON], None] | None = None
    url: str = ""
    status: int = 202
    statuses: list[int] = field(default_factory=list)
    promises: bool = True
    requests: list[tuple[dict[str, str], bytes]] = field(default_factory=list)

    def answer(self, headers: dict[str, str], body: bytes) -> dict[str, str]:
        self.requests.append((headers, body))
        # A remote experiment has another body than a repetition.
        request: JSON = json.loads(body).get("data", {})
        if self.make is not None and self.status < 300:
            self.make(request)
        return {"mosaico-run-name": request["runName"]} if self.promises else {}


@contextmanager
def running_http_agent() -> Iterator[HttpAgent]:
    agent = HttpAgent()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            headers = agent.answer({k.lower(): v for k, v in self.headers.items()}, body)
            self.send_response(agent.statuses.pop(0) if agent.statuses else agent.status)
            for name, header in headers.items():
                self.send_header(name, header)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        agent.url = f"http://127.0.0.1:{server.server_port}/run"
        yield agent
        server.shutdown()
