"""`mosaico serve` waits for its API as long as the API makes progress."""

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from mosaico import serve
from mosaico.core.settings import Settings
from mosaico.serve import DidNotStart, ServiceProcess, StartProgress, wait_until_ready
from tests.support.serve import free_port

# Uses the processor longer than the API may be idle, then answers.
SLOW_API = """
import http.server, sys, time
while time.process_time() < 1.0:
    pass
class Ready(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Ready).serve_forever()
"""
IDLE_API = "import time; time.sleep(3600)"


@contextmanager
def started_api(program: str, port: int) -> Iterator[ServiceProcess]:
    api = ServiceProcess("api", {})
    api.process = subprocess.Popen([sys.executable, "-c", program, str(port)])
    try:
        yield api
    finally:
        api.process.kill()
        api.process.wait()


@pytest.fixture
def wait(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], bool]:
    def start_and_wait(program: str) -> bool:
        settings = Settings(host="127.0.0.1", port=free_port())
        with started_api(program, settings.port) as api:
            return wait_until_ready(settings, [api], threading.Event())

    monkeypatch.setattr(serve, "PROGRESS_CPU_S", 0.01)
    return start_and_wait


def test_wait_until_ready__api_that_computes_has_more_time(
    wait: Callable[[str], bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serve, "READY_S", 0.7)

    assert wait(SLOW_API)


def test_wait_until_ready__idle_api_is_given_up(
    wait: Callable[[str], bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serve, "READY_S", 0.5)

    with pytest.raises(DidNotStart, match=r"no progress for 0.5 s \(answer of /readyz: Connect"):
        wait(IDLE_API)


def test_start_progress__ends_when_the_processor_time_stands_still() -> None:
    progress = StartProgress(now_s=0)

    # Little for each minute, as on a machine with a load of 20.
    assert not any(progress.is_stalled(minute * 59, cpu_s=minute * 1.5) for minute in range(60))
    # 60 s are READY_S; 0.9 s are less than PROGRESS_CPU_S.
    assert not progress.is_stalled(59 * 59 + 60, cpu_s=59 * 1.5)
    assert progress.is_stalled(59 * 59 + 61, cpu_s=59 * 1.5 + 0.9)
