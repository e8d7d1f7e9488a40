"""An agent behind HTTP that is asked for runs."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class HttpAgent:
    """Gets requests; `statuses` are those of its first answers, before `status`."""

    url: str = ""
    status: int = 202
    statuses: list[int] = field(default_factory=list)
    requests: list[tuple[dict[str, str], bytes]] = field(default_factory=list)


@contextmanager
def running_http_agent() -> Iterator[HttpAgent]:
    agent = HttpAgent()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            headers = {name.lower(): text for name, text in self.headers.items()}
            agent.requests.append((headers, body))
            self.send_response(agent.statuses.pop(0) if agent.statuses else agent.status)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        agent.url = f"http://127.0.0.1:{server.server_port}/run"
        yield agent
        server.shutdown()
