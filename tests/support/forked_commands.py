"""What a forked process does to run a command as if it had just been started."""

import contextlib
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures.process import _ExecutorManagerThread
from importlib import import_module
from multiprocessing.context import BaseContext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

# The other one only waits for the end of its input.
THREADS_WITHOUT_LOCKS = frozenset({"MainThread", "end with parent"})


def become(request: dict[str, Any]) -> None:
    """Run the command as `python -m` does: each module of commands has a `main`."""
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    for target, source in enumerate(request["files"]):
        os.dup2(source, target)
        os.close(source)
    # Those of this process remember what kind of file they had.
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", closefd=False, buffering=1, errors="backslashreplace")
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:0] = [request["folder"], *filter(None, paths)]
    _set_command(request["command"])
    _load_site_customization(paths)
    _fork_first_pool_children()
    if request["command"][:1] == ["serve"]:
        _fork_children_of_serve()
    import_module(request["module"]).main()


def _set_command(command: Sequence[str]) -> None:
    sys.argv = ["mosaico", *command]
    sys.orig_argv = [sys.executable, "-m", "mosaico.cli", *command]


def _load_site_customization(paths: Sequence[str]) -> None:
    """Do what a new interpreter does at its start."""
    for path in paths:
        file = Path(path) / "sitecustomize.py"
        if file.exists():
            runpy.run_path(str(file))
            return


def _fork_children_of_serve() -> None:
    serve: Any = import_module("mosaico.serve")
    serve.subprocess = SimpleNamespace(
        Popen=ForkedChild, PIPE=subprocess.PIPE, TimeoutExpired=subprocess.TimeoutExpired
    )


class ForkedChild(subprocess.Popen[bytes]):
    """A child of `mosaico serve` that is forked from it. It runs the last word of its arguments."""

    def _execute_child(self, args: Sequence[str], *options: Any) -> None:
        # The options of CPython 3.11 to 3.14, in their order.
        pass_fds, environment, standard_input = options[3], options[5], options[9]
        self.pid = os.fork()
        if self.pid:
            self._child_created = True
            os.close(standard_input)
            return
        try:
            os.setsid()
            os.dup2(standard_input, 0)
            close_other_files({0, 1, 2, *pass_fds})
            run_as_new_process(args[-1], environment)
        finally:
            # Never back into the caller: this process is a copy of
            # `serve` in the middle of its work.
            os._exit(1)


def close_other_files(open_files: set[int]) -> None:
    for descriptor in [int(link.name) for link in Path("/proc/self/fd").iterdir()]:
        if descriptor not in open_files:
            with contextlib.suppress(OSError):
                os.close(descriptor)


def run_as_new_process(command: str, environment: Mapping[str, str]) -> None:
    """Run a command as if this process had just been started, and end it."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(environment)
    _set_command([command])
    _load_site_customization(environment.get("PYTHONPATH", "").split(os.pathsep))
    Path("/proc/self/comm").write_text(command)
    code: Any = 0
    try:
        import_module("mosaico.cli").main()
    except SystemExit as end:
        code = end.code or 0
    sys.stdout.flush()
    sys.stderr.flush()
    # What the parent has opened stays as it is.
    os._exit(code)


def _fork_first_pool_children() -> None:
    """Let a worker fork the children that compute, as long as it has no thread that holds locks: a new
    interpreter takes a second. Those that replace them are new interpreters.
    """
    get_context = multiprocessing.get_context

    def choose(method: str | None = None) -> BaseContext:
        is_safe = method == "spawn" and all(map(_holds_no_lock, threading.enumerate()))
        return get_context("fork" if is_safe else method)

    multiprocessing.get_context = choose  # type: ignore[assignment]


def _holds_no_lock(thread: threading.Thread) -> bool:
    """Whether a thread holds no lock that a forked child needs: those of a pool have locks of its own."""
    is_of_pool = thread.name == "QueueFeederThread" or isinstance(thread, _ExecutorManagerThread)
    return is_of_pool or thread.name in THREADS_WITHOUT_LOCKS
