"""A command of which one function ends the process at once, as SIGKILL does.

Arguments: the module and the name of the function, "before" or "after" it has done its work, and the words
of the command.
"""

import importlib
import os
import sys
from typing import Any

from mosaico import cli

EXIT_CODE = 9


def kill_in(module: str, path: str, when: str) -> None:
    """Let the function end the process."""
    owner: Any = importlib.import_module(module)
    *parents, name = path.split(".")
    for parent in parents:
        owner = getattr(owner, parent)
    original = getattr(owner, name)

    def kill(*arguments: Any, **options: Any) -> None:
        if when == "after":
            original(*arguments, **options)
        # No `finally`, no exit handler and no flush, as with SIGKILL;
        # the exit code proves that it was here.
        os._exit(EXIT_CODE)

    setattr(owner, name, kill)


def main() -> None:
    kill_in(*sys.argv[1:4])
    sys.argv[1:] = sys.argv[4:]
    cli.main()
