"""The export of an ot-bench run to Langfuse, read back like a benchmark reads it."""

import json
from datetime import UTC, datetime

from mosaico.core.clock import utc_now
from mosaico.core.encryption import Secret
from mosaico.harness.langfuse_export import LangfuseProject
from mosaico.harness.mcp.config import TaskType
from mosaico.harness.mcp.langfuse_export import export_run
from mosaico.harness.results import AttemptOutcome, ConversationEnding
from mosaico.llm.conversation import user_message
from tests.integration.langfuse.collection import collect_all
from tests.support.langfuse import run_fake_langfuse
from tests.support.mcp_results import FAILED, llm_calls, mcp_report, result, tool_call

NOW = datetime(2026, 11, 22, 2, tzinfo=UTC)


def test_export__mcp_run_is_read_back() -> None:
    asked_attempt = result(
        ending=ConversationEnding.NATURAL,
        servers=("a",),
        llm_calls=llm_calls(100, 160),
        messages=(user_message("Do it."),),
        tool_calls=(tool_call("a", "t"), tool_call("a", "t", is_error=True)),
        duration_ms=1500.0,
        cost_usd=0.5,
    )
    direct = result(
        "tool:a:t",
        type=TaskType.DIRECT,
        model="",
        content_hash="1" * 16,
        servers=("a",),
        evaluations=(FAILED,),
        tool_calls=(tool_call("a", "t"),),
    )
    errored = result("lost", outcome=AttemptOutcome.INFRA_ERROR, evaluations=())
    with run_fake_langfuse() as langfuse:
        access = LangfuseProject(
            url=langfuse.url,
            public_key=langfuse.public_key,
            secret_key=Secret(langfuse.secret_key),
        )
        done = export_run(
            mcp_report(asked_attempt, direct, errored), access, dataset="mcp", now=NOW
        )
        assert done == ("mcp", "bench-2026-11-22-020000", 2)
        traces = collect_all(
            langfuse, dataset_ref="mcp", run_name=done.run_name, late_scores=True, now=utc_now()
        ).traces
    first, second = sorted(traces, key=lambda trace: trace.item_id)
    assert first.item_id.startswith("s/compare:base-")
    assert (first.input, first.expected_output, first.output) == ("Do it.", "a", "a")
    assert (first.input_tokens, first.output_tokens, first.cost_usd) == (260, 20, 0.5)
    assert {tool_call.name: tool_call.ok for tool_call in first.tool_calls or ()}.keys() == {"a/t"}
    assert first.scores == {
        "TASK_PASSED": 1,
        "TASK_SCORE": 1,
        "NATURAL_STOP": 1,
        "BASE_CONTEXT": 100,
        "CONTEXT_GROWTH_AVG": 60,
        "DURATION_MS": 1500,
    }
    assert json.loads(second.input or "") == {"tool": "t", "arguments": {}}
    assert second.scores == {"TASK_PASSED": 0, "TASK_SCORE": 0, "DURATION_MS": 0}
