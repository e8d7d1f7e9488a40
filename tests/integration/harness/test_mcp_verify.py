"""`verify`: calls after the conversation show what the model did, and not what it says."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from mosaico.harness.mcp.config import EvaluatorConfig
from mosaico.harness.mcp.lint import lint
from mosaico.harness.mcp.loader import load_file
from mosaico.harness.mcp.plan import PlannedTask, PlannedVerification
from mosaico.harness.mcp.plan_builder import ModelKeys, PlanOverrides, TaskSelection, plan_tasks
from mosaico.harness.mcp.secrets import Secrets
from mosaico.harness.mcp.servers.server import ServerEnvironment
from mosaico.harness.mcp.types import ErrorKind
from mosaico.harness.results import AttemptOutcome, ConversationEnding
from mosaico.llm.conversation import Turn
from tests.support.mcp_bench import calls, harness_task, run, says, scripted
from tests.support.mcp_servers import faults, node_programs, node_server
from tests.support.texts import assert_names

pytestmark = pytest.mark.usefixtures("loaded_evaluators")

# The tool counts the calls before it, so two mean that the model made one.
ONE_CALL_MADE = PlannedVerification(tool="count", evaluator=EvaluatorConfig(expected=2))
SAID = EvaluatorConfig(expected="Done")


def counted(**more: Any) -> PlannedTask:
    fields: Mapping[str, Any] = {"evaluator": SAID, "verifications": (ONE_CALL_MADE,), **more}
    return harness_task(faults(), **fields)


DOES = [calls(("echo", {"text": "x"})), says("Done.")]
ONLY_SAYS = [says("Done.")]


@pytest.mark.parametrize(("turns", "passed"), [(DOES, True), (ONLY_SAYS, False)])
def test_verify__decides_with_the_answer(turns: list[Turn], passed: bool) -> None:
    result = run(counted(), model=scripted(*turns)).result
    assert (result.outcome, result.passed) == (AttemptOutcome.SCORED, passed)
    assert [(kind.type, kind.passed) for kind in result.evaluations] == [
        ("contains", True),
        ("verify count: number", passed),
    ]
    # The calls are those of the harness, and no calls of the model.
    assert "count" not in [call.tool for call in result.tool_calls]


def test_verify__decides_alone_without_an_evaluator_of_the_answer() -> None:
    result = run(counted(evaluator=None), model=scripted(*ONLY_SAYS)).result
    assert result.passed is False


def test_verify__failed_call_fails_unless_an_error_is_expected() -> None:
    fails = PlannedVerification(tool="fail", arguments={"text": "no such file"})
    gone = EvaluatorConfig(expect_error=True, expected="no such file")
    result = run(counted(verifications=(fails,)), model=scripted(*DOES)).result
    assert result.passed is False
    assert_names(result.failure_reason(), "verify fail: the call failed", "no such file")
    expected = PlannedVerification(tool="fail", arguments=fails.arguments, evaluator=gone)
    assert run(counted(verifications=(expected,)), model=scripted(*DOES)).result.passed


@pytest.mark.parametrize(
    ("tool", "kind", "words"),
    [
        ("cuont", ErrorKind.JUDGE, ("verify cuont", "unknown tool", "count")),
        ("hang", ErrorKind.JUDGE, ("verify hang", "faults", "did not answer")),
        ("die", ErrorKind.SERVER_DIED, ("faults", "is gone")),
    ],
)
def test_verify__without_a_result_says_nothing_about_the_agent(
    tool: str, kind: ErrorKind, words: tuple[str, ...]
) -> None:
    task = counted(verifications=(PlannedVerification(tool=tool),), timeout_s=2.0)
    result = run(task, model=scripted(*DOES)).result
    assert result.error is not None
    assert (result.error.kind, result.passed, result.ending) == (
        kind,
        None,
        ConversationEnding.NATURAL,
    )
    assert_names(result.error.detail, *words)


def test_verify__expected_error_of_the_conversation_does_not_replace_it() -> None:
    expects_timeout = EvaluatorConfig(expect_error=True)
    task = counted(evaluator=expects_timeout, timeout_s=0.5)
    result = run(task, model=scripted(calls(("hang", {})))).result
    assert result.outcome is AttemptOutcome.TIMEOUT
    assert result.passed is False


@pytest.mark.parametrize("share_servers", [False, True])
def test_verify__server_of_its_own_is_hidden_from_the_model(
    share_servers: bool, tmp_path: Path
) -> None:
    note = tmp_path / "note.txt"
    note.write_text("milk")
    reads = PlannedVerification(
        tool="read_text_file",
        server="filesystem",
        arguments={"path": str(note)},
        evaluator=EvaluatorConfig(expected="milk"),
    )
    model = scripted(says("Done."))
    task = counted(
        verifications=(reads,),
        hidden_servers=(node_server("filesystem", str(tmp_path)),),
        share_servers=share_servers,
    )
    result = run(task, model=model).result
    assert result.passed, result.failure_reason()
    assert "read_text_file" not in [tool.name for tool in model.requests[0].tools]
    assert result.servers == ("faults",)


STORES = calls(
    (
        "create_entities",
        {
            "entities": [
                {"name": "oolong", "entityType": "tea", "observations": ["it is in the blue tin"]}
            ]
        },
    )
)


@pytest.mark.parametrize(
    ("turns", "passed"),
    [([STORES, says("Stored.")], True), ([calls(("read_graph", {})), says("Stored.")], False)],
)
def test_demo_memory__passes_only_when_the_model_stores(
    turns: list[Turn], passed: bool, tmp_path: Path
) -> None:
    file = Path(__file__).parents[3] / "demo" / "bench" / "tool_memory.yaml"
    secrets = Secrets(values={"MEMORY_FILE_PATH": str(tmp_path / "graph.json")})
    planned = plan_tasks(
        [lint(load_file(file, secrets, {}))],
        TaskSelection(scenarios=["with a model"]),
        PlanOverrides(),
        ModelKeys(),
    )
    environment = ServerEnvironment(path=f"{node_programs()}{os.pathsep}{os.environ['PATH']}")
    report = run(*planned, model=scripted(*turns), server_environment=environment).report
    results = {result.task: result.passed for result in report.results}
    assert results == {"tool:memory:forget": True, "tool:memory:remember": passed}
