"""The entry points of the programs `mosaico`, `ot-bench` and `bashkit-eval`.

Nothing but the standard library is imported at the top: a program is interruptible without a
traceback from its first moment on.
"""

import os
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
        _start_again_without_current_folder()
    # Only here: the process that starts again would import it in vain.
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


def _start_again_without_current_folder() -> None:
    """Replace this process by the same program with Python's option `-P`.

    The children that `multiprocessing` starts inherit the options of Python: without `-P` they
    would import a `queue.py` of the current folder instead of the standard library's. The
    environment variable of the same meaning would reach the commands of agents, too.
    """
    os.execv(sys.executable, [sys.executable, "-P", *sys.orig_argv[1:]])  # noqa: S606 (ourselves)
