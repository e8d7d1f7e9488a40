"""The entry points of the programs `mosaico`, `ot-bench` and `bashkit-eval`.

Nothing but the standard library is imported at the top: a program is interruptible without a
traceback from its first moment on.
"""

import os
import sys
from importlib import import_module

EXIT_INTERRUPTED = 130
COMMANDS_WITH_CHILDREN = {"api", "worker"}


def mosaico() -> None:
    """Run the program `mosaico`."""
    _run("mosaico.cli")


def ot_bench() -> None:
    """Run the program `ot-bench`."""
    _run("mosaico.harness.mcp.cli.ot_bench")


def bashkit_eval() -> None:
    """Run the program `bashkit-eval`."""
    _run("mosaico.harness.bash.cli")


def _run(module: str) -> None:
    """Import the module of a program and run its `main`."""
    if not sys.flags.safe_path:
        _ignore_current_folder()
    # Only here: the current folder may have a `signal.py`.
    import signal

    # Python would print where in the imports the program was interrupted. A shell that started it
    # with ignored signals, such as nohup, is obeyed.
    is_interruptible = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_interruptible:
        signal.signal(signal.SIGINT, lambda *_: os._exit(EXIT_INTERRUPTED))
    main = import_module(module).main
    if is_interruptible:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    main()


def _ignore_current_folder() -> None:
    """As Python's option `-P`: import no `queue.py` of the current folder in place of the standard library's.

    The children that `multiprocessing` starts inherit the options of Python: their parents start again with `-P`. The
    environment variable of the same meaning would reach the commands of agents, too.
    """
    if not COMMANDS_WITH_CHILDREN.isdisjoint(sys.argv[1:]):
        os.execv(sys.executable, [sys.executable, "-P", *sys.orig_argv[1:]])  # noqa: S606 (ourselves)
    try:
        folder = os.getcwd()  # noqa: PTH109 - nothing more is imported yet
    except FileNotFoundError:  # it was deleted
        return
    if sys.path[0] in ("", folder):
        del sys.path[0]
