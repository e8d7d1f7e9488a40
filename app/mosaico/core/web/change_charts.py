"""SVG charts of changes: by KPI or metric with their intervals, and by item; pure."""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from mosaico.core.text import format_decimal, shorten
from mosaico.core.web.svg import (
    BAND,
    BOTTOM,
    COLORS,
    FAINT,
    HEIGHT,
    INK,
    LEFT,
    RIGHT,
    TOP,
    WIDTH,
    Axis,
    build_axis,
    draw_chart,
    draw_empty_chart,
    draw_grid,
    draw_mark,
    draw_text,
    escape,
    label_ticks,
    list_ticks,
    mark_class,
)

ROW = 40
# The width of the names.
NAMES = 160
MAX_BARS = 300
LABEL_CHARS = 21


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
    x = build_axis(min(bounds), max(bounds), NAMES, WIDTH - LEFT - 8)
    rows = [
        element
        for index, change in enumerate(changes)
        for element in _change_row(change, x, TOP + ROW * (index + 0.5))
    ]
    zero = (
        f'<line class="axis" x1="{x.pixel(0):.1f}" x2="{x.pixel(0):.1f}" y1="{TOP}"'
        f' y2="{height - BOTTOM}" stroke="{INK}"/>'
    )
    values = list_ticks(x.low, x.high)
    ticks = [
        draw_text(x.pixel(value), height - BOTTOM + 16, label, anchor="middle", fill=FAINT)
        for value, label in zip(values, label_ticks(values, "+"), strict=True)
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
    description = (
        f"{len(ordered)} items: {worse} worse, {better} better, mean {format_decimal(mean, '+.3g')}"
    )
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
            f' fill="{color}"><title>{escape(bar.item)}: {format_decimal(bar.change, "+.3g")}</title></rect>'
        )


def _select_evenly(ordered: Sequence[ItemChange]) -> Sequence[ItemChange]:
    """At most `MAX_BARS` items, with the first and the last."""
    if len(ordered) <= MAX_BARS:
        return ordered
    last = len(ordered) - 1
    return [ordered[round(index * last / (MAX_BARS - 1))] for index in range(MAX_BARS)]
