"""MCP servers for tests: the reference servers, installed once, and a faulty server."""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import platformdirs
import pytest

from app.harness.mcp.config import HttpServer, StdioServer
from app.harness.mcp.plan import PlannedServer

LOCKED = Path(__file__).with_name("npm_servers")
FAULTS = Path(__file__).with_name("fault_server.py")
INSTALL_S = 300


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


@cache
def node_programs() -> Path:
    """The folder of the programs of `npm_servers`, installed into the user's cache if missing.

    The lock file determines the versions, whichever registry npm uses.
    """
    if shutil.which("npm") is None:
        pytest.skip("Node is not installed: real servers of npm cannot be started")
    lock = (LOCKED / "package-lock.json").read_bytes()
    cache_of_tests = platformdirs.user_cache_path("mosaico-tests", ensure_exists=True)
    folder = cache_of_tests / f"npm-{hashlib.sha256(lock).hexdigest()[:16]}"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as alone:  # several test workers may install at once
        fcntl.flock(alone, fcntl.LOCK_EX)
        if not (folder / "complete").exists():
            _install(folder)
            (folder / "complete").touch()
    return folder / "node_modules" / ".bin"


def node_server(program: str, *args: str, env: Environment = None) -> PlannedServer:
    return stdio(program, str(node_programs() / f"mcp-server-{program}"), *args, env=env)


def _install(folder: Path) -> None:
    for file in LOCKED.iterdir():
        shutil.copy(file, folder)
    done = subprocess.run(
        ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline"],
        cwd=folder,
        env={**os.environ, "npm_config_update_notifier": "false"},
        capture_output=True,
        text=True,
        timeout=INSTALL_S,
        check=False,
    )
    assert done.returncode == 0, f"npm ci failed:\n{done.stdout}\n{done.stderr}"
