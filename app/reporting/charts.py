"""SVG charts of runs: a KPI over time, changes with their intervals, changes by item; pure.

No style sheet, script or external resource, so that a strict content security policy shows them. A
verdict has a mark and a text, never a color alone.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from app.core.text import html_text, xml_text
from app.kpis.number_text import format_number

WIDTH, HEIGHT = 640, 280
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 40, 44
ROW = 40
MAX_BARS = 300
MAX_TICKS = 8
# Beyond, the difference of two values may overflow.
LARGEST = 1e300

INK, FAINT, LINE, BAND = "#24292f", "#6e7781", "#0969da", "#ddf4ff"
_COLORS: Final = {
    "REGRESSED": "#cf222e",
    "IMPROVED": "#1a7f37",
    "NO_EVIDENCE": "#57606a",
    "INCONCLUSIVE": "#9a6700",
    "INVALID": "#8250df",
}
_MARKS: Final = {
    "REGRESSED": "▼",
    "IMPROVED": "▲",
    "NO_EVIDENCE": "●",
    "INCONCLUSIVE": "○",
    "INVALID": "✕",
}


class TrendPoint(NamedTuple):
    """A KPI in one run with its interval and verdict, if any.

    Points with different fingerprints are not comparable: the line is interrupted between them.
    """

    label: str
    value: float
    low: float | None
    high: float | None
    verdict: str | None
    fingerprint: str | None = None


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


class _Axis(NamedTuple):
    """Converts values between `low` and `high` to pixels between `start` and `end`."""

    low: float
    high: float
    start: float
    end: float

    def pixel(self, value: float) -> float:
        fraction = (value - self.low) / (self.high - self.low)
        return self.start + fraction * (self.end - self.start)


def trend_chart(name: str, points: Sequence[TrendPoint], unit: str | None = None) -> str:
    """A KPI over its runs, oldest first: a line, the band of the intervals, a mark per verdict."""
    if not points:
        return _empty_chart(name)
    bounds = [
        bound
        for point in points
        for bound in (point.value, point.low, point.high)
        if bound is not None
    ]
    y = _axis(min(bounds), max(bounds), HEIGHT - BOTTOM, TOP)
    x = _Axis(0, max(1, len(points) - 1), LEFT + 12, WIDTH - RIGHT - 12)
    pixels = [x.pixel(index) for index in range(len(points))]
    last = points[-1]
    description = f"runs: {len(points)}, the last at {format_number(last.value)}, {last.verdict or 'not compared'}"
    return _svg(
        f"{name}{f' ({unit})' if unit else ''}",
        description,
        [
            *_grid(y),
            *_lines(pixels, points, y),
            *(
                _mark(
                    pixel,
                    y.pixel(point.value),
                    point.verdict,
                    f"{point.label}: {format_number(point.value)}",
                )
                for pixel, point in zip(pixels, points, strict=True)
            ),
            *_end_labels(points[0].label, last.label if len(points) > 1 else ""),
        ],
        legend=True,
    )


def changes_chart(title: str, changes: Sequence[ChangeBar]) -> str:
    """A row per change: its interval, the zero line, and the shaded margin."""
    if not changes:
        return _empty_chart(title)
    height = TOP + ROW * len(changes) + BOTTOM
    bounds = [
        bound
        for change in changes
        for bound in (change.low, change.high, change.margin, -change.margin)
    ]
    x = _axis(min(bounds), max(bounds), LEFT + 96, WIDTH - RIGHT - 8)
    rows = [
        element
        for index, change in enumerate(changes)
        for element in _change_row(change, x, TOP + ROW * (index + 0.5))
    ]
    zero = (
        f'<line x1="{x.pixel(0):.1f}" x2="{x.pixel(0):.1f}" y1="{TOP}" y2="{height - BOTTOM}"'
        f' stroke="{INK}"/>'
    )
    ticks = [
        _text(x.pixel(tick), height - BOTTOM + 16, f"{tick:+.3g}", anchor="middle", fill=FAINT)
        for tick in _ticks(x.low, x.high)
    ]
    description = "; ".join(f"{change.name}: {change.text}, {change.verdict}" for change in changes)
    return _svg(title, description, [*rows, zero, *ticks], height=height, legend=True)


def items_chart(title: str, changes: Iterable[ItemChange], *, less_is_better: bool = False) -> str:
    """The change of every item, worst first; of many items an evenly spaced selection."""
    sign = -1 if less_is_better else 1
    ordered = sorted(changes, key=lambda change: (sign * change.change, change.item))
    if not ordered:
        return _empty_chart(title)
    worse = sum(sign * change.change < 0 for change in ordered)
    better = sum(sign * change.change > 0 for change in ordered)
    # Divided first: the sum of large changes could overflow.
    mean = math.fsum(change.change / len(ordered) for change in ordered)
    bars = _select_evenly(ordered)
    values = [bar.change for bar in bars]
    y = _axis(min(0.0, *values), max(0.0, *values), HEIGHT - BOTTOM, TOP)
    description = f"{len(ordered)} items: {worse} worse, {better} better, mean {mean:+.3g}"
    return _svg(
        title,
        description,
        [
            *_grid(y),
            *_item_bars(bars, y, sign),
            (
                f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y.pixel(mean):.1f}"'
                f' y2="{y.pixel(mean):.1f}" stroke="{INK}" stroke-dasharray="6 4"/>'
            ),
            _text(LEFT, HEIGHT - 14, description, fill=FAINT),
        ],
    )


def _lines(pixels: Sequence[float], points: Sequence[TrendPoint], y: _Axis) -> Iterator[str]:
    """The band and the line of each series of comparable runs."""
    entries = zip(pixels, points, strict=True)
    # No line between runs that are not comparable: it would show a change that nobody measured.
    for _, group in groupby(entries, key=lambda entry: entry[1].fingerprint):
        series = list(group)
        coordinates = " ".join(f"{x:.1f},{y.pixel(point.value):.1f}" for x, point in series)
        yield from _bands([x for x, _ in series], [point for _, point in series], y)
        yield f'<polyline points="{coordinates}" fill="none" stroke="{LINE}" stroke-width="2"/>'


def _bands(pixels: Sequence[float], points: Sequence[TrendPoint], y: _Axis) -> Iterator[str]:
    """The intervals as one area, and each as a vertical line."""
    intervals = [
        (x, y.pixel(point.low), y.pixel(point.high))
        for x, point in zip(pixels, points, strict=True)
        if point.low is not None and point.high is not None
    ]
    if len(intervals) > 1:
        upper = " ".join(f"{x:.1f},{high:.1f}" for x, _, high in intervals)
        lower = " ".join(f"{x:.1f},{low:.1f}" for x, low, _ in reversed(intervals))
        yield f'<polygon points="{upper} {lower}" fill="{BAND}"/>'
    for x, low, high in intervals:
        yield (
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{low:.1f}" y2="{high:.1f}" stroke="{LINE}"'
            ' stroke-opacity="0.4"/>'
        )


def _change_row(change: ChangeBar, x: _Axis, y: float) -> Iterator[str]:
    left, right = x.pixel(-change.margin), x.pixel(change.margin)
    yield (
        f'<rect x="{left:.1f}" y="{y - ROW / 2 + 2:.1f}" width="{right - left:.1f}"'
        f' height="{ROW - 4}" fill="{BAND}"/>'
    )
    yield _text(8, y + 4, _shorten(change.name))
    yield (
        f'<line x1="{x.pixel(change.low):.1f}" x2="{x.pixel(change.high):.1f}" y1="{y:.1f}"'
        f' y2="{y:.1f}" stroke="{_COLORS.get(change.verdict, INK)}" stroke-width="3"/>'
    )
    yield _mark(
        x.pixel(change.effect), y, change.verdict, f"{change.name}: {change.text}, {change.verdict}"
    )


def _item_bars(bars: Sequence[ItemChange], y: _Axis, sign: int) -> Iterator[str]:
    width = (WIDTH - LEFT - RIGHT) / len(bars)
    for index, bar in enumerate(bars):
        top, bottom = sorted((y.pixel(0.0), y.pixel(bar.change)))
        color = _COLORS["REGRESSED" if sign * bar.change < 0 else "IMPROVED"]
        yield (
            f'<rect x="{LEFT + index * width:.1f}" y="{top:.1f}" width="{max(width - 1, 0.5):.1f}"'
            f' height="{max(bottom - top, 1):.1f}" fill="{color if bar.change else FAINT}">'
            f"<title>{_escape(bar.item)}: {bar.change:+.3g}</title></rect>"
        )


def _grid(y: _Axis) -> Iterator[str]:
    for tick in _ticks(y.low, y.high):
        pixel = y.pixel(tick)
        yield (
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{pixel:.1f}" y2="{pixel:.1f}"'
            ' stroke="#d0d7de"/>'
        )
        yield _text(LEFT - 8, pixel + 4, f"{tick:.4g}", anchor="end", fill=FAINT)


def _end_labels(first: str, last: str) -> Iterator[str]:
    yield _text(LEFT, HEIGHT - 24, first, fill=FAINT)
    yield _text(WIDTH - RIGHT, HEIGHT - 24, last, anchor="end", fill=FAINT)


def _mark(x: float, y: float, verdict: str | None, label: str) -> str:
    mark = _MARKS.get(verdict or "", "·")
    color = _COLORS.get(verdict or "", INK)
    title = f"{label}, {verdict}" if verdict and verdict not in label else label
    return (
        f'<text x="{x:.1f}" y="{y + 5:.1f}" text-anchor="middle" font-size="16" fill="{color}">'
        f"<title>{_escape(title)}</title>{mark}</text>"
    )


def _svg(
    title: str,
    description: str,
    body: Iterable[str],
    *,
    height: int = HEIGHT,
    legend: bool = False,
) -> str:
    elements = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}"'
            f' viewBox="0 0 {WIDTH} {height}" role="img" font-family="system-ui, sans-serif"'
            ' font-size="12">'
        ),
        f"<title>{_escape(title)}</title>",
        f"<desc>{_escape(description)}</desc>",
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        _text(8, 20, title, size=14),
        *body,
    ]
    if legend:
        entries = "   ".join(
            f"{mark} {verdict.replace('_', ' ').lower()}" for verdict, mark in _MARKS.items()
        )
        elements.append(_text(LEFT, height - 6, entries, fill=FAINT, size=11))
    return "\n".join([*elements, "</svg>"]) + "\n"


def _empty_chart(title: str) -> str:
    message = "no data yet"
    return _svg(title, message, [_text(LEFT, HEIGHT / 2, message, fill=FAINT)])


def _text(
    x: float, y: float, text: str, *, anchor: str = "start", fill: str = INK, size: int = 12
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{fill}" font-size="{size}">'
        f"{_escape(text)}</text>"
    )


def _escape(text: str) -> str:
    """A text of a user without control characters that XML forbids, and without markup."""
    return html_text(xml_text(text))


def _shorten(text: str, limit: int = 22) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _select_evenly(ordered: Sequence[ItemChange]) -> Sequence[ItemChange]:
    """At most `MAX_BARS` items, with the first and the last."""
    if len(ordered) <= MAX_BARS:
        return ordered
    last = len(ordered) - 1
    return [ordered[round(index * last / (MAX_BARS - 1))] for index in range(MAX_BARS)]


def _axis(low: float, high: float, start: float, end: float) -> _Axis:
    """An axis with some space at both ends; a single value is in the middle."""
    low, high = max(low, -LARGEST), min(high, LARGEST)
    space = (high - low) * 0.06 or max(abs(high), 1.0) * 0.1
    return _Axis(low - space, high + space, start, end)


def _ticks(low: float, high: float) -> list[float]:
    """Four to eight round numbers between low and high."""
    magnitude = 10 ** math.floor(math.log10((high - low) / 4))
    factor = next(n for n in (1, 2, 5, 10) if (high - low) / (magnitude * n) <= MAX_TICKS)
    step = magnitude * factor
    first = math.ceil(low / step)
    return [round(index * step, 12) for index in range(first, math.floor(high / step) + 1)]
