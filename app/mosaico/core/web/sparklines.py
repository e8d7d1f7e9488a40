"""Small SVG charts of table cells: the last values of a KPI, a change with its interval; pure."""

from collections.abc import Callable, Sequence

from mosaico.core.text import format_number
from mosaico.core.web.change_charts import ChangeBar
from mosaico.core.web.svg import BAND, COLORS, FAINT, INK, Axis, escape, mark_class

SPARK_WIDTH, SPARK_HEIGHT, SPARK_MARGIN = 120, 26, 4


def sparkline(
    values: Sequence[float],
    verdict: str | None = None,
    *,
    write: Callable[[float], str] = format_number,
    size: tuple[int, int] = (SPARK_WIDTH, SPARK_HEIGHT),
    usual: float | None = None,
) -> str:
    """A small line chart whose last value is marked; empty for fewer than two values. `write` gives the text of
    a value, `size` are width and height, `usual` is a level to draw as a line.
    """
    if len(values) < 2:  # noqa: PLR2004 - a line has two ends
        return ""
    width, height = size
    low, high = min(values), max(values)
    levels = [*values, *([] if usual is None else [usual])]
    bottom, top = min(levels), max(levels)
    step = (width - 2 * SPARK_MARGIN) / (len(values) - 1)
    scale = (height - 2 * SPARK_MARGIN) / (top - bottom) if top > bottom else 0.0

    def y_of(value: float) -> str:
        return f"{height - SPARK_MARGIN - (value - bottom) * scale:.1f}"

    points = [
        f"{SPARK_MARGIN + index * step:.1f},{y_of(value)}" for index, value in enumerate(values)
    ]
    line = (
        ""
        if usual is None
        else f'<line class="usual" x1="0" x2="{width}" y1="{y_of(usual)}" y2="{y_of(usual)}"/>'
    )
    x, y = points[-1].split(",")
    lowest, highest, last = map(write, (low, high, values[-1]))
    label = f"{len(values)} runs, from {lowest} to {highest}, the last {last}"
    mark = mark_class("m", verdict) if verdict in COLORS else "faint"
    return (
        f'<svg class="spark" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img">'
        f"<title>{escape(label)}</title>{line}"
        f'<polyline points="{" ".join(points)}" fill="none" stroke="currentColor"/>'
        f'<circle class="{mark}" cx="{x}" cy="{y}" r="3" fill="currentColor"/></svg>'
    )


def interval_bar(change: ChangeBar, limit: float) -> str:
    """A change with its interval between -`limit` and `limit`; the shaded part does not count."""
    x = Axis(-limit, limit, 4, SPARK_WIDTH - 4)
    left, right = (
        x.pixel(max(-limit, min(limit, edge))) for edge in (-change.margin, change.margin)
    )
    low, high, effect = (
        x.pixel(max(-limit, min(limit, value)))
        for value in (change.low, change.high, change.effect)
    )
    color = COLORS.get(change.verdict, INK)
    return (
        f'<svg class="spark" width="{SPARK_WIDTH}" height="{SPARK_HEIGHT}" role="img">'
        f"<title>{escape(change.text)}</title>"
        f'<rect class="band" x="{left:.1f}" y="5" width="{right - left:.1f}" height="16" fill="{BAND}"/>'
        f'<line class="axis" x1="{x.pixel(0):.1f}" x2="{x.pixel(0):.1f}" y1="3" y2="23" stroke="{FAINT}"/>'
        f'<line class="{mark_class("l", change.verdict)}" x1="{low:.1f}" x2="{high:.1f}" y1="13" y2="13"'
        f' stroke="{color}" stroke-width="2.5"/>'
        f'<circle class="{mark_class("m", change.verdict)}" cx="{effect:.1f}" cy="13" r="4" fill="{color}"/></svg>'
    )


def time_bar(start: float, duration: float, total: float) -> str:
    """A part of a total time as a bar at its place; decoration of a number beside it."""
    x = Axis(0.0, total, 0, SPARK_WIDTH)
    left = x.pixel(start)
    width = max(2.0, x.pixel(start + duration) - left)
    return (
        f'<svg class="spark" width="{SPARK_WIDTH}" height="8" aria-hidden="true">'
        f'<rect x="{min(left, SPARK_WIDTH - 2):.1f}" width="{width:.1f}" height="8" rx="2" fill="currentColor"/></svg>'
    )
