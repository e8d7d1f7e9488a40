"""Moves the clock of this Python process; loaded at its start when its folder is on PYTHONPATH.

The file `MOSAICO_TEST_CLOCKS/COMMAND` holds the seconds by which the clock of `mosaico COMMAND` is ahead.
"""

import os
import sys
import threading
import time
from pathlib import Path

import time_machine

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


if "MOSAICO_TEST_CLOCKS" in os.environ and "app.cli" in sys.orig_argv:
    command_file = Path(os.environ["MOSAICO_TEST_CLOCKS"]) / sys.orig_argv[-1]
    threading.Thread(target=follow, args=[command_file], daemon=True).start()
