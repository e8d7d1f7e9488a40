"""The pictures of `docs/statistics.md`, drawn by the same code that draws runs.

`python -m tests.support.statistics_pictures` writes them.
"""

from pathlib import Path

from app.reporting.charts import Change, ItemChange, Reading, changes_chart, items_chart, kpi_trend

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "pictures"

# Passes of 37 tasks, night by night, with the interval of Wilson, and what is said of each.
NIGHTS = [
    ("11-14", 32, 0.720, 0.941, None),
    ("11-15", 30, 0.658, 0.905, "INCONCLUSIVE"),
    ("11-16", 33, 0.753, 0.957, "INCONCLUSIVE"),
    ("11-17", 31, 0.689, 0.923, "INCONCLUSIVE"),
    ("11-18", 29, 0.628, 0.886, "INCONCLUSIVE"),
    ("11-19", 32, 0.720, 0.941, "INCONCLUSIVE"),
    ("11-20", 19, 0.359, 0.666, "REGRESSED"),
    ("11-21", 32, 0.720, 0.941, "IMPROVED"),
]


def pictures() -> dict[str, str]:
    """Each picture by the name of its file."""
    return {
        "trend.svg": kpi_trend("quality, eight nights of 37 tasks", _nights()),
        "verdicts.svg": changes_chart("four changes, and what they are called", _verdicts()),
        "items.svg": items_chart("40 items: ten fell, one rose", _items()),
    }


def _nights() -> list[Reading]:
    return [
        Reading(label, passed / 37, low, high, verdict)
        for label, passed, low, high, verdict in NIGHTS
    ]


def _verdicts() -> list[Change]:
    return [
        Change("certainly worse", -0.16, -0.24, -0.08, 0.05, "REGRESSED"),
        Change("certainly better", 0.14, 0.06, 0.22, 0.05, "IMPROVED"),
        Change("certainly the same", 0.005, -0.03, 0.04, 0.05, "NO_EVIDENCE"),
        Change("nobody can tell", -0.08, -0.22, 0.06, 0.05, "INCONCLUSIVE"),
    ]


def _items() -> list[ItemChange]:
    changes = dict.fromkeys(range(10), -1.0) | {39: 1.0}
    return [ItemChange(f"i-{number}", changes.get(number, 0.0)) for number in range(40)]


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, picture in pictures().items():
        (FOLDER / name).write_text(picture, encoding="utf-8")
