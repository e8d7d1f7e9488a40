"""SVG charts: a value over time, changes with their intervals, changes by item, sparklines; pure.

No style sheet, script or external resource, so that a strict content security policy shows them.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from markupsafe import Markup

from app.core.text import shorten
from app.core.web.svg import (
    BAND,
    BOTTOM,
    CHARACTER_WIDTH,
    COLORS,
    FAINT,
    HEIGHT,
    INK,
    LEFT,
    LIMIT,
    LINE,
    RIGHT,
    TOP,
    WIDTH,
    Axis,
    build_axis,
    draw_chart,
    draw_empty_chart,
    draw_frame,
    draw_grid,
    draw_mark,
    draw_text,
    escape,
    list_ticks,
    mark_class,
)

ROW = 40
MAX_BARS = 300
LABEL_CHARS = 21
MAX_LABELS = 6
MAX_INTERVALS = 60
# The text of a limit: its size, and its least distance from a point.
LIMIT_SIZE, LIMIT_SPACE = 11, 14
SPARK_WIDTH, SPARK_HEIGHT, SPARK_MARGIN = 120, 26, 4
# The legend of a file: the pages name each verdict in words.
LEGEND = 16
INVALID = "INVALID"


class TrendPoint(NamedTuple):
    """A value in one run with its interval and verdict, if any; the value is None when it is
    missing.

    Points with different fingerprints are not comparable, and an invalid run has no meaningful
    value: the line is interrupted there. `text` is the text of the point for screen readers, `url`
    is its page.
    """

    label: str
    value: float | None
    low: float | None
    high: float | None
    verdict: str | None
    fingerprint: str | None = None
    text: str = ""
    url: str | None = None


class PageChart(NamedTuple):
    """A chart of a page, and its points for the table beside it."""

    svg: Markup
    points: Sequence[TrendPoint]


class TrendLimit(NamedTuple):
    """A limit of the value, drawn as a dashed line."""

    text: str
    value: float


class TrendEvent(NamedTuple):
    """Something that happened at the point `position`, drawn as a vertical line."""

    position: int
    text: str
    verdict: str | None = None


class ChangeBar(NamedTuple):
    """A change with its 95 % interval; changes within `margin` do not count. `text` describes the
    change with its numbers.
    """

    name: str
    text: str
    effect: float
    low: float
    high: float
    margin: float
    verdict: str


class ItemChange(NamedTuple):
    """The change of one item."""

    item: str
    change: float


def trend_chart(
    name: str,
    points: Sequence[TrendPoint],
    unit: str | None = None,
    *,
    limits: Sequence[TrendLimit] = (),
    events: Sequence[TrendEvent] = (),
    is_page: bool = False,
) -> str:
    """A value over its runs, oldest first: a line, the band of the intervals, a mark per verdict.

    On a page, the chart has no title and no background, and each point links to its run.
    """
    bounds = [
        bound
        for point in points
        for bound in (point.value, point.low, point.high)
        if bound is not None
    ]
    if not bounds:
        return draw_empty_chart(name)
    bounds += [limit.value for limit in limits]
    y = build_axis(min(bounds), max(bounds), HEIGHT - BOTTOM, TOP)
    x = Axis(0, max(1, len(points) - 1), LEFT + 12, WIDTH - RIGHT - 12)
    pixels = [x.pixel(index) for index in range(len(points))]
    drawn = [
        (pixel, y.pixel(point.value))
        for pixel, point in zip(pixels, points, strict=True)
        if point.value is not None
    ]
    body = [
        *draw_grid(y),
        *_lines(pixels, points, y),
        *draw_limits(limits, y, drawn),
        *_events(events, pixels),
        *draw_points(pixels, points, y, is_page=is_page),
        *_labels(pixels, points),
    ]
    title = f"{name}{f' ({unit})' if unit else ''}"
    if is_page:
        return draw_frame(title, _describe(points), body, height=HEIGHT - LEGEND, role="group")
    return draw_chart(title, _describe(points), body, legend=True)


def changes_chart(title: str, changes: Sequence[ChangeBar]) -> str:
    """A row per change: its interval, the zero line, and the shaded margin."""
    if not changes:
        return draw_empty_chart(title)
    height = TOP + ROW * len(changes) + BOTTOM
    bounds = [
        bound
        for change in changes
        for bound in (change.low, change.high, change.margin, -change.margin)
    ]
    x = build_axis(min(bounds), max(bounds), LEFT + 96, WIDTH - RIGHT - 8)
    rows = [
        element
        for index, change in enumerate(changes)
        for element in _change_row(change, x, TOP + ROW * (index + 0.5))
    ]
    zero = (
        f'<line class="axis" x1="{x.pixel(0):.1f}" x2="{x.pixel(0):.1f}" y1="{TOP}"'
        f' y2="{height - BOTTOM}" stroke="{INK}"/>'
    )
    ticks = [
        draw_text(x.pixel(tick), height - BOTTOM + 16, f"{tick:+.3g}", anchor="middle", fill=FAINT)
        for tick in list_ticks(x.low, x.high)
    ]
    description = "; ".join(f"{change.name}: {change.text}, {change.verdict}" for change in changes)
    return draw_chart(title, description, [*rows, zero, *ticks], height=height, legend=True)


def items_chart(title: str, changes: Iterable[ItemChange], *, less_is_better: bool = False) -> str:
    """The change of every item, worst first; of many items an evenly spaced selection."""
    sign = -1 if less_is_better else 1
    ordered = sorted(changes, key=lambda change: (sign * change.change, change.item))
    if not ordered:
        return draw_empty_chart(title)
    worse = sum(sign * change.change < 0 for change in ordered)
    better = sum(sign * change.change > 0 for change in ordered)
    # Divided first: the sum of large changes could overflow.
    mean = math.fsum(change.change / len(ordered) for change in ordered)
    bars = _select_evenly(ordered)
    values = [bar.change for bar in bars]
    y = build_axis(min(0.0, *values), max(0.0, *values), HEIGHT - BOTTOM, TOP)
    description = f"{len(ordered)} items: {worse} worse, {better} better, mean {mean:+.3g}"
    return draw_chart(
        title,
        description,
        [
            *draw_grid(y),
            *_item_bars(bars, y, sign),
            (
                f'<line class="axis" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y.pixel(mean):.1f}"'
                f' y2="{y.pixel(mean):.1f}" stroke="{INK}" stroke-dasharray="6 4"/>'
            ),
            draw_text(LEFT, HEIGHT - 14, description, fill=FAINT),
        ],
    )


def sparkline(values: Sequence[float], verdict: str | None = None) -> str:
    """A small line chart whose last value is marked; empty for fewer than two values."""
    if len(values) < 2:  # noqa: PLR2004 - a line has two ends
        return ""
    low, high = min(values), max(values)
    step = (SPARK_WIDTH - 2 * SPARK_MARGIN) / (len(values) - 1)
    scale = (SPARK_HEIGHT - 2 * SPARK_MARGIN) / (high - low) if high > low else 0.0
    points = [
        f"{SPARK_MARGIN + index * step:.1f},{SPARK_HEIGHT - SPARK_MARGIN - (value - low) * scale:.1f}"
        for index, value in enumerate(values)
    ]
    x, y = points[-1].split(",")
    label = f"{len(values)} runs, from {low:.4g} to {high:.4g}, the last {values[-1]:.4g}"
    mark = mark_class("m", verdict) if verdict in COLORS else "faint"
    return (
        f'<svg class="spark" width="{SPARK_WIDTH}" height="{SPARK_HEIGHT}" role="img"'
        f' aria-label="{label}"><title>{label}</title>'
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
        f'<svg class="spark" width="{SPARK_WIDTH}" height="{SPARK_HEIGHT}" role="img"'
        f' aria-label="{escape(change.text)}"><title>{escape(change.text)}</title>'
        f'<rect class="band" x="{left:.1f}" y="5" width="{right - left:.1f}" height="16" fill="{BAND}"/>'
        f'<line class="axis" x1="{x.pixel(0):.1f}" x2="{x.pixel(0):.1f}" y1="3" y2="23" stroke="{FAINT}"/>'
        f'<line class="{mark_class("l", change.verdict)}" x1="{low:.1f}" x2="{high:.1f}" y1="13" y2="13"'
        f' stroke="{color}" stroke-width="2.5"/>'
        f'<circle class="{mark_class("m", change.verdict)}" cx="{effect:.1f}" cy="13" r="4" fill="{color}"/></svg>'
    )


def _describe(points: Sequence[TrendPoint]) -> str:
    last = points[-1]
    value = "no value" if last.value is None else f"{last.value:.4g}"
    return f"runs: {len(points)}, the last at {value}, {last.verdict or 'not compared'}"


def draw_points(
    pixels: Sequence[float], points: Sequence[TrendPoint], y: Axis, *, is_page: bool
) -> Iterator[str]:
    """A mark for each point, on a page with a link to its run."""
    for x, point in zip(pixels, points, strict=True):
        # A run without a value keeps its place, at the foot of the chart.
        value = "no value" if point.value is None else f"{point.value:.4g}"
        verdict = INVALID if point.value is None else point.verdict
        height = HEIGHT - BOTTOM - 4 if point.value is None else y.pixel(point.value)
        if not is_page:
            yield draw_mark(x, height, verdict, point.text or f"{point.label}: {value}")
        elif point.verdict in {None, "NO_EVIDENCE"} and point.value is not None:
            # Ordinary runs stay quiet, so that the eye finds the others.
            dot = f'<circle class="dot" cx="{x:.1f}" cy="{height:.1f}" r="3" fill="{LINE}"/>'
            yield _linked(point, dot, x, height)
        else:
            yield _linked(point, draw_mark(x, height, verdict), x, height)


def _linked(point: TrendPoint, mark: str, x: float, y: float) -> str:
    """A mark that leads to its run, with an area that is easy to hit."""
    parts = (
        f"<title>{escape(point.text or point.label)}</title>"
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="12" fill="transparent"/>{mark}'
    )
    if point.url is None:
        return f"<g data-point>{parts}</g>"
    return f'<a href="{escape(point.url)}" data-point tabindex="-1">{parts}</a>'


def split_lines(
    pixels: Sequence[float], points: Sequence[TrendPoint]
) -> Iterator[Sequence[tuple[float, float, TrendPoint]]]:
    """The points of each line, of comparable runs: pixel, value and point."""
    entries = zip(pixels, points, strict=True)
    # No line between runs that are not comparable: it would show a change that nobody measured.
    for key, group in groupby(entries, key=lambda entry: _series_of(entry[1])):
        series = [(x, point.value, point) for x, point in group if point.value is not None]
        if key is not None and series:
            yield series


def _lines(pixels: Sequence[float], points: Sequence[TrendPoint], y: Axis) -> Iterator[str]:
    """The band and the line of each series of comparable runs."""
    for series in split_lines(pixels, points):
        coordinates = " ".join(f"{x:.1f},{y.pixel(value):.1f}" for x, value, _ in series)
        yield from _bands([x for x, _, _ in series], [point for _, _, point in series], y)
        yield (
            f'<polyline class="line" points="{coordinates}" fill="none" stroke="{LINE}"'
            ' stroke-width="2"/>'
        )


def _series_of(point: TrendPoint) -> tuple[str | None] | None:
    """Return the key that points of one line share; None for a point outside every line."""
    return None if point.verdict == INVALID or point.value is None else (point.fingerprint,)


def _bands(pixels: Sequence[float], points: Sequence[TrendPoint], y: Axis) -> Iterator[str]:
    """The intervals as one area, and each as a vertical line."""
    intervals = [
        (x, y.pixel(point.low), y.pixel(point.high))
        for x, point in zip(pixels, points, strict=True)
        if point.low is not None and point.high is not None
    ]
    if len(intervals) > 1:
        upper = " ".join(f"{x:.1f},{high:.1f}" for x, _, high in intervals)
        lower = " ".join(f"{x:.1f},{low:.1f}" for x, low, _ in reversed(intervals))
        yield f'<polygon class="band" points="{upper} {lower}" fill="{BAND}"/>'
    # Of many runs the area says enough.
    for x, low, high in intervals if len(intervals) <= MAX_INTERVALS else ():
        yield (
            f'<line class="line" x1="{x:.1f}" x2="{x:.1f}" y1="{low:.1f}" y2="{high:.1f}"'
            f' stroke="{LINE}" stroke-opacity="0.4"/>'
        )


def draw_limits(
    limits: Sequence[TrendLimit], y: Axis, drawn: Sequence[tuple[float, float]] = ()
) -> Iterator[str]:
    """A dashed line for each limit, with its text where no point is `drawn`, if there is such a place."""
    for limit in limits:
        pixel = y.pixel(limit.value)
        yield (
            f'<line class="limit" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{pixel:.1f}"'
            f' y2="{pixel:.1f}" stroke="{LIMIT}" stroke-dasharray="5 4"/>'
        )
        x, anchor, offset = _free_place(limit.text, pixel, drawn)
        label = draw_text(x, pixel + offset, limit.text, anchor=anchor, fill=FAINT, size=LIMIT_SIZE)
        # With a border in the color of its ground, so that a line behind it does not strike it through.
        yield label.replace(
            'class="faint"',
            'class="faint halo" paint-order="stroke" stroke="#ffffff" stroke-width="4"',
            1,
        )


def _free_place(
    text: str, pixel: float, drawn: Sequence[tuple[float, float]]
) -> tuple[float, str, int]:
    """Where the text of a limit stands: x, the anchor, and the distance of its baseline from the line."""
    width = len(text) * LIMIT_SIZE * CHARACTER_WIDTH
    places = [
        (x, anchor, offset)
        for offset in (-6, 14)
        for x, anchor in ((LEFT + 4.0, "start"), (WIDTH - RIGHT - 4.0, "end"))
    ]
    for place in places:
        x, anchor, offset = place
        left = x if anchor == "start" else x - width
        if not any(
            left - LIMIT_SPACE <= at <= left + width + LIMIT_SPACE
            and abs(height - pixel - offset + LIMIT_SIZE / 2) <= LIMIT_SPACE
            for at, height in drawn
        ):
            return place
    return places[0]


def _events(events: Sequence[TrendEvent], pixels: Sequence[float]) -> Iterator[str]:
    for number, event in enumerate(events):
        x = pixels[event.position]
        color = COLORS.get(event.verdict or "", FAINT)
        yield (
            f'<line class="{mark_class("l", event.verdict)}" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}"'
            f' y2="{HEIGHT - BOTTOM}" stroke="{color}" stroke-dasharray="2 3"/>'
        )
        anchor = "end" if x > WIDTH / 2 else "start"
        # Two rows, so that the texts of neighbors do not cover each other.
        yield draw_text(x, 14 + 14 * (number % 2), event.text, anchor=anchor, fill=FAINT, size=11)


def _labels(pixels: Sequence[float], points: Sequence[TrendPoint]) -> Iterator[str]:
    """The labels of some points below the chart, always of the first and the last."""
    count = min(MAX_LABELS, len(points))
    labeled = sorted({round(n * (len(points) - 1) / max(1, count - 1)) for n in range(count)})
    for index in labeled:
        is_last = index == labeled[-1] and len(labeled) > 1
        anchor = "start" if index == 0 else "end" if is_last else "middle"
        # The first day of a point of several runs: two texts of whole periods would touch.
        label = points[index].label.partition(" to ")[0]
        yield draw_text(pixels[index], HEIGHT - 24, label, anchor=anchor, fill=FAINT)


def _change_row(change: ChangeBar, x: Axis, y: float) -> Iterator[str]:
    left, right = x.pixel(-change.margin), x.pixel(change.margin)
    yield (
        f'<rect class="band" x="{left:.1f}" y="{y - ROW / 2 + 2:.1f}" width="{right - left:.1f}"'
        f' height="{ROW - 4}" fill="{BAND}"/>'
    )
    yield draw_text(8, y + 4, shorten(change.name, LABEL_CHARS))
    yield (
        f'<line class="{mark_class("l", change.verdict)}" x1="{x.pixel(change.low):.1f}"'
        f' x2="{x.pixel(change.high):.1f}" y1="{y:.1f}" y2="{y:.1f}"'
        f' stroke="{COLORS.get(change.verdict, INK)}" stroke-width="3"/>'
    )
    yield draw_mark(
        x.pixel(change.effect), y, change.verdict, f"{change.name}: {change.text}, {change.verdict}"
    )


def _item_bars(bars: Sequence[ItemChange], y: Axis, sign: int) -> Iterator[str]:
    width = (WIDTH - LEFT - RIGHT) / len(bars)
    for index, bar in enumerate(bars):
        top, bottom = sorted((y.pixel(0.0), y.pixel(bar.change)))
        verdict = "REGRESSED" if sign * bar.change < 0 else "IMPROVED"
        color, name = (
            (COLORS[verdict], mark_class("m", verdict)) if bar.change else (FAINT, "faint")
        )
        yield (
            f'<rect class="{name}" x="{LEFT + index * width:.1f}" y="{top:.1f}"'
            f' width="{max(width - 1, 0.5):.1f}" height="{max(bottom - top, 1):.1f}"'
            f' fill="{color}"><title>{escape(bar.item)}: {bar.change:+.3g}</title></rect>'
        )


def _select_evenly(ordered: Sequence[ItemChange]) -> Sequence[ItemChange]:
    """At most `MAX_BARS` items, with the first and the last."""
    if len(ordered) <= MAX_BARS:
        return ordered
    last = len(ordered) - 1
    return [ordered[round(index * last / (MAX_BARS - 1))] for index in range(MAX_BARS)]
