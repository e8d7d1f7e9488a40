"""Names of tools for the model, and the system message."""

from dataclasses import dataclass
from typing import Any

from mosaico.harness.mcp.agent_loop.toolbox import MAX_NAME_CHARS, Toolbox, system_message
from mosaico.harness.mcp.types import McpToolCall, ServerFacts, ToolFacts


@dataclass(slots=True)
class Offering:
    """A server whose tools are only listed."""

    name: str
    facts: ServerFacts

    async def call(self, tool: str, arguments: dict[str, Any]) -> McpToolCall:
        raise AssertionError(f"nobody calls {tool} with {arguments}")


def offering(name: str, *tools: str, **more: Any) -> Offering:
    listed = tuple(
        ToolFacts(name=tool, description=f"Does {tool}.", input_schema={}, tokens=1)
        for tool in tools
    )
    facts: dict[str, Any] = {"version": None, "instructions": None, **more}
    return Offering(name, ServerFacts(file="f", name=name, tools=listed, **facts))


def test_toolbox__invalid_characters_in_names_are_replaced() -> None:
    box = Toolbox([offering("a", "files.read/all", "x" * 100)])
    assert box.names() == ["files_read_all", "x" * MAX_NAME_CHARS]
    route = box.find("files_read_all")
    assert route is not None
    assert route.tool == "files.read/all"


def test_toolbox__equal_names_are_numbered() -> None:
    # Names that become equal, by replaced characters and by the
    # limit of 64, which leaves room for a number.
    box = Toolbox([offering("a", "read.it", "read/it", "x" * 64, "x" * 65)])
    assert box.names() == ["read_it", "read_it_2", "x" * 64, "x" * 60 + "_2"]
    assert [box.find(name) is not None for name in box.names()] == [True] * 4


def test_system_message__holds_instructions_prompts_and_resources() -> None:
    talkative = offering(
        "a", "read", instructions="Read first.", prompts=("p", "q"), resources=("demo://1",)
    )
    assert system_message("Be brief.", [talkative.facts, offering("b", "x", "y").facts]) == (
        "Be brief.\n\n"
        "Instructions of a:\nRead first.\n\n"
        "Prompts of a: p, q\n\n"
        "Resources of a: demo://1\n\n"
        "You have 3 tools of 2 servers."
    )


def test_system_message__without_servers_is_the_prompt_of_the_file() -> None:
    assert system_message(None, []) == ""
    assert system_message("Be brief.", []) == "Be brief."
