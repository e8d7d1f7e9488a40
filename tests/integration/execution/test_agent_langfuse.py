"""An executed agent and Langfuse: its dataset, its experiment, and where failing items go."""

import json
import os
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import mosaico
from mosaico.cli import cli
from mosaico.core.clock import utc_now
from mosaico.core.encryption import Secret
from mosaico.traces.registry import TRACE_SOURCES, TraceQuery
from tests.integration.langfuse.collection import collect_all
from tests.support.langfuse import FakeLangfuse, run_fake_langfuse
from tests.support.service import Service

# Item 1 is answered right, item 0 wrong, and item 2 fails.
AGENT = """\
import sys
number = sys.argv[1].rpartition(" ")[2]
assert number != "2", "no idea"
print("answer " + ("1" if number == "1" else "none"))
"""


@pytest.fixture
def langfuse(monkeypatch: pytest.MonkeyPatch) -> Any:
    with run_fake_langfuse() as running:
        monkeypatch.setenv("LANGFUSE_PUBLIC_KEY", running.public_key)
        monkeypatch.setenv("LANGFUSE_SECRET_KEY", running.secret_key)
        monkeypatch.setenv("LANGFUSE_BASE_URL", running.url)
        running.experiment(dataset="support", run="earlier", items=3)
        running.store.annotation_queues["queue-1"] = []
        yield running


def execute(folder: Path, *words: str) -> Result:
    (folder / "agent.py").write_text(AGENT)
    agent = f"{shlex.quote(sys.executable)} -I -S {shlex.quote(str(folder / 'agent.py'))} {{input}}"
    common = ["runs", "execute", "--dataset", "langfuse:support", "--command", agent]
    options = ["--save", str(folder), "--json", *words]
    return CliRunner().invoke(cli, [*common, *options], env=dict(os.environ))


def test_execute__langfuse_dataset_becomes_experiment_on_its_own_items(
    langfuse: FakeLangfuse, tmp_path: Path
) -> None:
    result = execute(tmp_path, "--langfuse")
    assert result.exit_code == 0, result.output
    run_name = result.stderr.partition("run '")[2].partition("'")[0]
    collected = collect_all(langfuse, dataset_ref="support", run_name=run_name, now=utc_now())
    outputs = {trace.item_id: trace.output for trace in collected.traces}
    written = {json.loads(line)["itemId"] for line in _lines(result)}
    assert outputs.keys() == written
    assert len(outputs) == 3
    assert sorted(map(str, outputs.values())) == ["", "answer 1", "answer none"]


def test_run_experiment__langfuse_writes_experiment(
    langfuse: FakeLangfuse, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    experiment = mosaico.run_experiment(
        lambda item: item.input, "langfuse:support", langfuse=True, save=tmp_path
    )
    run = capsys.readouterr().err.partition("run '")[2].partition("'")[0]
    collected = collect_all(langfuse, dataset_ref="support", run_name=run, now=utc_now())
    outputs = {trace.item_id: trace.output for trace in collected.traces}
    assert outputs == {trace.item_id: trace.input for trace in experiment.traces}


def test_execute__failing_items_go_to_queue_and_dataset_once(
    langfuse: FakeLangfuse, tmp_path: Path
) -> None:
    words = ["--langfuse", "--failing-to-queue", "queue-1", "--failing-to-dataset", "hard"]
    result = execute(tmp_path, *words)
    assert result.exit_code == 0, result.output
    queued = langfuse.store.annotation_queues["queue-1"]
    hard = langfuse.store.datasets["hard"].written
    assert len(queued) == len({*queued}) == 2
    assert sorted(str(item.input) for item in hard.values()) == ["question 0", "question 2"]
    assert {item.metadata["reason"].partition(":")[0] for item in hard.values()} == {
        "answered", "exit code 1",
    }  # fmt: skip
    file = json.loads(result.stdout)["file"]
    again = execute(tmp_path, "--failing-to-dataset", "hard", "--resume", file)
    assert again.exit_code == 0, again.output
    assert len(langfuse.store.datasets["hard"].written) == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--failing-to-queue", "queue-1"], "add --langfuse"),
        (["--langfuse", "--failing-to-queue", "none"], "annotation queue 'none'"),
    ],
)
@pytest.mark.usefixtures("langfuse")
def test_execute__wrong_target_is_refused_before_the_first_attempt(
    tmp_path: Path, words: list[str], message: str
) -> None:
    result = execute(tmp_path, *words)
    assert result.exit_code != 0
    assert message in result.output
    assert list(tmp_path.glob("*.jsonl")) == []


@pytest.mark.usefixtures("plugins")
def test_list_items__service_reads_active_items_page_by_page(
    langfuse: FakeLangfuse, service: Service
) -> None:
    langfuse.experiment(dataset="large", run="earlier", items=120)
    query = TraceQuery(
        dataset_ref="large",
        run_name=None,
        url=langfuse.url,
        public_key=langfuse.public_key,
        secret_key=Secret(langfuse.secret_key),
    )
    list_items = TRACE_SOURCES.get("langfuse").list_items
    assert list_items is not None
    items = list(list_items(service.resources, query))
    assert len({item.id for item in items}) == 120
    assert {item.input for item in items} == {f"question {n}" for n in range(120)}
    assert items[0].attributes.keys() == {"topic"}


def _lines(result: Result) -> list[str]:
    return Path(json.loads(result.stdout)["file"]).read_text().splitlines()
