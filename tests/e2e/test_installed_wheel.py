"""The wheel in a fresh environment without extras, started from a folder with foreign packages of our names."""

import os
import re
import signal
import subprocess
import tomllib
import zipfile
from collections.abc import Iterator
from itertools import chain
from pathlib import Path, PurePosixPath

import httpx
import pytest

from mosaico.core.extras import MODULES, Extra
from mosaico.core.web.static_files import STYLE_SHEETS
from mosaico.postgres.server import EmbeddedPostgres
from tests.support.built_wheel import install_wheel
from tests.support.import_files import zstandard_zip
from tests.support.processes import LIVENESS_S, ROOT, Program
from tests.support.serve import free_port

FOREIGN_PACKAGE = "raise SystemExit('a package of the current folder was executed')\n"
# The files of a project of a user, as every FastAPI project has them.
PROJECT = {
    "app/__init__.py": "",
    "app/core.py": "ANSWER = 'Rome'\n",
    "app/main.py": """
import mosaico
from fastapi import FastAPI

from app.core import ANSWER

api = FastAPI()


@api.get("/answer")
def answer() -> str:
    return ANSWER
""",
    "migrations/env.py": "raise SystemExit('the migrations of the project were executed')\n",
    "alembic.ini": "[alembic]\nscript_location = migrations\n",
    "evaluate.py": """
import mosaico
from app.core import ANSWER

rows = [{"item": "a", "expected": "Rome", "output": ANSWER}]
print(mosaico.score(rows, metrics=["ACCURACY"])["ACCURACY"])
""",
    "test_capitals.py": """
import pytest
from app.core import ANSWER


ITEMS = [{"id": str(number), "input": "?", "expected": "Rome"} for number in range(20)]


@pytest.mark.mosaico(items=ITEMS, metrics=["ACCURACY"])
def test_capitals(item):
    return ANSWER
""",
}

PYTEST_TWICE = """
import pytest

assert pytest.main(["--rootdir", ".", "--mosaico-update-baseline"]) == 0
print("the second run")
assert pytest.main(["--rootdir", "."]) == 0
"""
# The packages of every extra, and pip, which an environment of `uv tool` does not have.
HIDDEN = sorted({"pip", *chain(*MODULES.values())})
# As if none of them were installed.
HIDES_EXTRAS = f"""
import sys

class WithoutExtras:
    def __init__(self, finder):
        self.finder = finder

    def find_spec(self, name, path=None, target=None):
        return None if name in {HIDDEN} else self.finder.find_spec(name, path, target)

    def __getattr__(self, name):
        return getattr(self.finder, name)

sys.meta_path[:] = map(WithoutExtras, sys.meta_path)
"""

VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
PAGE_FILES = {"icon.svg", "theme.js", "app.js", *STYLE_SHEETS}
# Building and starting need both processors: the group runs these tests one at a time.
pytestmark = pytest.mark.xdist_group("serve")


@pytest.fixture(scope="module")
def installed_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` folder of a fresh environment in which the wheel of this project is installed, without extras."""
    binaries = install_wheel(tmp_path_factory.mktemp("wheel"))
    [site_packages] = (binaries.parent / "lib").glob("python*/site-packages")
    (site_packages / "sitecustomize.py").write_text(HIDES_EXTRAS)
    return binaries


@pytest.fixture
def foreign_folder(tmp_path: Path) -> Iterator[Path]:
    """A project whose packages `app` and `mosaico`, and a module of a standard name, must not be executed."""
    for name in ("migrations/env.py", "alembic.ini"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(PROJECT[name])
    (tmp_path / "queue.py").write_text(FOREIGN_PACKAGE)
    for name in ("app", "mosaico"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(FOREIGN_PACKAGE)
    yield tmp_path
    EmbeddedPostgres(tmp_path / "data").stop()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with a package `app`, migrations and a configuration of Alembic of its own."""
    for name, text in PROJECT.items():
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    return tmp_path


def run_in(folder: Path, *command: str | Path, **environment: str) -> str:
    """Run a command in a folder; its output. It must succeed."""
    done = subprocess.run(
        command, cwd=folder, env=os.environ | environment,
        capture_output=True, text=True, check=False, timeout=LIVENESS_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_wheel__works_in_a_project_with_its_own_app(installed_wheel: Path, project: Path) -> None:
    python = installed_wheel / "python"
    assert run_in(project, python, "evaluate.py").strip() == "1.0"
    # In one process: the plugins of the other tools here take longer to import than the tests.
    update, compare = run_in(project, python, "-c", PYTEST_TWICE).split("the second run")
    assert "1 passed" in update
    assert "test_capitals.py::test_capitals: PASS" in compare


def test_wheel__uvicorn_serves_the_app_of_the_project(installed_wheel: Path, project: Path) -> None:
    log_file = project / "uvicorn.log"
    with log_file.open("wb") as log:
        process = subprocess.Popen(
            [installed_wheel / "python", "-m", "uvicorn", "app.main:api", "--port", "0"],
            cwd=project,
            stdout=log,
            stderr=log,
        )
    try:
        server = Program(process, log_file)
        server.wait_for_output("Uvicorn running on")
        [address] = re.findall(r"running on (http://\S+)", server.log)
        answer = httpx.get(f"{address}/answer", trust_env=False, verify=False, timeout=LIVENESS_S)
        assert answer.json() == "Rome"
    finally:
        process.kill()
        process.wait(LIVENESS_S)


def test_wheel__contains_the_public_package_with_its_types(installed_wheel: Path) -> None:
    program = "import mosaico, pathlib; print(pathlib.Path(mosaico.__file__).parent)"
    done = subprocess.run(
        # -P leaves out the current folder.
        [installed_wheel / "python", "-P", "-c", program],
        capture_output=True, text=True, check=True, timeout=LIVENESS_S,
    )  # fmt: skip
    package = Path(done.stdout.strip())
    assert package.parent.name == "site-packages"
    assert (package / "py.typed").is_file()


@pytest.mark.parametrize("program", ["mosaico", "ot-bench", "bashkit-eval"])
def test_program__prints_the_version_of_the_project(installed_wheel: Path, program: str) -> None:
    words = run_in(installed_wheel, installed_wheel / program, "--version").replace(",", "").split()
    assert words[words.index("mosaico") + 1] == VERSION
    assert program in run_in(installed_wheel, installed_wheel / program, "--help")


@pytest.mark.parametrize(
    ("command", "extra"),
    [
        ("bashkit-eval run tasks.jsonl --provider scripted --model script.jsonl", "harness"),
        ("ot-bench run bench.yaml", "harness"),
        ("mosaico score traces.jsonl --metrics LLM_JUDGE", "models"),
        ("mosaico mcp", "mcp"),
        ("mosaico score table.parquet", "parquet"),
        ("mosaico score table.xlsx", "xlsx"),
        ("mosaico score log.eval", "inspect"),
    ],
)
def test_program__without_an_extra_names_the_command_that_installs_it(
    installed_wheel: Path, tmp_path: Path, command: str, extra: Extra
) -> None:
    (tmp_path / "traces.jsonl").write_text('{"traceId": "t-1", "output": "Rome"}\n')
    (tmp_path / "table.parquet").write_bytes(b"PAR1....PAR1")
    with zipfile.ZipFile(tmp_path / "table.xlsx", "w") as archive:
        archive.writestr("xl/workbook.xml", "<workbook/>")
    log = {"header.json": b'{"version": 2, "eval": {}}', "samples/1_epoch_1.json": b"{}"}
    (tmp_path / "log.eval").write_bytes(zstandard_zip(log))
    program, *arguments = command.split()
    done = subprocess.run(
        [installed_wheel / program, *arguments],
        cwd=tmp_path,
        env=os.environ | {"MOSAICO_LLM_BASE_URL": "http://127.0.0.1:9/v1"},
        capture_output=True, text=True, check=False, timeout=LIVENESS_S,
    )  # fmt: skip
    assert done.returncode in {2, 65}
    [line] = done.stderr.splitlines()
    python = installed_wheel / "python"
    assert f"`uv pip install --python {python} 'mosaico[{extra}]==" in line


def assert_link_opens_morning(log: str) -> None:
    """The printed link logs in by itself; the page and each of its files are in the wheel."""
    [link] = re.findall(r"open +(http://\S+/login\?once=\S+)", log)
    with httpx.Client(
        base_url=link.partition("/login")[0],
        follow_redirects=True, trust_env=False, verify=False, timeout=LIVENESS_S,
        headers={"Accept": "text/html"},
    ) as browser:  # fmt: skip
        page = browser.get(link)
        assert page.url.path == "/"
        assert "No run has ended yet" in page.text
        assert 'name="key"' not in page.text
        assert f"MOSAICO {VERSION}" in page.text
        assert browser.get("/openapi.json").json()["info"]["version"] == VERSION
        system = browser.get("/api/v1/overview/system", headers={"Accept": "application/json"})
        assert system.json()["version"] == VERSION
        assert f'mosaico_build_info{{version="{VERSION}"}}' in browser.get("/metrics").text
        files = re.findall(r'(?:src|href)="(/static/[^"]+)"', page.text)
        assert {PurePosixPath(file).name for file in files} == PAGE_FILES
        for file in files:
            sent = browser.get(page.url.join(file))
            assert sent.is_success, file
            # The modules that the script imports.
            for module in re.findall(r'^import "\./([^"]+)"', sent.text, re.MULTILINE):
                assert browser.get(sent.url.join(module)).is_success, module


def test_serve__from_a_folder_with_its_own_app_package_starts_every_process(
    installed_wheel: Path, foreign_folder: Path
) -> None:
    """Criterion 1 of the pages, too: a fresh environment without network, and a link that logs in."""
    port = free_port()
    log_file = foreign_folder / "serve.log"
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("MOSAICO", "PYTHONPATH"))
    }
    asked_hosts = foreign_folder / "hosts"
    settings = {
        "MOSAICO_DATA_DIR": str(foreign_folder / "data"),
        "MOSAICO_PORT": str(port),
        "PYTHONPATH": str(ROOT / "tests/support/blocked_network"),
        "MOSAICO_TEST_HOSTS": str(asked_hosts),
    }
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
        assert_link_opens_morning(serve.log)
        assert not asked_hosts.exists(), asked_hosts.read_text()
        process.send_signal(signal.SIGTERM)
        assert serve.wait_for_exit() == 0
        assert "was executed" not in serve.log
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(LIVENESS_S)
