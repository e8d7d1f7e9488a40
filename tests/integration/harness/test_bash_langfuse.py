"""Export of a bash run with the Langfuse SDK, read back through the Langfuse trace source."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from typer.testing import CliRunner

from mosaico.core.clock import utc_now
from mosaico.core.encryption import Secret
from mosaico.harness.bash.cli import cli
from mosaico.harness.bash.langfuse_export import export_run
from mosaico.harness.langfuse_export import ExportFailed, LangfuseProject
from mosaico.harness.results import AttemptOutcome
from mosaico.llm.conversation import ChatMessage, MessageRole, TextBlock, user_message
from tests.integration.langfuse.collection import collect_all
from tests.support.bash_eval import call, report, result, task, trace
from tests.support.langfuse import FakeLangfuse, run_fake_langfuse

NOW = datetime(2026, 11, 22, 2, tzinfo=UTC)


@pytest.fixture(scope="module")
def langfuse() -> Iterator[FakeLangfuse]:
    with run_fake_langfuse() as running:
        yield running


def project_of(langfuse: FakeLangfuse, public_key: str | None = None) -> LangfuseProject:
    return LangfuseProject(
        url=langfuse.url,
        public_key=public_key or langfuse.public_key,
        secret_key=Secret(langfuse.secret_key),
    )


def test_export__run_is_read_back(langfuse: FakeLangfuse) -> None:
    good, bad = task("exit_code:0", task_id="good"), task("exit_code:0", task_id="bad")
    messages = (
        user_message("Do it."),
        ChatMessage(role=MessageRole.ASSISTANT, content=(TextBlock(text="Yes."),)),
    )
    calls = [call("x", code=1), call("x")]
    exported = report(
        result(good, True, trace=trace(*calls, messages=messages, cost_usd=0.5)),
        result(good, True, trial=1),
        result(bad, False, trace=trace(natural_stop=False, total_input_tokens=None)),
        result(task(task_id="lost"), True, outcome=AttemptOutcome.INFRA_ERROR, trace=None),
    )
    done = export_run(exported, project_of(langfuse), dataset="bash", now=NOW)
    later = export_run(exported, project_of(langfuse), dataset="bash", now=NOW + timedelta(hours=1))
    # The lost attempt has no conversation that could be exported.
    assert done == ("bash", "eval-scripted-m-2026-11-22-020000", 3)
    assert later == ("bash", "eval-scripted-m-2026-11-22-030000", 3)

    traces = collect_all(
        langfuse, dataset_ref="bash", run_name=done.run_name, late_scores=True, now=utc_now()
    ).traces
    assert sorted(entry.item_id.rpartition("-")[0] for entry in traces) == ["bad", "good", "good"]
    first = next(entry for entry in traces if entry.output == "Yes.")
    assert (first.input, first.expected_output) == ("Do it.", "exit_code:0")
    assert (first.input_tokens, first.output_tokens, first.cost_usd) == (100, 10, 0.5)
    assert {tool_call.ok for tool_call in first.tool_calls or ()} == {False, True}
    scores = {"TASK_SCORE": 1, "TASK_PASSED": 1, "NATURAL_STOP": 1, "DURATION_MS": 1000}
    assert first.scores == scores
    failed = next(entry for entry in traces if entry.item_id.startswith("bad"))
    assert failed.scores == {**scores, "TASK_SCORE": 0, "TASK_PASSED": 0, "NATURAL_STOP": 0}


def test_export__rejected_key_fails(langfuse: FakeLangfuse) -> None:
    with pytest.raises(ExportFailed, match="did not accept the run"):
        export_run(
            report(result(task(), True)), project_of(langfuse, "pk-wrong"), dataset="other", now=NOW
        )


def test_export__missing_keys_fail_before_first_request(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LANGFUSE_PUBLIC_KEY", "LANGFUSE_SECRET_KEY"):
        monkeypatch.delenv(name, raising=False)
    words = [
        "run",
        "demo/bash/tasks.jsonl",
        "--provider",
        "scripted",
        "--model",
        "absent",
        "--langfuse",
    ]
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 2
    assert "LANGFUSE_PUBLIC_KEY" in done.output
