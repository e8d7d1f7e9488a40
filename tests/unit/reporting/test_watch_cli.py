"""`mosaico watch`: a comparison for each change, and none of a file that is being written."""

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from mosaico.cli import cli
from mosaico.core.console.terminal import EXIT_INTERRUPTED


def rows(wrong: int, items: int = 40) -> str:
    lines = [f"q{n},yes,{'no' if n < wrong else 'yes'}\n" for n in range(items)]
    return "id,expected,output\n" + "".join(lines)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "before.csv").write_text(rows(2))
    return tmp_path


def watch(
    monkeypatch: pytest.MonkeyPatch, steps: Sequence[Callable[[], object]], *words: str
) -> Result:
    """Run the command; each time that it waits the next step is made, and at the end Ctrl-C is pressed."""
    waiting: Iterator[Callable[[], object]] = iter(steps)

    def wait(_: float) -> None:
        step = next(waiting, None)
        if step is None:
            raise KeyboardInterrupt
        step()

    monkeypatch.setattr("mosaico.reporting.watch_cli.time.sleep", wait)
    return CliRunner().invoke(cli, ["watch", "before.csv", "after.csv", "--no-html", *words])


def nothing() -> None:
    """No file changes."""


def verdicts(result: Result) -> list[str]:
    lines = result.stdout.splitlines()
    return [line.partition(":")[0] for line in lines if re.match("[A-Z_]+: ", line)]


def test_watch__compares_once_per_change(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    after = folder / "after.csv"
    after.write_text(rows(20))
    steps = [nothing, nothing, nothing, lambda: after.write_text(rows(0, 41)), nothing, nothing]
    result = watch(monkeypatch, steps, "--metrics", "ACCURACY")
    assert result.exit_code == EXIT_INTERRUPTED
    # Of 40 answers 2 are wrong, then 20, then none: the change from 2 to 0 is not proved.
    assert len(verdicts(result)) == 2
    assert verdicts(result)[0] == "REGRESSED"
    assert result.stderr.count("Ctrl-C ends") == 2


def test_watch__file_in_the_writing_is_waited_for(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    after = folder / "after.csv"
    whole = rows(20)
    steps = [
        nothing,
        nothing,  # it is missing
        lambda: after.write_text(whole[:100]),
        lambda: after.write_text(whole[:300]),  # still growing: nothing is compared
        lambda: after.write_text(whole),
        nothing,
        nothing,
    ]
    result = watch(monkeypatch, steps, "--metrics", "ACCURACY")
    assert result.exit_code == EXIT_INTERRUPTED
    assert verdicts(result) == ["REGRESSED"]
    assert result.stderr.count("waiting for the next change: after.csv") == 1
    assert "error:" not in result.stderr


def test_watch__half_of_a_document_is_no_error(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    after = folder / "after.csv"
    after.write_text('id,expected,output\nq1,yes,"a quote that is open')
    steps = [nothing, nothing, lambda: after.write_text(rows(20)), nothing, nothing]
    result = watch(monkeypatch, steps, "--metrics", "ACCURACY")
    assert result.exit_code == EXIT_INTERRUPTED
    assert verdicts(result)[-1] == "REGRESSED"


def test_watch__changed_project_file_judges_anew(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "after.csv").write_text(rows(20))
    file = folder / "mosaico.yaml"
    text = "name: bot\nbenchmarks: {nightly: {metrics: [ACCURACY], kpis: {quality: {formula: ACCURACY, minEffect: %s}}}}\n"
    file.write_text(text % "0.02")
    steps = [nothing, nothing, lambda: file.write_text(text % "0.99"), nothing, nothing]
    result = watch(monkeypatch, steps)
    first, second = verdicts(result)
    assert first == "REGRESSED"
    assert second != "REGRESSED"


def test_watch__wrong_option_ends_at_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "after.csv").write_text(rows(20))
    result = watch(monkeypatch, [nothing] * 9, "--metrics", "NOPE")
    assert result.exit_code == 2
    assert "NOPE" in result.stderr
