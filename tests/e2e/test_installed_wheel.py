"""The wheel in a fresh environment, started from a folder that has a package `app` of its own."""

import os
import signal
import socket
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from app.postgres.server import EmbeddedPostgres
from tests.support.processes import ROOT, Program

FOREIGN_PACKAGE = "raise SystemExit('the package `app` of the current folder was executed')\n"

# Building and starting take two processors for some seconds: one at a time with the other trees.
pytestmark = pytest.mark.xdist_group("serve")


@pytest.fixture(scope="module")
def installed_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` folder of a fresh environment into which the wheel of this tree is installed.

    The locked requirements come from the environment of the tests: installing them again would
    take a minute and test the package index, not the wheel.
    """
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    offline = ["--no-index", "--no-deps"]
    build: list[str | Path] = [
        *pip,
        "wheel",
        *offline,
        "--no-build-isolation",
        "--wheel-dir",
        folder,
        ROOT,
    ]
    subprocess.run(build, check=True, timeout=120)
    venv.create(folder / "venv", with_pip=False)
    python = folder / "venv" / "bin" / "python"
    [wheel] = folder.glob("mosaico-*.whl")
    install: list[str | Path] = [*pip, "--python", python, "install", *offline, wheel]
    subprocess.run(install, check=True, timeout=120)
    [site_packages] = (folder / "venv" / "lib").glob("python*/site-packages")
    (site_packages / "locked_requirements.pth").write_text(sysconfig.get_path("purelib"))
    return python.parent


@pytest.fixture
def foreign_folder(tmp_path: Path) -> Iterator[Path]:
    """A current folder in which a stranger keeps a package named `app`."""
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "__init__.py").write_text(FOREIGN_PACKAGE)
    yield tmp_path
    EmbeddedPostgres(tmp_path / "data").stop()


def test_serve__from_a_folder_with_its_own_app_package_starts_every_process(
    installed_wheel: Path, foreign_folder: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    log_file = foreign_folder / "serve.log"
    unrelated = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("MOSAICO", "PYTHONPATH"))
    }
    settings = {"MOSAICO_DATA_DIR": str(foreign_folder / "data"), "MOSAICO_PORT": str(port)}
    with log_file.open("wb") as log:
        process = subprocess.Popen(
            [installed_wheel / "mosaico", "serve"],
            cwd=foreign_folder,
            env=unrelated | settings,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        serve = Program(process, log_file)
        serve.said(f"MOSAICO runs at http://127.0.0.1:{port}")
        health = httpx.get(f"http://127.0.0.1:{port}/readyz", trust_env=False)
        assert health.is_success
        process.send_signal(signal.SIGTERM)
        assert serve.ended() == 0
        assert "was executed" not in serve.log
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(30)
