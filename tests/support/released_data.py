"""The data folder of a release, made by its wheel, and what the API said of it: `python -m tests.support.released_data`.

Run it once for each release, and commit the two files. The demo fills the folder: two runs, their verdicts and an alert.
"""

import json
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any, Final

import httpx

from tests.support.built_wheel import install_wheel
from tests.support.processes import LIVENESS_S, ROOT, until
from tests.support.serve import free_port, read_admin_key

RELEASES: Final = ROOT / "tests" / "e2e" / "releases"
# The data that a user would miss: lists of the API.
LISTS: Final = (
    "agents", "benchmarks", "alert-configs", "alerts", "endpoints", "local-datasets", "benchmark-runs", "kpi-history",
    "incidents", "notifications", "deliveries",
)  # fmt: skip


def stored_data(base_url: str, key: str) -> dict[str, Any]:
    """What the API of a running service says of its data: lists by their names, the newest 100 items of each."""
    with httpx.Client(
        base_url=f"{base_url}/api/v1", headers={"Authorization": f"Bearer {key}"}, trust_env=False
    ) as client:
        lists = {
            name: client.get(f"/{name}", params={"limit": 100}).raise_for_status().json()["items"]
            for name in LISTS
        }
        results = client.get(f"/benchmark-runs/{lists['benchmark-runs'][0]['id']}/results")
        return {**lists, "results": results.raise_for_status().json()["items"]}


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        python = install_wheel(folder) / "python"
        [wheel] = folder.glob("mosaico-*.whl")
        version = wheel.name.split("-")[1]
        data_dir, port = folder / "data", free_port()
        environment = {"MOSAICO_DATA_DIR": str(data_dir), "MOSAICO_PORT": str(port)}
        subprocess.run(
            [python, "-m", "demo"],
            cwd=ROOT,
            env=os.environ | environment,
            check=True,
            timeout=LIVENESS_S,
        )
        serve = subprocess.Popen(
            [python, "-P", "-m", "mosaico", "serve"], env=os.environ | environment
        )
        try:
            base_url = f"http://127.0.0.1:{port}"
            until(lambda: _is_ready(base_url))
            recorded = stored_data(base_url, read_admin_key(data_dir))
        finally:
            serve.terminate()
            serve.wait(LIVENESS_S)
        (data_dir / "demo.html").unlink()
        # The command of the server, with the paths of this machine; each start writes it again.
        (data_dir / "postgres" / "data" / "postmaster.opts").unlink()
        RELEASES.mkdir(exist_ok=True)
        (RELEASES / f"{version}.json").write_text(json.dumps(recorded) + "\n")
        with tarfile.open(RELEASES / f"{version}.tar.xz", "w:xz", preset=9) as archive:
            archive.add(data_dir, "data")
    sys.stdout.write(f"wrote {RELEASES / version}.tar.xz and .json\n")


def _is_ready(base_url: str) -> bool:
    try:
        return httpx.get(f"{base_url}/readyz", trust_env=False).is_success
    except httpx.TransportError:
        return False


if __name__ == "__main__":
    main()
