"""`make demo`: two benchmark runs, from traces to an alert that somebody is told of.

Starts the service on the usual data folder, registers an agent, a benchmark and an alert rule,
uploads the recorded traces of two nights, runs the benchmark on each, and prints what changed and
who was told. Everything it made stays, so that `make serve` shows it.
"""

import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager

from app.core.settings import Settings, load_settings
from demo.tour import Api, DemoRun, fail, show

STOPS_WITHIN_S = 30.0


def main() -> None:
    settings = load_settings()
    if _is_taken(settings.port):
        fail(
            f"port {settings.port} is in use: stop what runs there, or choose another:"
            " MOSAICO_PORT=8090 make demo"
        )
    with _service() as base_url, closing(Api(base_url, _admin_key(settings))) as api:
        print(f"The service runs at {base_url}\n")
        _print_next_steps(settings, base_url, show(api))


def _print_next_steps(settings: Settings, base_url: str, night: DemoRun) -> None:
    key = "as set in MOSAICO_ADMIN_KEY" if settings.admin_key else settings.data_dir / "admin.key"
    print(
        f"""
Look around, on the same data:
  make serve            start the service again
  Swagger UI            {base_url}/swagger-ui.html
  admin key             {key}   (for Authorize)
  this run, by trace    GET {night.run["results"]}
  its alert             GET /api/v1/alerts?runId={night.run["id"]}"""
    )


@contextmanager
def _service() -> Iterator[str]:
    """The service as `make serve` starts it; stopped, and waited for, at the end."""
    process = subprocess.Popen(
        [sys.executable, "-m", "app.cli", "serve"], stderr=subprocess.PIPE, text=True
    )
    try:
        yield _wait_for_address(process)
    finally:
        process.terminate()
        process.wait(STOPS_WITHIN_S)


def _wait_for_address(process: "subprocess.Popen[str]") -> str:
    """The line with the address is the service's word that it is ready."""
    assert process.stderr is not None
    output_lines = []
    for line in process.stderr:
        output_lines.append(line)
        if line.startswith("MOSAICO runs at "):
            # What it says later must not fill the pipe.
            threading.Thread(target=process.stderr.read, daemon=True).start()
            return line.removeprefix("MOSAICO runs at ").strip()
    fail("the service did not start:\n" + "".join(output_lines))
    raise AssertionError


def _admin_key(settings: Settings) -> str:
    if settings.admin_key is not None:
        return settings.admin_key.get_secret_value()
    return (settings.data_dir / "admin.key").read_text().strip()


def _is_taken(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


if __name__ == "__main__":
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    main()
