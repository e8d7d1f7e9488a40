"""An SVG chart of a value over time; pure.

No style sheet, script or external resource, so that a strict content security policy shows it.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby, pairwise
from typing import NamedTuple

from markupsafe import Markup

from mosaico.core.text import format_number
from mosaico.core.web.svg import (
    BAND,
    BOTTOM,
    CHARACTER_WIDTH,
    COLORS,
    FAINT,
    HEIGHT,
    LEFT,
    LIMIT,
    LINE,
    PLOT,
    RIGHT,
    TOP,
    WIDTH,
    Axis,
    Plot,
    build_axis,
    draw_chart,
    draw_empty_chart,
    draw_frame,
    draw_grid,
    draw_mark,
    draw_text,
    escape,
    mark_class,
)

MAX_LABELS = 6
# Half the width of a span of one point.
SPAN_EDGE = 8
# Of a label below the chart: its size, and its least distance from the next one.
LABEL_SIZE, LABEL_SPACE = 12, 24
MAX_INTERVALS = 60
# The text of a limit: its size, and its least distance from a point.
LIMIT_SIZE, LIMIT_SPACE = 11, 14
# Above the line, below it, and farther below and above.
LIMIT_OFFSETS = (-6, 14, 30, -22, 46)
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
    """A chart of a page, and its points for the table beside it; `note` says what is not drawn."""

    svg: Markup
    points: Sequence[TrendPoint]
    note: str = ""


class TrendLimit(NamedTuple):
    """A limit of the value, drawn as a dashed line."""

    text: str
    value: float


class TrendEvent(NamedTuple):
    """Something that happened at the point `position`, drawn as a vertical line."""

    position: int
    text: str
    verdict: str | None = None


class TrendSpan(NamedTuple):
    """Something that lasted from the point `first` to the point `last`, drawn as an area that is a link."""

    first: int
    last: int
    text: str
    url: str


def trend_chart(
    name: str,
    points: Sequence[TrendPoint],
    unit: str | None = None,
    *,
    limits: Sequence[TrendLimit] = (),
    events: Sequence[TrendEvent] = (),
    spans: Sequence[TrendSpan] = (),
    is_page: bool = False,
    write: Callable[[float], str] = format_number,
) -> str:
    """A value over its runs, oldest first: a line, the band of the intervals, a mark per verdict.

    `write` gives the text of a value, as tables beside the chart have it. On a page, the chart has no title and no background, and each point links to its run.
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
    value_positions = [
        (pixel, y.pixel(point.value))
        for pixel, point in zip(pixels, points, strict=True)
        if point.value is not None
    ]
    body = [
        *draw_grid(y),
        *_spans(spans, pixels, is_page=is_page),
        *_lines(pixels, points, y, has_ends=not is_page),
        *draw_limits(limits, y, [value_positions]),
        *_events(events, pixels),
        *_points(pixels, points, y, is_page=is_page, write=write),
        *_labels(pixels, points),
    ]
    title = f"{name}{f' ({unit})' if unit else ''}"
    if is_page:
        return draw_frame(
            title, _describe(points, write), body, height=HEIGHT - LEGEND, role="group"
        )
    return draw_chart(title, _describe(points, write), body, legend=True)


def _describe(points: Sequence[TrendPoint], write: Callable[[float], str]) -> str:
    last = points[-1]
    value = "no value" if last.value is None else write(last.value)
    verdict = (last.verdict or "not compared").replace("_", " ").lower()
    return f"runs: {len(points)}, the last at {value}, {verdict}"


def _points(
    pixels: Sequence[float],
    points: Sequence[TrendPoint],
    y: Axis,
    *,
    is_page: bool,
    write: Callable[[float], str],
) -> Iterator[str]:
    """A mark for each point, on a page with a link to its run."""
    for x, point in zip(pixels, points, strict=True):
        # A run without a value keeps its place, at the foot of the chart.
        value = "no value" if point.value is None else write(point.value)
        verdict = INVALID if point.value is None else point.verdict
        height = HEIGHT - BOTTOM - 4 if point.value is None else y.pixel(point.value)
        if not is_page:
            yield draw_mark(x, height, verdict, point.text or f"{point.label}: {value}")
        elif point.verdict in {None, "NO_EVIDENCE"} and point.value is not None:
            # Ordinary runs stay quiet, so that the eye finds the others.
            dot = f'<circle class="dot" cx="{x:.1f}" cy="{height:.1f}" r="2.2" fill="{LINE}"/>'
            yield link_mark(point, dot, x, height)
        else:
            yield link_mark(point, draw_mark(x, height, verdict), x, height)


def link_mark(point: TrendPoint, mark: str, x: float, y: float) -> str:
    """A mark that leads to its run, with an area that is easy to hit."""
    parts = (
        f"<title>{escape(point.text or point.label)}</title>"
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="12" fill="transparent"/>{mark}'
    )
    if point.url is None:
        return f'<g data-point tabindex="-1">{parts}</g>'
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


def _lines(
    pixels: Sequence[float], points: Sequence[TrendPoint], y: Axis, *, has_ends: bool
) -> Iterator[str]:
    """The band and the line of each series of comparable runs; with `has_ends`, each interval, too."""
    for series in split_lines(pixels, points):
        coordinates = " ".join(f"{x:.1f},{y.pixel(value):.1f}" for x, value, _ in series)
        yield from _bands(
            [x for x, _, _ in series], [point for _, _, point in series], y, has_ends=has_ends
        )
        yield _draw_line(coordinates)


def _draw_line(coordinates: str) -> str:
    return f'<polyline class="line" points="{coordinates}" fill="none" stroke="{LINE}" stroke-width="2"/>'


def _series_of(point: TrendPoint) -> tuple[str | None] | None:
    """Return the key that points of one line share; None for a point outside every line."""
    return None if point.verdict == INVALID or point.value is None else (point.fingerprint,)


def _bands(
    pixels: Sequence[float], points: Sequence[TrendPoint], y: Axis, *, has_ends: bool
) -> Iterator[str]:
    """The intervals as one area, and each as a vertical line if that is asked for or the only one."""
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
    is_alone = len(intervals) == 1
    for x, low, high in (
        intervals if is_alone or (has_ends and len(intervals) <= MAX_INTERVALS) else ()
    ):
        yield (
            f'<line class="line" x1="{x:.1f}" x2="{x:.1f}" y1="{low:.1f}" y2="{high:.1f}"'
            f' stroke="{LINE}" stroke-opacity="0.4"/>'
        )


def draw_limits(
    limits: Sequence[TrendLimit],
    y: Axis,
    lines: Sequence[Sequence[tuple[float, float]]],
    plot: Plot = PLOT,
) -> Iterator[str]:
    """A dashed line for each limit, with its text where no point of `lines` is, if there is such a place."""
    covered = [position for line in lines for position in (*line, *_between(line))]
    for limit in limits:
        pixel = y.pixel(limit.value)
        yield (
            f'<line class="limit" x1="{plot.left}" x2="{plot.right}" y1="{pixel:.1f}"'
            f' y2="{pixel:.1f}" stroke="{LIMIT}" stroke-dasharray="5 4"/>'
        )
        x, anchor, offset = _free_place(limit.text, pixel, covered, plot)
        label = draw_text(x, pixel + offset, limit.text, anchor=anchor, fill=FAINT, size=LIMIT_SIZE)
        # With a border in the color of its ground, so that a line behind it does not strike it through.
        yield label.replace(
            'class="faint"',
            'class="faint halo" paint-order="stroke" stroke="#ffffff" stroke-width="4"',
            1,
        )


def _free_place(
    text: str, pixel: float, covered: Sequence[tuple[float, float]], plot: Plot
) -> tuple[float, str, int]:
    """Where the text of a limit stands: x, the anchor, and the distance of its baseline from the line.

    The first place that neither a point nor the line between two covers; otherwise the first of all.
    """
    width = len(text) * LIMIT_SIZE * CHARACTER_WIDTH
    first, last = plot.left + 4.0, plot.right - 4.0
    starts = [first + n * (last - plot.left) / 8 for n in range(8)]
    positions = [
        (x, anchor, offset)
        for offset in LIMIT_OFFSETS
        for x, anchor in ((starts[0], "start"), (last, "end"), *((x, "start") for x in starts[1:]))
        if x + width <= last or anchor == "end"
    ]
    for position in positions:
        x, anchor, offset = position
        left = x if anchor == "start" else x - width
        middle = pixel + offset - LIMIT_SIZE / 2
        if not any(
            left - LIMIT_SPACE <= at <= left + width + LIMIT_SPACE
            and abs(height - middle) <= LIMIT_SPACE
            for at, height in covered
        ):
            return position
    return positions[0]


def _between(value_positions: Sequence[tuple[float, float]]) -> Iterator[tuple[float, float]]:
    """Places on the line between each two points, close enough that no text fits between them."""
    for (x, y), (next_x, next_y) in pairwise(value_positions):
        steps = int(max(abs(next_x - x), abs(next_y - y)) / LIMIT_SPACE) + 1
        for step in range(1, steps):
            yield x + (next_x - x) * step / steps, y + (next_y - y) * step / steps


def _spans(spans: Sequence[TrendSpan], pixels: Sequence[float], *, is_page: bool) -> Iterator[str]:
    """An area behind the points of each span; on a page it leads to its cause."""
    # A file has no style sheet, which gives the color of the theme.
    color = "currentColor" if is_page else COLORS["REGRESSED"]
    for span in spans:
        left, right = pixels[span.first] - SPAN_EDGE, pixels[span.last] + SPAN_EDGE
        area = (
            f"<title>{escape(span.text)}</title>"
            f'<rect class="span-regressed" x="{left:.1f}" y="{TOP}" width="{right - left:.1f}"'
            f' height="{HEIGHT - BOTTOM - TOP}" fill="{color}" fill-opacity="0.12"/>'
        )
        if is_page:
            yield f'<a href="{escape(span.url)}" tabindex="-1">{area}</a>'
        else:
            yield f"<g>{area}</g>"


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
    # The first day of a point of several runs: two texts of whole periods would touch.
    texts = [point.label.partition(" to ")[0] for point in points]
    widest = max(map(len, texts)) * LABEL_SIZE * CHARACTER_WIDTH
    fitting = int((WIDTH - LEFT - RIGHT) / (widest + LABEL_SPACE))
    count = min(max(2, min(MAX_LABELS, fitting)), len(points))
    labeled = sorted({round(n * (len(points) - 1) / max(1, count - 1)) for n in range(count)})
    for index in labeled:
        is_last = index == labeled[-1] and len(labeled) > 1
        anchor = "start" if index == 0 else "end" if is_last else "middle"
        yield draw_text(pixels[index], HEIGHT - 24, texts[index], anchor=anchor, fill=FAINT)
