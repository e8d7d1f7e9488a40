"""Tools of npm and PyPI that tests run and the product does not need: installed once, into the user's cache."""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import platformdirs
import pytest

INSTALL_S = 300


@cache
def npm_programs(locked: Path) -> Path:
    """The programs of a folder with `package-lock.json`; the test is skipped where npm is missing."""
    if shutil.which("npm") is None:
        pytest.skip("Node is not installed: the programs of npm cannot be started")

    def install(folder: Path) -> None:
        for name in ("package.json", "package-lock.json"):
            shutil.copy(locked / name, folder)
        # Scripts of packages are foreign code, and an audit sends
        # the list of packages to the registry.
        options = ("--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline")
        _run(("npm", "ci", *options), folder)

    return _installed(locked / "package-lock.json", install) / "node_modules" / ".bin"


@cache
def python_programs(requirements: Path) -> Path:
    """The programs of a requirements file with hashes, in an environment of their own."""

    def install(folder: Path) -> None:
        venv.create(folder / "venv", with_pip=True)
        options = ("--quiet", "--no-deps", "--require-hashes", "--disable-pip-version-check")
        python = str(folder / "venv" / "bin" / "python")
        _run((python, "-m", "pip", "install", *options, "-r", str(requirements)), folder)

    return _installed(requirements, install) / "venv" / "bin"


def _installed(lock: Path, install: Callable[[Path], None]) -> Path:
    """The folder of a lock file, installed if it is not complete; the lock determines the versions."""
    # An environment of another Python version cannot be used: its packages lie in another folder.
    content = f"{sys.version_info[:2]}".encode() + lock.read_bytes()
    cache_of_tests = platformdirs.user_cache_path("mosaico-tests", ensure_exists=True)
    folder = cache_of_tests / f"tools-{hashlib.sha256(content).hexdigest()[:16]}"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as alone:  # several test workers may install at once
        fcntl.flock(alone, fcntl.LOCK_EX)
        if not (folder / "complete").exists():
            install(folder)
            # Last: a killed installation leaves a folder without this file, and is repeated.
            (folder / "complete").touch()
    return folder


def _run(command: Sequence[str], folder: Path) -> None:
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "npm_config_update_notifier": "false"},
        capture_output=True,
        text=True,
        timeout=INSTALL_S,
        check=False,
    )
    if done.returncode != 0:
        pytest.skip(f"the registry cannot be reached, or lacks a package: {done.stderr[-300:]}")
