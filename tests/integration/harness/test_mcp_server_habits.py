"""MCP servers as they are: lists that do not end, invalid tools, requests of servers, results that
break a schema.
"""

import json
import sys
from dataclasses import asdict
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mosaico.harness.mcp.cli.ot_bench import cli
from mosaico.harness.mcp.config import AcceptedReply, ReadyCheck, SampledReply, StdioServer
from mosaico.harness.mcp.plan import PlannedServer
from mosaico.harness.mcp.servers.info import MAX_PAGES
from mosaico.harness.mcp.types import ErrorKind, ServerFacts
from mosaico.harness.results import AttemptOutcome
from mosaico.llm.conversation import ToolResultBlock
from tests.support.mcp_bench import calls, direct_task, harness_task, run, says, scripted
from tests.support.mcp_servers import FAULTS, faults
from tests.support.texts import assert_names


def facts(*habits: str) -> ServerFacts:
    [server] = run(direct_task(faults(*habits), "count")).report.servers
    return server


def test_server_info__invalid_tools_are_left_out_and_named() -> None:
    server = facts("boundless", "schemaless")
    names = [tool.name for tool in server.tools]
    assert len(names) == 17
    assert {"boundless", "schemaless"}.isdisjoint(names)
    [union, endless, schemaless] = sorted(server.remarks)
    assert_names(union, "'choose'", "anyOf")
    assert_names(schemaless, "'schemaless'", "left out", "inputSchema")
    assert_names(endless, "'boundless'", "left out", "non-finite")


@pytest.mark.parametrize("habit", ["circling", "blank"])
def test_server_info__list_that_repeats_itself_is_ended(habit: str) -> None:
    server = facts(habit)
    names = [tool.name for tool in server.tools]
    assert len(names) == len(set(names)) == (10 if habit == "circling" else 16)
    [remark] = server.remarks
    assert_names(remark, "tools", "repeats itself", str(len(names)))


def test_server_info__tools_beyond_the_limit_are_counted() -> None:
    server = facts("endless")
    assert len(server.tools) == MAX_PAGES
    [remark] = server.remarks
    assert_names(remark, "only the first 100")


def test_server_info__sound_server_has_no_remark() -> None:
    assert facts().remarks == ()


def test_conversation__follows_changed_tools() -> None:
    model = scripted(calls(("grow", {})), calls(("grown", {})), says("Done."))
    result = run(harness_task(faults("growing")), model=model).result
    offered = [{tool.name for tool in request.tools} for request in model.requests]
    assert ["grown" in names for names in offered] == [False, True, True]
    assert [call.is_error for call in result.tool_calls] == [False, False]


def test_conversation__model_sees_an_object_where_the_server_has_a_union() -> None:
    model = scripted(says("Done."))
    run(harness_task(faults("schemaless")), model=model)
    [choose] = [tool for tool in model.requests[0].tools if tool.name == "choose"]
    assert choose.schema["type"] == "object"
    assert set(choose.schema["properties"]) == {"id", "name"}
    assert {"anyOf", "required"}.isdisjoint(choose.schema)


def asking(elicitation: object = None, sampling: object = None) -> PlannedServer:
    planned = faults()
    assert isinstance(planned.config, StdioServer)
    replies = {"elicitation": elicitation, "sampling": sampling}
    return PlannedServer(name="faults", config=planned.config.model_copy(update=replies))


SURE = AcceptedReply(accept={"sure": True})


@pytest.mark.parametrize(
    ("tool", "elicitation", "sampling", "reply"),
    [
        ("ask_form", "decline", None, {"action": "decline"}),
        ("ask_form", "cancel", None, {"action": "cancel"}),
        ("ask_form", SURE, None, {"action": "accept", "content": {"sure": True}}),
        ("ask_url", SURE, None, {"action": "decline"}),
        ("ask_model", None, SampledReply(text="Yes."), "Yes."),
        ("ask_model", None, "decline", -1),
        # Nothing configured: the server must not ask, and is refused when it does.
        ("ask_form", None, None, -32600),
        ("ask_model", None, None, -32600),
    ],
)
def test_server_request__gets_the_configured_reply(
    tool: str, elicitation: object, sampling: object, reply: object
) -> None:
    response = run(direct_task(asking(elicitation, sampling), tool)).result.response
    assert response is not None
    answer = json.loads(response)
    given = {
        "action": {name: answer[name] for name in ("action", "content") if answer.get(name)},
        "code": answer.get("code"),
        "content": (answer.get("content") or {}).get("text"),
    }
    assert reply in given.values()


def test_server_request__for_consent_at_a_url_is_no_failure_of_the_agent() -> None:
    result = run(direct_task(faults(), "ask_consent")).result
    assert result.outcome is AttemptOutcome.INFRA_ERROR
    assert result.error is not None
    assert result.error.kind is ErrorKind.CONFIGURATION
    assert_names(result.error.detail, "'faults'", "URL", "log in first")


def test_tool_result__invalid_parts_do_not_hide_the_valid_ones() -> None:
    result = run(direct_task(faults(), "half_formed")).result
    assert result.outcome is AttemptOutcome.SCORED
    assert result.response == "useful\n[1]"


VALIDATED = """
servers:
  faults: {type: stdio, command: PYTHON, args: [-I, -S, FAULTS, schemaless]}
  gone: {type: stdio, command: no-such-program}
scenarios:
  - name: s
    tasks:
      - {name: "tool:a:b", type: direct, server: faults, tool: ecoh, evaluate: {expected: x}}
      - {name: "tool:a:c", prompt: hi, server: faults, verify: [{tool: count}, {tool: conut}]}
"""


def test_validate__servers_are_started_and_their_tools_checked(tmp_path: Path) -> None:
    file = tmp_path / "bench.yaml"
    file.write_text(VALIDATED.replace("PYTHON", sys.executable).replace("FAULTS", str(FAULTS)))
    result = CliRunner().invoke(cli, ["validate", "--servers", str(file)])
    assert result.exit_code == 2
    expected = [
        (":3:", "warning", "'schemaless'"),
        (":3:", "warning", "'choose'"),
        (":4:", "error", "'gone'", "does not start"),
        (":8:", "warning", "'ecoh'", "echo"),
        (":9:", "warning", "'conut'", "count"),
    ]
    for finding, words in zip(result.stdout.splitlines(), expected, strict=True):
        assert_names(finding, *words)


def ready_when(tool: str, pattern: str, *habits: str, timeout: float = 60) -> PlannedServer:
    planned = faults(*habits, timeout=timeout)
    assert isinstance(planned.config, StdioServer)
    check = ReadyCheck(tool=tool, regex=pattern)
    return PlannedServer(name="faults", config=planned.config.model_copy(update={"ready": check}))


def test_ready__server_is_used_when_its_answer_matches() -> None:
    # The tool counts the calls: the third answer is ready, the fourth call is the task's.
    result = run(direct_task(ready_when("count", "3"), "count")).result
    assert result.response == "4"


def test_ready__server_may_refuse_calls_and_list_its_tools_later() -> None:
    [server] = run(direct_task(ready_when("count", "3", "waking"), "count")).report.servers
    assert len(server.tools) == 16


def test_ready__refusal_is_the_last_answer() -> None:
    result = run(direct_task(ready_when("refuse", "x", timeout=1), "count")).result
    assert result.error is not None
    assert_names(result.error.detail, "not ready", "not today")


def test_ready__lost_server_is_not_waited_for() -> None:
    result = run(direct_task(ready_when("die", "x"), "count")).result
    assert result.error is not None
    assert_names(result.error.detail, "does not start", "out of luck")


def test_ready__server_that_never_is_says_its_last_answer() -> None:
    result = run(direct_task(ready_when("fail", "done", timeout=1), "count")).result
    assert result.error is not None
    assert result.error.kind is ErrorKind.SERVER_START
    assert_names(result.error.detail, "not ready", "no matches found")


@pytest.mark.parametrize(("model", "count"), [("claude-opus-5", 1), ("deepseek-v4", 0)])
def test_conversation__image_reaches_a_model_that_takes_it(model: str, count: int) -> None:
    played = scripted(calls(("image", {})), says("A picture."))
    task = harness_task(faults(), model=model)
    result = run(task, model=played).result
    [block] = [
        block
        for block in played.requests[1].messages[-1].content
        if isinstance(block, ToolResultBlock)
    ]
    assert len(block.images) == count
    assert "image/png" in block.content
    # The result holds its type and size only.
    assert "AAAA" not in repr(asdict(result))
