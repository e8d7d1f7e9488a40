"""The names of runs that an agent makes again because the service asked for it.

The name is all that tells such a run from the next ordinary one, in every source. So only the run
that asked for it reads it: no trigger, no schedule and no "newest run" takes it.
"""

from typing import Final

PREFIX: Final = "mosaico-repetition-"


def name_of_repetition(request_id: str) -> str:
    return f"{PREFIX}{request_id}"


def is_repetition(run_name: str | None) -> bool:
    return run_name is not None and run_name.startswith(PREFIX)
