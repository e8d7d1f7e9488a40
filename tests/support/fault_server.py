"""A faulty MCP server over stdio: `python fault_server.py [habit…]`.

It does not use the SDK, so it starts fast and can send messages that no SDK would send.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

JSON = dict[str, Any]

# Habits: faults that do not depend on the request.
MUTE = "mute"  # never answers
DYING = "dying"  # writes a reason to stderr and exits
DEAF = "deaf"  # ignores the end of its input and SIGTERM
CHATTY = "chatty"  # writes log lines to stdout
TOOLLESS = "toolless"  # does not support tools
UNLICENSED = "unlicensed"  # refuses the session
BOUNDLESS = "boundless"  # lists also a tool with a non-finite number in its schema
SCHEMALESS = "schemaless"  # lists also a tool without a schema
CIRCLING = "circling"  # repeats its first page of tools for ever
BLANK = "blank"  # ends its list with an empty cursor
ENDLESS = "endless"  # has one more tool on every page
WAKING = "waking"  # refuses two calls, and lists no tools before
GROWING = "growing"  # has one more tool after a call of `grow`, and says so
AWAKE = 2  # calls

TEXT: JSON = {"type": "object", "properties": {"text": {"type": "string"}}}
SIZE: JSON = {"type": "object", "properties": {"bytes": {"type": "integer"}}}
MEETING: JSON = {"type": "object", "properties": {"mine": {"type": "string"}}}
NOTHING: JSON = {"type": "object", "properties": {}}
TOOLS: dict[str, JSON] = {
    "echo": TEXT,
    "count": NOTHING,
    "fail": TEXT,
    "image": NOTHING,
    "nothing": NOTHING,
    "structured": NOTHING,
    "ill_formed": NOTHING,
    "huge": SIZE,
    "environment": NOTHING,
    "family": NOTHING,
    "meet": MEETING,
    "die": NOTHING,
    "hang": NOTHING,
    "garble": NOTHING,
    "flood_line": NOTHING,
    "flood_lines": NOTHING,
}
# Tools that are not listed, so that the other tests have sixteen.
GROWN: JSON = {"name": "grown", "inputSchema": NOTHING}
UNION: JSON = {
    "anyOf": [
        {"properties": {"id": {"type": "integer"}}, "required": ["id"]},
        {"properties": {"name": {"type": "string"}}, "required": ["name"]},
    ]
}
SLEEPER = [sys.executable, "-I", "-S", "-c", "import time; time.sleep(3600)"]


class Server:
    """Answers each line of its input."""

    def __init__(self, habits: list[str]) -> None:
        self.habits = habits
        self.calls = 0
        self.grown = False

    def run(self) -> None:
        if DEAF in self.habits:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if DYING in self.habits:
            sys.exit("the licence has expired")
        for line in sys.stdin:
            request = json.loads(line)
            if CHATTY in self.habits:
                write("INFO a request has come\n{not even json\n\n")
            if "id" in request and MUTE not in self.habits:
                self.answer(request)
        while DEAF in self.habits or MUTE in self.habits:
            time.sleep(3600)

    def answer(self, request: JSON) -> None:
        method = request["method"]
        if method == "initialize" and UNLICENSED in self.habits:
            error = {"code": -32000, "message": "license expired"}
            send({"jsonrpc": "2.0", "id": request["id"], "error": error})
            return
        if method == "initialize":
            result: JSON = {
                # The newest version of the protocol that the client offers:
                # an older one is a case of its own.
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "faults", "version": "1.2.3"},
                "instructions": "Expect the worst.",
            }
        elif method == "tools/list" and TOOLLESS not in self.habits:
            result = self.page(request.get("params", {}).get("cursor", "0"))
        elif method == "tools/call" and WAKING in self.habits and self.calls < AWAKE:
            self.calls += 1
            error = {"code": -32000, "message": "still connecting"}
            send({"jsonrpc": "2.0", "id": request["id"], "error": error})
            return
        elif method == "tools/call" and request["params"]["name"] in REFUSALS:
            error = REFUSALS[request["params"]["name"]]
            send({"jsonrpc": "2.0", "id": request["id"], "error": error})
            return
        elif method == "tools/call" and TOOLLESS not in self.habits:
            result = self.call(request["params"]["name"], request["params"].get("arguments") or {})
        else:
            error = {"code": -32601, "message": "Method not found"}
            send({"jsonrpc": "2.0", "id": request["id"], "error": error})
            return
        send({"jsonrpc": "2.0", "id": request["id"], "result": result})

    def page(self, cursor: str) -> JSON:
        """One page of ten tools."""
        if ENDLESS in self.habits:
            tool = {"name": f"tool_{cursor}", "inputSchema": NOTHING}
            return {"tools": [tool], "nextCursor": str(int(cursor) + 1)}
        if WAKING in self.habits and self.calls < AWAKE:
            return {"tools": []}
        start = int(cursor or 0)
        if CIRCLING in self.habits:
            return {**self.slice(0), "nextCursor": "7"}
        page = self.slice(start)
        if BLANK in self.habits and "nextCursor" not in page:
            page["nextCursor"] = ""
        return page

    def slice(self, start: int) -> JSON:
        # Fewer than all tools, so that the client has to follow `nextCursor`.
        names = list(TOOLS)[start : start + 10]
        tools = [{"name": n, "description": f"Does {n}.", "inputSchema": TOOLS[n]} for n in names]
        if start + 10 < len(TOOLS):
            return {"tools": tools, "nextCursor": str(start + 10)}
        if BOUNDLESS in self.habits:
            schema = {**SIZE, "maxProperties": float("inf")}
            tools.append({"name": "boundless", "inputSchema": schema})
        if SCHEMALESS in self.habits:
            tools += [{"name": "schemaless"}, {"name": "choose", "inputSchema": UNION}]
        if GROWING in self.habits:
            tools += [{"name": "grow", "inputSchema": NOTHING}, *([GROWN] if self.grown else [])]
        return {"tools": tools}

    def ask(self, method: str, params: JSON) -> JSON:
        """Send a request to the client and wait for the response."""
        send({"jsonrpc": "2.0", "id": "from the server", "method": method, "params": params})
        for line in sys.stdin:
            message: JSON = json.loads(line)
            if message.get("id") == "from the server":
                reply: JSON = message.get("result") or message["error"]
                return reply
        raise EOFError

    def call(self, tool: str, arguments: JSON) -> JSON:
        self.calls += 1
        DEEDS.get(tool, nothing)()
        if tool in QUESTIONS:
            return text(json.dumps(self.ask(*QUESTIONS[tool])))
        match tool:
            case "count":
                arguments = {"text": str(self.calls)}
            case "fail":
                return {**text(arguments.get("text", "no matches found")), "isError": True}
            case "huge":
                arguments = {"text": "x" * arguments["bytes"]}
            case "grow":
                self.grown = True
                send({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
            case "meet":
                meet(arguments["mine"], arguments["other"])
            case "environment":
                return text(json.dumps(dict(os.environ)))
            case "family":
                # The child inherits the pipes, as children of careless servers do.
                return text(str(subprocess.Popen(SLEEPER).pid))
        return ANSWERS.get(tool) or text(arguments.get("text", ""))


def nothing() -> None:
    """Most tools only answer."""


def die() -> None:
    sys.stderr.write("out of luck\n")
    sys.stderr.flush()
    os._exit(3)


def hang() -> None:
    time.sleep(3600)


def leave() -> None:
    # The end of the output without the end of the process: the client may not wait for an exit.
    os.close(1)
    hang()


def meet(mine: str, other: str) -> None:
    """Writes one file and waits for the other one, which another server writes."""
    Path(mine).touch()
    while not Path(other).exists():
        time.sleep(0.005)


def garble() -> None:
    # A line that never becomes JSON, and then silence: only the time limit of the call ends it.
    write('{"jsonrpc": "2.0", "id": 7, "result": {\n')
    hang()


def flood(piece: str) -> None:
    while True:
        write(piece)


def text(message: str) -> JSON:
    return {"content": [{"type": "text", "text": message}]}


def send(message: JSON) -> None:
    write(json.dumps(message) + "\n")


def write(piece: str) -> None:
    sys.stdout.write(piece)
    sys.stdout.flush()


DEEDS: dict[str, Callable[[], None]] = {
    "die": die,
    "hang": hang,
    "leave": leave,
    "garble": garble,
    # Without an end of line the client must limit one message; with them, the sum of all lines.
    "flood_line": partial(flood, "x" * 65536),
    "flood_lines": partial(flood, "still working\n" * 5000),
}
ANSWERS: dict[str, JSON] = {
    "image": {"content": [{"type": "image", "data": "AAAA", "mimeType": "image/png"}]},
    "nothing": {"content": []},
    "structured": {"content": [], "structuredContent": {"n": 1}},
    "ill_formed": {"content": "no list"},
    "half_formed": {
        "content": [{"type": "text", "text": "useful"}, {"type": "hologram"}],
        "structuredContent": [1],
    },
}
REFUSALS: dict[str, JSON] = {
    "refuse": {"code": -32000, "message": "not today"},
    "ask_consent": {"code": -32042, "message": "log in first", "data": {"elicitations": []}},
}
QUESTIONS: dict[str, tuple[str, JSON]] = {
    "ask_form": (
        "elicitation/create",
        {
            "message": "Sure?",
            "requestedSchema": {"type": "object", "properties": {"sure": {"type": "boolean"}}},
        },
    ),
    "ask_url": (
        "elicitation/create",
        {"mode": "url", "message": "Log in", "url": "http://x.test/", "elicitationId": "1"},
    ),
    "ask_model": (
        "sampling/createMessage",
        {
            "messages": [{"role": "user", "content": {"type": "text", "text": "Hm?"}}],
            "maxTokens": 9,
        },
    ),
}


if __name__ == "__main__":
    Server(sys.argv[1:]).run()
