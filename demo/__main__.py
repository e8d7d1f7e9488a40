"""`make demo`: two benchmark runs, from traces to an alert and its notification.

Starts the service on the default data directory, creates an agent, a benchmark and an alert rule,
uploads two files of recorded traces, runs the benchmark on each, and tells in ten lines what happened:
the verdict, the items, the alert and its message. All of it stays stored, so that `make serve` shows it.
"""

import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from demo.tour import Api, DemoRun, fail, show
from mosaico.core.settings import Settings, load_settings

STOPS_WITHIN_S = 30.0


def main() -> None:
    settings = load_settings()
    if _port_is_in_use(settings.port):
        fail(
            f"port {settings.port} is in use; stop the program that uses it, or choose another port:"
            " MOSAICO_PORT=8090 make demo"
        )
    with _service() as base_url, closing(Api(base_url, _admin_key(settings))) as api:
        second = show(api)
        page = _write_page(settings, api, second)
    print(f"page: {page.as_uri()}")
    print("next: `make serve` starts the service again, with Swagger UI at /swagger-ui.html")


def _write_page(settings: Settings, api: Api, demo_run: DemoRun) -> Path:
    """The report of a run, as a file that outlives the service of the demo."""
    page = settings.data_dir / "demo.html"
    page.write_text(api.get_text(f"/benchmark-runs/{demo_run.run['id']}/report"), encoding="utf-8")
    return page.resolve()


@contextmanager
def _service() -> Iterator[str]:
    """Start the service as `make serve` does; stop it and wait for its end."""
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "mosaico.cli", "serve"], stderr=subprocess.PIPE, text=True
    )
    try:
        yield _wait_for_address(process)
    finally:
        process.terminate()
        process.wait(STOPS_WITHIN_S)


def _wait_for_address(process: "subprocess.Popen[str]") -> str:
    """Wait for the line with the address, which means that the service is ready."""
    assert process.stderr is not None
    output_lines = []
    for line in process.stderr:
        output_lines.append(line)
        if line.startswith("MOSAICO runs at "):
            # Keep reading: a full pipe would block the service.
            threading.Thread(target=process.stderr.read, daemon=True).start()
            return line.removeprefix("MOSAICO runs at ").strip()
    fail("the service did not start:\n" + "".join(output_lines))
    raise AssertionError


def _admin_key(settings: Settings) -> str:
    if settings.admin_key is not None:
        return settings.admin_key.get_secret_value()
    return (settings.data_dir / "admin.key").read_text().strip()


def _port_is_in_use(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


if __name__ == "__main__":
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    main()
