"""The names of runs that an agent repeats at the request of the service.

In every source, only its name distinguishes such a run from the next ordinary one. So only the run that
requested it reads it: no trigger, no schedule and no "newest run".
"""

from typing import Final

PREFIX: Final = "mosaico-repetition-"


def name_of_repetition(request_id: str) -> str:
    return f"{PREFIX}{request_id}"


def is_repetition(run_name: str | None) -> bool:
    return run_name is not None and run_name.startswith(PREFIX)
