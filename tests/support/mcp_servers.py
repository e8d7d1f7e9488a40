"""MCP servers for tests: the reference servers, installed once, and a faulty server."""

import sys
from collections.abc import Mapping
from pathlib import Path

from mosaico.harness.mcp.config import HttpServer, StdioServer
from mosaico.harness.mcp.plan import PlannedServer
from tests.support.cached_tools import npm_programs

LOCKED = Path(__file__).with_name("npm_servers")
FAULTS = Path(__file__).with_name("fault_server.py")


Environment = Mapping[str, str] | None


def stdio(
    name: str, command: str, *args: str, timeout: float = 60, env: Environment = None
) -> PlannedServer:
    """A stdio server with these variables in addition to PATH."""
    config = StdioServer(
        type="stdio", command=command, args=list(args), env=dict(env or {}), timeout=timeout
    )
    return PlannedServer(name=name, config=config)


def http(name: str, url: str, *, timeout: float = 60) -> PlannedServer:
    return PlannedServer(name=name, config=HttpServer(type="http", url=url, timeout=timeout))


def faults(
    *habits: str, name: str = "faults", timeout: float = 60, env: Environment = None
) -> PlannedServer:
    """The server of `tests.support.fault_server` with these habits."""
    program = [sys.executable, "-I", "-S", str(FAULTS)]
    return stdio(name, *program, *habits, timeout=timeout, env=env)


def node_programs() -> Path:
    """The folder of the programs of `npm_servers`, installed into the user's cache if missing."""
    return npm_programs(LOCKED)


def node_server(program: str, *args: str, env: Environment = None) -> PlannedServer:
    return stdio(program, str(node_programs() / f"mcp-server-{program}"), *args, env=env)
