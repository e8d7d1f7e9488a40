"""The pytest plugin: evaluations as tests, run by a pytest of their own."""

import subprocess
import sys
import tomllib
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from mosaico.pytest_plugin import UPDATE

ROOT = Path(__file__).resolve().parents[3]

EVALUATION = """
import asyncio
import pytest

ITEMS = [{{"id": f"q{{n}}", "input": f"{{n}}", "expected": "yes"}} for n in range(20)]
WRONG = {wrong}

@pytest.fixture
def wrong_answer():
    return "no"

@pytest.mark.mosaico(items=ITEMS, metrics=["ACCURACY"])
def test_answers(item, wrong_answer):
    return wrong_answer if int(item.input) < WRONG else item.expected_output

@pytest.mark.mosaico(items=ITEMS, trials=2)
async def test_assertions(item):
    await asyncio.sleep(0)
    assert int(item.input) >= WRONG, "the answer is wrong"

def test_plain():
    assert True
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with evaluations and their baselines, of agents that are right once in a while."""
    write(tmp_path, wrong=1)
    assert run(tmp_path, UPDATE).returncode == 0
    return tmp_path


def write(folder: Path, *, wrong: int) -> None:
    (folder / "test_bot.py").write_text(EVALUATION.format(wrong=wrong))


def run(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    plugin = ["-p", "no:mosaico", "-p", "mosaico.pytest_plugin"]
    return subprocess.run(
        [sys.executable, "-m", "pytest", "--rootdir", ".", *plugin, *options],
        cwd=folder,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "HOME": str(folder)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_evaluation__result_is_the_verdict_against_the_baseline(folder: Path) -> None:
    names = {path.name for path in (folder / "mosaico_baselines").iterdir()}
    assert names == {"test_bot.test_answers.jsonl", "test_bot.test_assertions.jsonl"}
    same = run(folder)
    assert same.returncode == 0, same.stdout
    assert "test_bot.py::test_answers: PASS" in same.stdout

    write(folder, wrong=12)
    worse = run(folder, "--junit-xml", "tests.xml")
    assert worse.returncode == 1
    assert "2 failed, 1 passed" in worse.stdout
    assert "REGRESSION" in worse.stdout
    assert "ACCURACY: it is worse by at least 0.02" in worse.stdout
    assert "TASK_PASSED" in worse.stdout
    assert "details: mosaico compare " in worse.stdout
    # One test case for each test, as of every other test.
    cases = {case.get("name"): case for case in ET.parse(folder / "tests.xml").iter("testcase")}
    assert cases.keys() == {"test_answers", "test_assertions", "test_plain"}
    failed = {name for name, case in cases.items() if case.find("failure") is not None}
    assert failed == {"test_answers", "test_assertions"}


def test_evaluation__without_a_baseline_fails_with_the_command(tmp_path: Path) -> None:
    write(tmp_path, wrong=1)
    done = run(tmp_path, "-k", "test_answers")
    assert done.returncode == 1
    assert f"write it with `pytest {UPDATE}` and commit it" in done.stdout


def test_evaluation__wrong_marker_says_what_it_takes(tmp_path: Path) -> None:
    (tmp_path / "test_bot.py").write_text(
        "import pytest\n@pytest.mark.mosaico(items=[], trails=3)\ndef test_x(item):\n    pass\n"
    )
    assert "it has no option 'trails'" in run(tmp_path).stdout


def test_plugin__is_an_entry_point_and_costs_our_own_tests_nothing() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    entry_points = settings["project"]["entry-points"]["pytest11"]
    assert entry_points == {"mosaico": "mosaico.pytest_plugin"}
    assert "-p no:mosaico" in settings["tool"]["pytest"]["ini_options"]["addopts"]
    program = "import sys, pytest; before = {*sys.modules}; import mosaico.pytest_plugin;"
    program += " print(*{name.partition('.')[0] for name in {*sys.modules} - before})"
    loaded = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert not {*loaded.stdout.split()} & {"app", "pydantic", "numpy", "httpx"}
