"""Runs the commands that a page of the documentation shows."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.support.processes import forked_programs
from tests.support.service import Service
from tests.support.waiting import LIVENESS_S


def command_environment(service: Service, folder: Path) -> dict[str, str]:
    """The environment of a reader who uses the service, with its key and address."""
    key = service.client.headers["Authorization"].removeprefix("Bearer ")
    url = str(service.client.base_url).rstrip("/")
    return {
        "PATH": f"{forked_programs()}:{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
        "MOSAICO_URL": url,
        "MOSAICO_API_KEY": key,
        "KEY": key,
        "API": f"{url}/api/v1",
        "MOSAICO_DATA_DIR": str(folder),
    }


def run_command(
    command: str, environment: Mapping[str, str], folder: Path
) -> subprocess.CompletedProcess[str]:
    """Run a command of a page in a folder."""
    return subprocess.run(
        ["bash", "-c", command],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=LIVENESS_S,
        check=False,
    )
