"""Commands of `ot-bench` in the process of the test, and the benchmarks that they run."""

import json
import sys
from pathlib import Path

from typer.testing import CliRunner, Result

from mosaico.harness.mcp.cli.ot_bench import cli
from mosaico.llm.conversation import (
    ChatMessage,
    MessageRole,
    StopReason,
    TextBlock,
    Usage,
)
from tests.support.mcp_servers import FAULTS
from tests.support.model_server import (
    ReceivedRequest,
    ScriptedReply,
)

ROOT = Path(__file__).resolve().parents[2]

SERVERS = f"""
description: what echoes
defaults: {{timeout: 60}}
servers:
  faults:
    type: stdio
    command: {json.dumps(sys.executable)}
    # Without the packages of the environment, whose import takes longer than the server.
    args: [-I, -S, {json.dumps(str(FAULTS))}]
    timeout: 60
"""
DIRECT = (
    SERVERS
    + """
scenarios:
  - name: direct
    share_servers: true
    tasks:
      - name: tool:echo:right
        type: direct
        server: faults
        tool: echo
        arguments: {text: good morning}
        tags: [tool]
        evaluate: {expected: good morning}
      - name: tool:echo:wrong
        type: direct
        server: faults
        tool: echo
        arguments: {text: good evening}
        tags: [error]
        evaluate: {expected: good morning}
"""
)
ASKING = (
    SERVERS
    + """
scenarios:
  - name: asked
    tasks:
      - {name: "compare:base", prompt: "How much is 6 x 7?", evaluate: {expected: 42}}
      - {name: "compare:mcp", prompt: "How much is 6 x 7?", server: faults, evaluate: {expected: 42}}
"""
)


def ot_bench(*arguments: str | Path, **environment: str) -> Result:
    return CliRunner().invoke(cli, [*map(str, arguments)], env=environment)


def bench_file(text: str, name: str = "bench.yaml") -> Path:
    path = Path(name)
    path.write_text(text)
    return path


def answers(request: ReceivedRequest) -> ScriptedReply:
    """Says 42 [/x]: what looks like markup must break nothing."""
    message = ChatMessage(role=MessageRole.ASSISTANT, content=(TextBlock(text="It is 42 [/x]."),))
    return ScriptedReply(
        message=message, stop=StopReason.END, usage=Usage(input_tokens=100, output_tokens=7)
    )
