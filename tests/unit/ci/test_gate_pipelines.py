"""The steps of the GitHub action and the GitLab job, run in a shell as the servers run them."""

import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
import yaml
from click.testing import CliRunner

from tests.support.processes import forked_programs
from tests.support.waiting import LIVENESS_S

ROOT = Path(__file__).resolve().parents[3]
ACTION = yaml.safe_load((ROOT / "ci" / "github" / "action.yml").read_text(encoding="utf-8"))
GITLAB = yaml.safe_load((ROOT / "ci" / "gitlab.yml").read_text(encoding="utf-8"))["mosaico-gate"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Results of two runs, and a `gh` that records what it is called with."""
    # A name with a space: unquoted variables of a shell would
    # split it. 12 of 40 items fall from 1 to 0.
    for name, wrong in (("base", 2), ("today run", 14)):
        rows = [f"q{n},yes,{'no' if n < wrong else 'yes'}\n" for n in range(40)]
        (tmp_path / f"{name}.csv").write_text("id,expected,output\n" + "".join(rows))
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "gh").write_text('#!/bin/sh\nprintf "%s\\n" "$@" > gh.txt\n')
    (programs / "gh").chmod(0o755)
    return tmp_path


def run_shell(script: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a script as both servers do: bash, which ends with the first failure."""
    path = f"{folder / 'bin'}:{forked_programs()}:{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin"
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", script],
        cwd=folder,
        env={"PATH": path, "HOME": str(folder), **variables},
        capture_output=True,
        text=True,
        timeout=LIVENESS_S,
        check=False,
    )


def run_action(folder: Path, context: dict[str, str], **inputs: str) -> int:
    """Run the steps of the composite action; returns the exit code of the last one."""
    values = {
        f"inputs.{name}": str(spec.get("default", "")) for name, spec in ACTION["inputs"].items()
    }
    values |= {f"inputs.{name}": text for name, text in inputs.items()} | context
    output = folder / "output.txt"
    files = {"GITHUB_OUTPUT": str(output), "GITHUB_STEP_SUMMARY": str(folder / "summary.md")}
    code = 0
    for step in ACTION["runs"]["steps"]:
        if "if" in step and not (
            values["inputs.comment"] == "true" and values.get("github.event.pull_request.number")
        ):
            continue
        variables = {name: substitute(text, values) for name, text in step["env"].items()}
        code = run_shell(step["run"], folder, **files, **variables).returncode
        if output.exists():
            for line in output.read_text().splitlines():
                name, _, text = line.partition("=")
                values[f"steps.gate.outputs.{name}"] = text
        if code:
            break
    return code


def substitute(text: str, values: dict[str, str]) -> str:
    """The text with its expressions: a name, or the first of several names that has a value."""

    def evaluate(match: re.Match[str]) -> str:
        names = match[1].split(" || ")
        # As on the server, a variable of the job that is not set is empty.
        given = (
            values.get(name, "") if name.startswith("env.") else values[name] for name in names
        )
        return next(filter(None, given), "")

    return re.sub(r"\$\{\{ (.+?) \}\}", evaluate, text)


PULL_REQUEST = {
    "github.event.pull_request.number": "7",
    "github.repository": "team/bot",
    "github.token": "secret",
}


def test_github_action__fails_for_a_regression_and_shows_the_table(folder: Path) -> None:
    code = run_action(
        folder,
        PULL_REQUEST,
        run="today run.csv",
        baseline="base.csv",
        options="--max-drop 'ACCURACY=0.1' --inconclusive fail",
        comment="true",
    )
    assert code == 1
    summary = (folder / "summary.md").read_text()
    assert summary.startswith("### ❌ REGRESSION: today run.csv against base.csv\n")
    assert "worse by at most 0.1" in summary
    assert "<testsuite" in (folder / "mosaico-gate.xml").read_text()
    words = (folder / "gh.txt").read_text().split()
    assert words[:3] == ["pr", "comment", "7"]
    assert words[-2:] == ["--body-file", "mosaico-gate.md"]


def test_github_action__passes_and_comments_only_on_request(folder: Path) -> None:
    assert run_action(folder, {}, run="base.csv", baseline="base.csv") == 0
    assert (folder / "summary.md").read_text().startswith("### ✅ PASS: ")
    assert not (folder / "gh.txt").exists()


def test_github_action__wrong_options_fail_and_are_not_evaluated(folder: Path) -> None:
    # The options come from the workflow of a pull request: a shell must not run them.
    options = "$(touch evaluated) --max-drop nonsense"
    assert run_action(folder, {}, run="base.csv", baseline="base.csv", options=options) == 2
    assert not (folder / "evaluated").exists()


@pytest.fixture
def notes() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """The address of a server that receives notes on merge requests, and what it received."""
    received: list[dict[str, Any]] = []

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            note = {"path": self.path, "token": self.headers["PRIVATE-TOKEN"]}
            received.append(note | {"body": parse_qs(body)["body"][0]})
            self.send_response(201)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    server = HTTPServer(("127.0.0.1", 0), Receiver)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/api/v4", received
    server.shutdown()
    thread.join()
    server.server_close()


def test_gitlab_job__fails_for_a_regression_and_posts_a_note(
    folder: Path, notes: tuple[str, list[dict[str, Any]]]
) -> None:
    url, received = notes
    [script] = GITLAB["script"]
    done = run_shell(
        script,
        folder,
        GATE_RUN="today run.csv",
        GATE_BASELINE="base.csv",
        GATE_OPTIONS="--max-drop ACCURACY=0.1",
        GATE_TOKEN="secret",
        CI_MERGE_REQUEST_IID="7",
        CI_PROJECT_ID="42",
        CI_API_V4_URL=url,
    )
    assert done.returncode == 1, done.stderr
    [note] = received
    assert note["path"] == "/api/v4/projects/42/merge_requests/7/notes"
    assert note["token"] == "secret"
    assert note["body"].startswith("### ❌ REGRESSION: today run.csv against base.csv\n")
    assert (folder / GITLAB["artifacts"]["reports"]["junit"]).exists()


def test_gitlab_job__without_a_token_only_prints(folder: Path) -> None:
    [script] = GITLAB["script"]
    done = run_shell(script, folder, GATE_RUN="base.csv", GATE_BASELINE="base.csv")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("### ✅ PASS: ")


@pytest.mark.parametrize(
    ("schema", "file", "required"),
    [
        ("vendor.github-actions", "ci/github/action.yml", "      shell: bash\n"),
        ("vendor.gitlab-ci", "ci/gitlab.yml", "  script:\n"),
    ],
)
def test_file__fits_the_schema_of_its_server(
    tmp_path: Path, schema: str, file: str, required: str
) -> None:
    # It takes long to import.
    from check_jsonschema import main as check_jsonschema  # type: ignore[import-untyped]

    def validate(path: Path) -> int:
        return (
            CliRunner().invoke(check_jsonschema, ["--builtin-schema", schema, str(path)]).exit_code
        )

    assert validate(ROOT / file) == 0
    content = (ROOT / file).read_text(encoding="utf-8")
    assert required in content
    broken = tmp_path / Path(file).name
    # A misspelled key: a schema that accepts every key would prove nothing.
    broken.write_text(content.replace(required, required.replace(":", "s:")), encoding="utf-8")
    assert validate(broken) == 1
