"""Commands and Python read files in their own process, within the limits that the service has, too."""

from collections.abc import Callable
from pathlib import Path

import pytest

from mosaico.core.errors import Misconfigured
from mosaico.core.import_settings import ImportSettings, import_options
from mosaico.sdk.inputs import open_reader
from mosaico.traces.files.configured_limits import read_limits
from mosaico.traces.files.limited_file import InvalidImport
from mosaico.traces.files.options import InputOptions
from mosaico.traces.files.options import open_reader as open_command_reader
from mosaico.traces.files.read_options import ReadOptions
from mosaico.traces.files.trace_file import TraceReader

WIDE = ",".join(f"c{number}" for number in range(11)) + "\n" + ",".join("1" * 11) + "\n"
TRACES = '{"traceId": "t-1", "scores": {' + ",".join(f'"s{n}": 1' for n in range(1001)) + "}}\n"
READERS = {
    "command": lambda: open_command_reader(InputOptions(), print_line=lambda _: None),
    "python": lambda: open_reader([], None, None),
}


def read(reader: TraceReader, path: Path) -> None:
    with reader.open(path) as traces:
        for _ in traces:
            pass


@pytest.mark.parametrize("new", READERS.values(), ids=READERS)
@pytest.mark.parametrize(
    ("name", "content", "setting", "limit"),
    [
        ("wide.csv", WIDE, "MOSAICO_IMPORT_COLUMNS", "10"),
        ("traces.jsonl", TRACES, "MOSAICO_IMPORT_VALUES", "1000"),
    ],
)
def test_reader__limit_of_the_environment_is_named(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    new: Callable[[], TraceReader],
    name: str,
    content: str,
    setting: str,
    limit: str,
) -> None:
    path = tmp_path / name
    path.write_text(content)
    monkeypatch.setenv(setting, limit)
    with pytest.raises(InvalidImport, match=setting):
        read(new(), path)


def test_reader__wrong_limit_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOSAICO_IMPORT_VALUES", "many")
    with pytest.raises(Misconfigured, match="MOSAICO_IMPORT_VALUES"):
        open_reader([], None, None)


def test_reader__limits_without_a_setting_are_its_defaults() -> None:
    assert read_limits(import_options(ImportSettings.model_construct())) == ReadOptions().limits


def test_reader__limit_of_the_file_env_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(".env").write_text("mosaico_import_columns=10\n")
    Path("wide.csv").write_text(WIDE)
    with pytest.raises(InvalidImport, match="MOSAICO_IMPORT_COLUMNS"):
        read(open_reader([], None, None), Path("wide.csv"))
