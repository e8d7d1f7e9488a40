"""SVG charts of several agents over the same time, each in its own color; pure."""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from mosaico.core.symbols import symbol_of
from mosaico.core.text import format_number, shorten
from mosaico.core.web.svg import (
    FAINT,
    GRID,
    INK,
    Axis,
    Plot,
    build_axis,
    draw_chart,
    draw_empty_chart,
    draw_frame,
    draw_mark,
    draw_text,
    label_ticks,
    list_ticks,
    mark_class,
)
from mosaico.core.web.trend_chart import (
    INVALID,
    TrendLimit,
    TrendPoint,
    draw_limits,
    link_mark,
    split_lines,
)

# Neither red, green nor amber: these are verdicts. The classes `a1` to `a6` have the colors of the theme.
AGENT_COLORS: Final = ("#3355dd", "#147d76", "#7b45c4", "#b8327f", "#5f6a10", "#4d5a6e")
MAX_SERIES: Final = len(AGENT_COLORS)
# The second and later lines of one color.
DASHES: Final = ("", "9 4", "2 3", "12 3 2 3", "5 5", "14 4")
NAME_CHARS: Final = 24
LABEL_SIZE, LABEL_HEIGHT = 13, 34
# From the last point to its label.
LEADER: Final = 30
DAYS_SHOWN: Final = 5
WIDE: Final = Plot(1140, 380, left=44, right=880, top=44, bottom=340)
# On a narrow screen, the texts keep their size and the chart has fewer points.
NARROW: Final = Plot(310, 300, left=38, right=170, top=16, bottom=262)
NARROW_POINTS, NARROW_CHARS = 14, 15
SMALL: Final = Plot(260, 104, left=4, right=214, top=8, bottom=76)


class TrendSeries(NamedTuple):
    """The points of one agent, oldest first, each with its time; `color` is a position in `AGENT_COLORS`."""

    name: str
    points: Sequence[TrendPoint]
    times: Sequence[datetime]
    color: int = 0

    @property
    def last(self) -> TrendPoint | None:
        """The last point that has a value."""
        return next((p for p in reversed(self.points) if p.value is not None), None)

    def tail(self, count: int) -> "TrendSeries":
        """The series with its last points only."""
        return self._replace(points=self.points[-count:], times=self.times[-count:])


class _Label(NamedTuple):
    """What stands at the end of a line, and the height of the end."""

    series: TrendSeries
    point: TrendPoint
    x: float
    y: float


def overlay_chart(
    title: str,
    series: Sequence[TrendSeries],
    unit: str | None = None,
    *,
    limits: Sequence[TrendLimit] = (),
    is_page: bool = False,
    write: Callable[[float], str] = format_number,
) -> str:
    """At most `MAX_SERIES` agents as lines of their colors; at the end of each its name, value and verdict.

    `write` gives the text of a value. The intervals are left out, because six bands would hide each other:
    `small_chart` has them.
    """
    heading = f"{title}{f' ({unit})' if unit else ''}"
    body = _draw_overlay(series, WIDE, limits, is_page=is_page, write=write)
    if not body:
        return draw_empty_chart(title)
    width, height = int(WIDE.width), int(WIDE.height)
    if not is_page:
        return draw_chart(heading, _describe(series, write), body, width=width, height=height)
    narrow = [line.tail(NARROW_POINTS) for line in series]
    parts = [
        draw_frame(
            heading, _describe(series, write), body,
            width=width, height=height, role="group", kind="chart overlay wide-only",
        )
    ]  # fmt: skip
    if narrow_body := _draw_overlay(narrow, NARROW, limits, is_page=False, write=write):
        description = f"the last {NARROW_POINTS} points of each agent; {_describe(narrow, write)}"
        parts.append(
            draw_frame(
                heading, description, narrow_body,
                width=int(NARROW.width), height=int(NARROW.height), kind="chart overlay narrow-only",
            )
        )  # fmt: skip
    return "".join(parts)


def small_chart(
    series: TrendSeries,
    bounds: tuple[float, float],
    write: Callable[[float], str] = format_number,
) -> str:
    """One agent with its intervals, between the lowest and the highest value of `bounds`; empty without a value."""
    last = series.last
    if last is None or last.value is None:
        return ""
    y = build_axis(*bounds, SMALL.bottom, SMALL.top)
    x = _time_axis([series], SMALL)
    pixels = [x.pixel(at.timestamp()) for at in series.times]
    color = AGENT_COLORS[series.color]
    body = [
        *_intervals(pixels, series, y),
        *_lines(pixels, series, y, ""),
        *_points(pixels, series, y, is_page=False, write=write),
        draw_text(SMALL.right + 8, y.pixel(last.value) + 4, write(last.value), size=12),
        *_day_labels([series], x, SMALL, 2),
    ]
    label = f"{series.name}: {len(series.points)} points with their intervals, the last {write(last.value)}"
    return draw_frame(
        label, f"in the color {color}", body,
        width=int(SMALL.width), height=int(SMALL.height), kind="chart small-chart",
    )  # fmt: skip


def interval_bounds(series: Sequence[TrendSeries]) -> tuple[float, float]:
    """The lowest and the highest value or end of an interval of all series; (0, 0) without a value."""
    ends = [
        end
        for line in series
        for point in line.points
        for end in (point.value, point.low, point.high)
        if end is not None
    ]
    return (min(ends), max(ends)) if ends else (0.0, 0.0)


def _draw_overlay(
    series: Sequence[TrendSeries],
    plot: Plot,
    limits: Sequence[TrendLimit],
    *,
    is_page: bool,
    write: Callable[[float], str],
) -> list[str]:
    values = [point.value for line in series for point in line.points if point.value is not None]
    if not values:
        return []
    bounds = [*values, *(limit.value for limit in limits)]
    y = build_axis(min(bounds), max(bounds), plot.bottom, plot.top)
    x = _time_axis(series, plot)
    columns = [[x.pixel(at.timestamp()) for at in line.times] for line in series]
    positions = [
        [
            (pixel, y.pixel(point.value))
            for pixel, point in zip(pixels, line.points, strict=True)
            if point.value is not None
        ]
        for pixels, line in zip(columns, series, strict=True)
    ]
    body = [*_grid(y, plot), *draw_limits(limits, y, positions, plot)]
    body += _day_labels(series, x, plot, DAYS_SHOWN if plot is WIDE else 2)
    for line, pixels, dashes in zip(series, columns, _dashes(series), strict=True):
        body += _lines(pixels, line, y, dashes)
        body += _points(pixels, line, y, is_page=is_page, write=write)
    return [*body, *_end_labels(series, columns, y, plot, write)]


def _time_axis(series: Sequence[TrendSeries], plot: Plot) -> Axis:
    times = [at.timestamp() for line in series for at in line.times]
    return Axis(min(times), max(*times, min(times) + 1), plot.left + 8, plot.right - 8)


def _dashes(series: Sequence[TrendSeries]) -> list[str]:
    """A dash pattern for each series: a full line, unless an earlier one has the same color."""
    colors = [line.color for line in series]
    return [DASHES[colors[:position].count(color)] for position, color in enumerate(colors)]


def _describe(series: Sequence[TrendSeries], write: Callable[[float], str]) -> str:
    return "; ".join(
        f"{line.name}: {len(line.points)} points, "
        + ("no value" if line.last is None or line.last.value is None else
           f"the last at {write(line.last.value)}, {_verdict_text(line.last)}")
        for line in series
    )  # fmt: skip


def _verdict_text(point: TrendPoint) -> str:
    return (point.verdict or "not compared").replace("_", " ").lower()


def _grid(y: Axis, plot: Plot) -> Iterator[str]:
    """A line for each tick, with its text on the left: the names of the agents are on the right."""
    ticks = list_ticks(y.low, y.high)
    for tick, text in zip(ticks, label_ticks(ticks), strict=True):
        pixel = y.pixel(tick)
        yield (
            f'<line class="grid" x1="{plot.left}" x2="{plot.right}" y1="{pixel:.1f}"'
            f' y2="{pixel:.1f}" stroke="{GRID}"/>'
        )
        yield draw_text(plot.left - 6, pixel + 4, text, anchor="end", fill=FAINT)


def _color_class(kind: str, series: TrendSeries) -> str:
    return f"{kind} a{series.color + 1}"


def _lines(pixels: Sequence[float], series: TrendSeries, y: Axis, dashes: str) -> Iterator[str]:
    dash_attribute = f' stroke-dasharray="{dashes}"' if dashes else ""
    for line in split_lines(pixels, series.points):
        coordinates = " ".join(f"{x:.1f},{y.pixel(value):.1f}" for x, value, _ in line)
        yield (
            f'<polyline class="{_color_class("agent-line", series)}" points="{coordinates}" fill="none"'
            f' stroke="{AGENT_COLORS[series.color]}" stroke-width="2"{dash_attribute}/>'
        )


def _intervals(pixels: Sequence[float], series: TrendSeries, y: Axis) -> Iterator[str]:
    for line in split_lines(pixels, series.points):
        ends = [
            (x, y.pixel(point.low), y.pixel(point.high))
            for x, _, point in line
            if point.low is not None and point.high is not None
        ]
        if len(ends) > 1:
            upper = " ".join(f"{x:.1f},{high:.1f}" for x, _, high in ends)
            lower = " ".join(f"{x:.1f},{low:.1f}" for x, low, _ in reversed(ends))
            yield (
                f'<polygon class="{_color_class("agent-band", series)}" points="{upper} {lower}"'
                f' fill="{AGENT_COLORS[series.color]}" fill-opacity="0.14"/>'
            )


def _points(
    pixels: Sequence[float],
    series: TrendSeries,
    y: Axis,
    *,
    is_page: bool,
    write: Callable[[float], str],
) -> Iterator[str]:
    """A dot in the color of the agent, larger for the last one; a verdict that says something has its mark."""
    for x, point in zip(pixels, series.points, strict=True):
        # A run without a value keeps its place, at the foot of the chart.
        height = y.start - 4 if point.value is None else y.pixel(point.value)
        verdict = INVALID if point.value is None else point.verdict
        label = (
            point.text
            or f"{point.label}: {'no value' if point.value is None else write(point.value)}"
        )
        if verdict in {None, "NO_EVIDENCE"}:
            radius = 4.5 if point is series.last else 1.6
            mark = (
                f'<circle class="{_color_class("agent-dot", series)}" cx="{x:.1f}" cy="{height:.1f}"'
                f' r="{radius}" fill="{AGENT_COLORS[series.color]}"/>'
            )
        else:
            mark = draw_mark(x, height, verdict, "" if is_page else label)
        yield link_mark(point, mark, x, height) if is_page else mark


def _end_labels(
    series: Sequence[TrendSeries],
    columns: Sequence[Sequence[float]],
    y: Axis,
    plot: Plot,
    write: Callable[[float], str],
) -> Iterator[str]:
    """The name, value and verdict of each agent beside its last point, with a line to it."""
    ends = [
        _Label(line, last, pixels[line.points.index(last)], y.pixel(last.value))
        for line, pixels in zip(series, columns, strict=True)
        if (last := line.last) is not None and last.value is not None
    ]
    labels = sorted(ends, key=lambda end: end.y)
    heights = spread([end.y for end in labels], LABEL_HEIGHT, plot.top, plot.bottom)
    for label, height in zip(labels, heights, strict=True):
        yield from _end_label(label, height, plot, write)


def _end_label(
    label: _Label, height: float, plot: Plot, write: Callable[[float], str]
) -> Iterator[str]:
    line, point, x, y = label
    is_wide = plot is WIDE
    left = plot.right + (LEADER if is_wide else 18)
    value = "" if point.value is None else write(point.value)
    name = shorten(line.name, NAME_CHARS if is_wide else NARROW_CHARS)
    verdict = f"{symbol_of(point.verdict or '')} {_verdict_text(point) if is_wide else ''}"
    color = AGENT_COLORS[line.color]
    yield (
        f'<path class="{_color_class("agent-leader", line)}" d="M{x + 7:.1f} {y:.1f}L{left - 5:.1f} {height:.1f}"'
        f' fill="none" stroke="{color}" stroke-opacity="0.6"/>'
    )
    size = LABEL_SIZE if is_wide else LABEL_SIZE - 1
    text = draw_text(left, height + 2, name, size=size).replace(
        'class="ink"', f'class="{_color_class("agent-name", line)}" font-weight="600"', 1
    )
    yield text.replace(f'fill="{INK}"', f'fill="{color}"', 1)
    kind = _verdict_class(point.verdict)
    yield draw_text(left, height + 17, f"{value} {verdict}".strip(), fill=FAINT, size=12).replace(
        'class="faint"', f'class="{kind}"', 1
    )


def _verdict_class(verdict: str | None) -> str:
    """The class of the text of a verdict: in its color only where it says that something changed."""
    if verdict in {None, "NO_EVIDENCE", "NOT_MEASURED"}:
        return "faint"
    return mark_class("m", verdict)


def spread(heights: Sequence[float], gap: float, top: float, bottom: float) -> list[float]:
    """Increasing heights, moved as little as needed to be `gap` apart; the last one at most at `bottom`.

    Too many for the space begin above `top`: none covers another.
    """
    moved: list[float] = []
    for height in heights:
        moved.append(max(height, moved[-1] + gap) if moved else max(height, top))
    limit = bottom
    for position in range(len(moved) - 1, -1, -1):
        moved[position] = min(moved[position], limit)
        limit = moved[position] - gap
    return moved


def _day_labels(series: Sequence[TrendSeries], x: Axis, plot: Plot, count: int) -> Iterator[str]:
    """The days of the first and the last point, and of some between them."""
    points = sorted(
        {
            at: point.label.partition(" to ")[0]
            for line in series
            for at, point in zip(line.times, line.points, strict=True)
        }.items()
    )
    count = min(count, len(points))
    chosen = [points[round(n * (len(points) - 1) / max(1, count - 1))] for n in range(count)]
    for position, (at, label) in enumerate(chosen):
        is_last = position == len(chosen) - 1
        anchor = "start" if position == 0 else "end" if is_last else "middle"
        yield draw_text(x.pixel(at.timestamp()), plot.bottom + 20, label, anchor=anchor, fill=FAINT)
