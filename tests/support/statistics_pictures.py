"""The charts of `docs/statistics.md` and `docs/comparison.md`, drawn by the code of the run charts."""

from mosaico.core.web.change_charts import ChangeBar, ItemChange, changes_chart, items_chart
from mosaico.core.web.trend_chart import TrendPoint, trend_chart

# Passed tasks of 37 per run, with Wilson's interval and the verdict.
RUNS = [
    ("11-14", 32, 0.720, 0.941, None),
    ("11-15", 30, 0.658, 0.905, "INCONCLUSIVE"),
    ("11-16", 33, 0.753, 0.957, "INCONCLUSIVE"),
    ("11-17", 31, 0.689, 0.923, "INCONCLUSIVE"),
    ("11-18", 29, 0.628, 0.886, "INCONCLUSIVE"),
    ("11-19", 32, 0.720, 0.941, "INCONCLUSIVE"),
    ("11-20", 19, 0.359, 0.666, "REGRESSED"),
    ("11-21", 32, 0.720, 0.941, "IMPROVED"),
]


def charts() -> dict[str, str]:
    """Each chart by its file name."""
    return {
        "trend.svg": trend_chart("quality, eight runs of 37 tasks", _points()),
        "verdicts.svg": changes_chart("four changes and their verdicts", _changes()),
        "items.svg": items_chart("40 items: ten worse, one better", _items()),
    }


def _points() -> list[TrendPoint]:
    return [
        TrendPoint(label, passed / 37, low, high, verdict)
        for label, passed, low, high, verdict in RUNS
    ]


def _changes() -> list[ChangeBar]:
    return [
        ChangeBar("worse", "−0.160", -0.16, -0.24, -0.08, 0.05, "REGRESSED"),
        ChangeBar("better", "+0.140", 0.14, 0.06, 0.22, 0.05, "IMPROVED"),
        ChangeBar("unchanged", "+0.005", 0.005, -0.03, 0.04, 0.05, "NO_EVIDENCE"),
        ChangeBar("unknown", "−0.080", -0.08, -0.22, 0.06, 0.05, "INCONCLUSIVE"),
    ]


def _items() -> list[ItemChange]:
    changes = dict.fromkeys(range(10), -1.0) | {39: 1.0}
    return [ItemChange(f"i-{number}", changes.get(number, 0.0)) for number in range(40)]
