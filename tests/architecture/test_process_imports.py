"""What a process loads: none loads numpy to answer or to parse, only the API loads FastAPI.

One interpreter imports one thing after the other: what a later step must not load, no earlier one does.
"""

import json
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

from tests.support.processes import LIVENESS_S

NUMERICAL = {"numpy"}
SANDBOX = {"bashkit"}
WEB = {"fastapi", "starlette"}
# Libraries of 9 MiB that an API process needs rarely.
RARE = {"cryptography", "re2", "sqlite3"}
STEPS = {
    "mosaico.gating.rules": "import mosaico.gating.rules",
    "mosaico.gating.cli": "import mosaico.gating.cli",
    "mosaico.serve": "import mosaico.serve",
    "mosaico.scheduler": "import mosaico.scheduler",
    "mosaico.worker": "import mosaico.worker",
    "mosaico.main": "import mosaico.main",
    "plugins": "from mosaico.plugin_loading import load_plugins; load_plugins()",
}


@pytest.mark.parametrize(
    ("step", "unused"),
    [
        ("mosaico.gating.rules", NUMERICAL | WEB),
        ("mosaico.gating.cli", NUMERICAL | WEB),
        ("mosaico.serve", NUMERICAL | WEB),
        ("mosaico.scheduler", NUMERICAL | WEB),
        ("mosaico.worker", NUMERICAL | WEB),
        ("mosaico.main", NUMERICAL),
    ],
)
def test_process__does_not_import_what_it_does_not_use(step: str, unused: set[str]) -> None:
    assert not _packages_after(step) & unused


def test_plugins__load_neither_the_sandbox_nor_rarely_used_libraries() -> None:
    assert not _packages_after("plugins") & (SANDBOX | RARE)


def test_commands_of_files__load_no_server(tmp_path: Path) -> None:
    """The database takes half a second of CPU to import: that is most of a short command."""
    before, after = tmp_path / "before.jsonl", tmp_path / "after.jsonl"
    for file, passed in ((before, 18), (after, 17)):
        rows = ({"id": f"i{number}", "pass": number < passed} for number in range(20))
        file.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    commands = (
        ["score", after],
        ["gate", "--run", after, "--baseline", before],
        ["compare", before, after, "--no-html"],
    )
    steps = {"score of Python": f"import mosaico; mosaico.score({str(after)!r})"}
    for words in commands:
        arguments = ["mosaico", *map(str, words)]
        run = "mosaico.cli.main()\nexcept SystemExit as end: assert not end.code"
        steps[arguments[1]] = f"import mosaico.cli; sys.argv = {arguments!r}\ntry: {run}"
    loaded = {name: {*modules} for name, modules in _modules_after(steps, tmp_path).items()}
    for modules in loaded.values():
        assert "mosaico.traces.files.trace_file" in modules
        assert not modules & {"sqlalchemy", "psycopg", "fastapi", "starlette"}
        # What reads settings, texts of other scripts and event loops takes 0.05 s each.
        assert not modules & {"pydantic_settings", "regex", "asyncio"}
        # Settings name the limits of harnesses; what runs them is not needed for that.
        assert not modules & {"mosaico.harness.budget", "mosaico.harness.results"}
    assert not (loaded["score of Python"] | loaded["score"]) & NUMERICAL


def _packages_after(step: str) -> set[str]:
    return {name.partition(".")[0] for name in _modules_after_each_step()[step]}


@cache
def _modules_after_each_step() -> dict[str, list[str]]:
    return _modules_after(STEPS, Path.cwd())


def _modules_after(steps: Mapping[str, str], folder: Path) -> dict[str, list[str]]:
    """The modules that one new interpreter has loaded after each of the steps."""
    program = "import json, sys; steps = json.loads(sys.argv[1]); loaded = {}\n"
    program += "for name, code in steps.items(): exec(code); loaded[name] = [*sys.modules]\n"
    program += "print('\\n' + json.dumps(loaded))"
    completed = subprocess.run(
        [sys.executable, "-c", program, json.dumps(steps)],
        capture_output=True,
        text=True,
        check=True,
        cwd=folder,
        timeout=LIVENESS_S,
    )
    modules: dict[str, list[str]] = json.loads(completed.stdout.splitlines()[-1])
    return modules
