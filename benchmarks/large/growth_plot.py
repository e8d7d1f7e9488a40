"""The growth of a figure with the size of a run, as an SVG chart."""

from collections.abc import Mapping
from pathlib import Path

from app.core.web.trend_chart import TrendPoint, trend_chart


def write_growth_plot(file: Path, title: str, unit: str, values: Mapping[int, float]) -> None:
    """Write a chart of values by size; sizes that grow tenfold have equal distances."""
    points = [
        TrendPoint(f"{size:,}", value, None, None, None, text=f"{size:,}: {value:.3g} {unit}")
        for size, value in sorted(values.items())
    ]
    file.write_text(trend_chart(title, points, unit) + "\n")
