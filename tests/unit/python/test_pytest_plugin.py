"""The pytest plugin: evaluations as tests, run by a pytest of their own."""

import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from mosaico.sdk.pytest_plugin import UPDATE
from tests.support.inner_pytest import run_inner_pytest
from tests.support.waiting import LIVENESS_S

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


Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Run:
    """Run pytest in this process: exit code and output."""
    monkeypatch.chdir(tmp_path)

    def run_here(*options: str) -> tuple[int, str]:
        code = run_inner_pytest(*options)
        return code, capsys.readouterr().out

    return run_here


def write(folder: Path, *, wrong: int) -> None:
    (folder / "test_bot.py").write_text(EVALUATION.format(wrong=wrong))


def test_evaluation__result_is_the_verdict_against_the_baseline(
    tmp_path: Path, run_here: Run
) -> None:
    write(tmp_path, wrong=1)
    assert run_here(UPDATE)[0] == 0
    names = {path.name for path in (tmp_path / "mosaico_baselines").iterdir()}
    assert names == {"test_bot.test_answers.jsonl", "test_bot.test_assertions.jsonl"}
    # In a process that has loaded nothing: `tests/e2e/test_installed_wheel.py`.
    code, same = run_here()
    assert code == 0, same
    assert "test_bot.py::test_answers: PASS" in same

    # Eleven of 20 items more than in the baseline, far beyond chance.
    write(tmp_path, wrong=12)
    code, worse = run_here("--junit-xml", "tests.xml")
    assert code == 1
    assert "2 failed, 1 passed" in worse
    assert "REGRESSION" in worse
    assert "ACCURACY: it is worse by at least 0.02" in worse
    assert "TASK_PASSED" in worse
    assert "details: mosaico compare " in worse
    # The verdict alone: no progress of the attempts, which pytest would print as captured output.
    assert "Captured stderr" not in worse
    # One test case for each test, as of every other test.
    cases = {case.get("name"): case for case in ET.parse(tmp_path / "tests.xml").iter("testcase")}
    assert cases.keys() == {"test_answers", "test_assertions", "test_plain"}
    failed = {name for name, case in cases.items() if case.find("failure") is not None}
    assert failed == {"test_answers", "test_assertions"}


def test_evaluation__without_a_baseline_fails_with_the_command(
    tmp_path: Path, run_here: Run
) -> None:
    write(tmp_path, wrong=1)
    code, output = run_here("-k", "test_answers")
    assert code == 1
    assert f"write it with `pytest {UPDATE}` and commit it" in output


def test_evaluation__wrong_marker_says_what_it_takes(tmp_path: Path, run_here: Run) -> None:
    (tmp_path / "test_bot.py").write_text(
        "import pytest\n@pytest.mark.mosaico(items=[], trails=3)\ndef test_x(item):\n    pass\n"
    )
    assert "it has no option 'trails'" in run_here()[1]


def test_plugin__is_an_entry_point_and_costs_our_own_tests_nothing() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    entry_points = settings["project"]["entry-points"]["pytest11"]
    assert entry_points == {"mosaico": "mosaico.sdk.pytest_plugin"}
    assert "-p no:mosaico" in settings["tool"]["pytest"]["ini_options"]["addopts"]
    program = "import sys, pytest; before = {*sys.modules}; import mosaico.sdk.pytest_plugin;"
    program += " print(*{name.partition('.')[0] for name in {*sys.modules} - before})"
    loaded = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        timeout=LIVENESS_S,
    )
    assert not {*loaded.stdout.split()} & {"pydantic", "numpy", "httpx"}
