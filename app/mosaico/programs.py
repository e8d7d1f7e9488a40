"""The entry points of the programs `mosaico`, `ot-bench` and `bashkit-eval`.

Nothing but the standard library is imported at the top: a program is interruptible without a
traceback from its first moment on.
"""

import os
import signal
import sys
from importlib import import_module

EXIT_INTERRUPTED = 130


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
        # As Python's option `-P`: `python -m mosaico` would import a `queue.py` of the current folder, and a
        # script one of its own folder, instead of the standard library's. See also `ProcessPool`.
        del sys.path[0]
    # Python would print where in the imports the program was interrupted. A shell that started it
    # with ignored signals, such as nohup, is obeyed.
    is_interruptible = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_interruptible:
        signal.signal(signal.SIGINT, lambda *_: os._exit(EXIT_INTERRUPTED))
    main = import_module(module).main
    if is_interruptible:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    main()
