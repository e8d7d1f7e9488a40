"""docs/mcp.md: the configurations start the command, and the table has the tools with their arguments."""

import json
import re
from pathlib import Path
from typing import Any

from mosaico.mcp_server.tool_table import tool_of_files, tools_of_service

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "mcp.md").read_text(encoding="utf-8")


def configured_servers() -> list[dict[str, Any]]:
    blocks = re.findall(r"^```json\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    documents = [json.loads(block) for block in blocks]
    # VS Code has its own name for the same object.
    return [
        (document.get("mcpServers") or document["servers"])["mosaico"] for document in documents
    ]


def test_page__configurations_start_the_command_and_contain_no_key() -> None:
    servers = configured_servers()
    # Claude Code, Cursor and VS Code, and one over HTTP.
    assert len(servers) == 4
    for server in servers:
        if "command" in server:
            assert (server["command"], server["args"]) == ("mosaico", ["mcp"])
            assert set(server["env"]) == {"MOSAICO_URL", "MOSAICO_API_KEY"}
            assert server["env"]["MOSAICO_API_KEY"].startswith("${")
        else:
            assert server["headers"]["Authorization"].startswith("Bearer ${")


def test_page__table_has_every_tool_with_its_arguments() -> None:
    rows = re.findall(r"^\| `(\w+)` \|.*\| (.*) \|$", PAGE, re.MULTILINE)
    documented = {name: set(re.findall(r"`(\w+)`", arguments)) for name, arguments in rows}
    tools = [*tools_of_service(allow_runs=True), tool_of_files(Path())]
    assert documented == {tool.name: set(tool.arguments.model_fields) for tool in tools}
