"""The symbol of each state, on pages and in charts: one symbol has one meaning; pure.

A symbol never stands alone: its word is beside it, or is the text of its tooltip.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

WORSE, BETTER = "▼", "▲"
NO_EVIDENCE = "○"
INCONCLUSIVE = "■"
CHANGED = "◆"
# Nothing in the run measures quality.
NOT_MEASURED = "?"
# Nothing that counts: too little was measured, nothing came, or it is not valid.
INVALID = "×"
FAILED = "✗"
DONE = "✓"
WAITING = "◷"
ACTIVE = "●"
WARNING = "!"
# The data of an earlier run.
SAME = "="
# Over without a result, off, or nothing to say.
NONE = "–"

VERDICTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "REGRESSED": WORSE,
        "IMPROVED": BETTER,
        "CHANGED": CHANGED,
        "NO_EVIDENCE": NO_EVIDENCE,
        "INCONCLUSIVE": INCONCLUSIVE,
        "INVALID": INVALID,
        "NOT_MEASURED": NOT_MEASURED,
    }
)
_STATES: Final[Mapping[str, str]] = MappingProxyType(
    {
        **VERDICTS,
        "SAME_ANSWERS": SAME,
        # Alert rules, alerts and incidents
        "FIRING": WORSE,
        "WORSE": WORSE,
        "OPEN": WORSE,
        "PARTLY_BACK": BETTER,
        "RECOVERED": BETTER,
        "RESOLVED": BETTER,
        "DISMISSED": NONE,
        "OK": DONE,
        "WARMUP": WAITING,
        "RUN_FAILED": FAILED,
        "RUN_INVALID": INVALID,
        "RUN_MISSED": INVALID,
        "STALE": INVALID,
        "SCHEDULE_MISSED": INVALID,
        # Runs, events, fires and deliveries
        "PENDING": WAITING,
        "WAITING": WAITING,
        "RUNNING": ACTIVE,
        "STARTED": DONE,
        "LATE": WARNING,
        "MISSED": INVALID,
        "COMPLETED": DONE,
        "DELIVERED": DONE,
        "FAILED": FAILED,
        "HELD": INVALID,
        # Traces
        "AGENT_ERROR": FAILED,
        "TIMEOUT": FAILED,
        "INFRA_ERROR": INVALID,
        "JUDGE_ERROR": INVALID,
    }
)


def symbol_of(state: str) -> str:
    """The symbol of a state by its word; `NONE` for a state that says nothing."""
    return _STATES.get(state.upper(), NONE)
