"""Rows of repeated-trial statistics (pass@k and pass^k) from the metrics that the API returns."""

from collections.abc import Iterable
from typing import Any


def list_trial_statistics(metrics: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return one row per metric and k; empty if no item of the run has more than one trial."""
    return [
        {"metric": metric["metric"], **statistics}
        for metric in metrics
        for statistics in (metric["verdict"] or {}).get("repeats", ())
    ]
