"""Moves the clocks of the service; loaded at the start of Python when its folder is on PYTHONPATH.

The file `MOSAICO_TEST_CLOCKS/COMMAND` holds the seconds by which the clock of `mosaico COMMAND` is ahead,
and the file `postgres` those of the server that `mosaico serve` starts. With `MOSAICO_TEST_FAKETIME`, the
path of libfaketime, the clocks of whole processes and of their children move; without it what Python
reads in one process.
"""

import os
import select
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import time_machine

FOLDER, LIBRARY = "MOSAICO_TEST_CLOCKS", "MOSAICO_TEST_FAKETIME"
POLL_S = 0.02


def follow(file: Path) -> None:
    """Set the clock whenever the content of the file changes."""
    wait, current, travel = threading.Event(), 0.0, None
    while True:
        offset_s = float(file.read_text()) if file.exists() else 0.0
        if offset_s != current:
            if travel is not None:
                travel.stop()
            # The real time again, now that nothing moves it.
            travel = time_machine.travel(time.time() + offset_s, tick=True)
            travel.start()
            current = offset_s
        wait.wait(POLL_S)


def clock_of(file: Path) -> dict[str, str]:
    """The environment of a process whose clock libfaketime moves."""
    return {
        "LD_PRELOAD": os.environ[LIBRARY],
        "FAKETIME_TIMESTAMP_FILE": str(file),
        "FAKETIME_CACHE_DURATION": "1",
        # Nothing can set the monotonic clock of a real machine either.
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }


def sleep(seconds: float) -> None:
    """`time.sleep` by a relative time: libfaketime 0.9.10 moves absolute ones of the monotonic clock, too."""
    select.select([], [], [], seconds)


def move_postgres(file: Path) -> None:
    """Start the server with a moved clock. Any process of the service may start it, after its end too, and
    gives it no environment.
    """
    run = subprocess.run

    def run_moved(command: Any, *, env: Any = None, **options: Any) -> Any:
        if Path(command[0]).name == "pg_ctl":
            # Every session sees the new time at once, as on a real machine.
            env = {**env, **clock_of(file), "FAKETIME_NO_CACHE": "1"}
        return run(command, env=env, **options)

    vars(subprocess)["run"] = run_moved


if "FAKETIME_TIMESTAMP_FILE" in os.environ:
    vars(time)["sleep"] = sleep
if FOLDER in os.environ and "mosaico.cli" in sys.orig_argv:
    command_file = Path(os.environ[FOLDER]) / sys.orig_argv[-1]
    if LIBRARY not in os.environ:
        # A process with threads cannot fork safely: `serve`, which has no clock of its own, gets none.
        if command_file.exists():
            threading.Thread(target=follow, args=[command_file], daemon=True).start()
    elif command_file.name == "serve" or "LD_PRELOAD" in os.environ:
        move_postgres(command_file.with_name("postgres"))
    else:
        os.execve(sys.executable, sys.orig_argv, {**os.environ, **clock_of(command_file)})
