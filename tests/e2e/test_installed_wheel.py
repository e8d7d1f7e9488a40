"""The wheel in a fresh environment without extras, started from a folder with foreign packages of our names."""

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

from app.core.harness_packages import MODULES
from app.postgres.server import EmbeddedPostgres
from tests.support.processes import LIVENESS_S, ROOT, Program

FOREIGN_PACKAGE = "raise SystemExit('a package of the current folder was executed')\n"

# Hides the packages of the extra `harness`, as if it were not installed.
HIDES_EXTRA = f"""
import sys

class WithoutExtra:
    def __init__(self, finder):
        self.finder = finder

    def find_spec(self, name, path=None, target=None):
        return None if name in {MODULES} else self.finder.find_spec(name, path, target)

    def __getattr__(self, name):
        return getattr(self.finder, name)

sys.meta_path[:] = map(WithoutExtra, sys.meta_path)
"""

# Building and starting need both processors: the group runs these tests one at a time.
pytestmark = pytest.mark.xdist_group("serve")


@pytest.fixture(scope="module")
def installed_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` folder of a fresh environment in which the wheel of this project is installed, without extras.

    The locked requirements come from the environment of the tests: a second installation would
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
    subprocess.run(build, check=True, timeout=LIVENESS_S)
    venv.create(folder / "venv", with_pip=False)
    python = folder / "venv" / "bin" / "python"
    [wheel] = folder.glob("mosaico-*.whl")
    install: list[str | Path] = [*pip, "--python", python, "install", *offline, wheel]
    subprocess.run(install, check=True, timeout=LIVENESS_S)
    [site_packages] = (folder / "venv" / "lib").glob("python*/site-packages")
    (site_packages / "locked_requirements.pth").write_text(sysconfig.get_path("purelib"))
    (site_packages / "sitecustomize.py").write_text(HIDES_EXTRA)
    return python.parent


@pytest.fixture
def foreign_folder(tmp_path: Path) -> Iterator[Path]:
    """A working directory that contains foreign packages named `app` and `mosaico`."""
    for name in ("app", "mosaico"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(FOREIGN_PACKAGE)
    yield tmp_path
    EmbeddedPostgres(tmp_path / "data").stop()


def test_wheel__contains_the_public_package_with_its_types(installed_wheel: Path) -> None:
    program = "import mosaico, pathlib; print(pathlib.Path(mosaico.__file__).parent)"
    done = subprocess.run(
        [installed_wheel / "python", "-P", "-c", program],
        capture_output=True, text=True, check=True, timeout=LIVENESS_S,
    )  # fmt: skip
    package = Path(done.stdout.strip())
    assert package.parent.name == "site-packages"
    assert (package / "py.typed").is_file()
    assert (package.parent / "app" / "py.typed").is_file()
    version = subprocess.run(
        [installed_wheel / "python", "-P", "-m", "mosaico", "--version"],
        capture_output=True, text=True, check=True, timeout=LIVENESS_S,
    )  # fmt: skip
    assert version.stdout.startswith("mosaico ")


@pytest.mark.parametrize(
    "command",
    [
        "bashkit-eval run tasks.jsonl --provider scripted --model script.jsonl",
        "bashkit-eval lint tasks.jsonl",
        "bashkit-eval replay result.json",
        "bashkit-eval rescore result.json",
        "ot-bench run bench.yaml",
        "mosaico score traces.jsonl --metrics LLM_JUDGE",
    ],
)
def test_program__without_the_extra_names_the_command_that_installs_it(
    installed_wheel: Path, tmp_path: Path, command: str
) -> None:
    (tmp_path / "traces.jsonl").write_text('{"traceId": "t-1", "output": "Rome"}\n')
    program, *arguments = command.split()
    done = subprocess.run(
        [installed_wheel / program, *arguments],
        cwd=tmp_path,
        env=os.environ | {"MOSAICO_LLM_BASE_URL": "http://127.0.0.1:9/v1"},
        capture_output=True, text=True, check=False, timeout=LIVENESS_S,
    )  # fmt: skip
    assert done.returncode == 2
    [line] = done.stderr.splitlines()
    assert f"`{installed_wheel / 'python'} -m pip install 'mosaico[harness]==" in line


def test_serve__from_a_folder_with_its_own_app_package_starts_every_process(
    installed_wheel: Path, foreign_folder: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    log_file = foreign_folder / "serve.log"
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("MOSAICO", "PYTHONPATH"))
    }
    settings = {"MOSAICO_DATA_DIR": str(foreign_folder / "data"), "MOSAICO_PORT": str(port)}
    with log_file.open("wb") as log:
        process = subprocess.Popen(
            [installed_wheel / "mosaico", "serve"],
            cwd=foreign_folder,
            env=inherited | settings,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        serve = Program(process, log_file)
        serve.wait_for_output(f"MOSAICO runs at http://127.0.0.1:{port}")
        health = httpx.get(
            f"http://127.0.0.1:{port}/readyz", trust_env=False, verify=False, timeout=LIVENESS_S
        )
        assert health.is_success
        process.send_signal(signal.SIGTERM)
        assert serve.wait_for_exit() == 0
        assert "was executed" not in serve.log
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(LIVENESS_S)
