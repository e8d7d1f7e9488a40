"""The failure of one metric or KPI never touches another: it is kept and logged, the rest is computed."""

from collections.abc import Callable, Mapping
from typing import TypeVar

from mosaico.core.text import replace_unstorable, shorten
from mosaico.kpis.verdict_types import SubjectKey, ValueFailure

T = TypeVar("T")

_ERROR_CHARS = 300


class ValueFailures:
    """The metrics and KPIs that could not be computed, each with its first error."""

    def __init__(self, earlier: Mapping[SubjectKey, ValueFailure] | None = None) -> None:
        self.by_key = dict(earlier or {})

    def attempt(self, key: SubjectKey, compute: Callable[[], T]) -> T | None:
        """The result of a computation that belongs to one metric or KPI; None when it fails."""
        try:
            return compute()
        # Any error: a formula, the data or a plugin that counts labels may raise whatever it likes.
        # It belongs to one metric or KPI; let through, it would void the verdicts of all others of the
        # run, and the pages that show them.
        except Exception as error:  # noqa: BLE001
            message = replace_unstorable(f"{type(error).__name__}: {error}")
            message = shorten(message, _ERROR_CHARS)
            # Only here: failures are rare.
            import traceback

            self.by_key.setdefault(key, ValueFailure(message, traceback.format_exc()))
            return None


def describe_failure(name: str, failure: ValueFailure) -> str:
    """The reason why a metric or KPI has no verdict."""
    return f"the comparison of {name} failed: {failure.error}"


def log_failures(run_id: str, failures: Mapping[SubjectKey, ValueFailure]) -> None:
    """Log the metrics and KPIs of a run that could not be computed."""
    for (column, kpi_id), failure in failures.items():
        # Only here: failures are rare.
        import logging

        logging.getLogger(__name__).error(
            "the comparison of %s in run %s failed: %s", column or kpi_id, run_id, failure.details
        )
