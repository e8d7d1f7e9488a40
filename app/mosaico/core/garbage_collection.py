"""Settings of the garbage collector for processes that run for long."""

import gc
from typing import Final

# New containers between two collections; the default of 700 is for short programs.
THRESHOLD: Final = 10_000


def pause_collection() -> None:
    """Collect nothing until `exclude_living_objects`: call it before a process imports its modules.

    What is imported lives as long as the process, and a fifth of the time of the imports was spent on scanning it.
    """
    gc.disable()


def exclude_living_objects() -> None:
    """Exclude the objects of the start from garbage collection, and collect less often.

    They live as long as the process; scanning them again and again would slow down all else.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(THRESHOLD)
    gc.enable()
