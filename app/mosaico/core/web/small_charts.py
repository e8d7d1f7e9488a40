"""Small SVG charts that stand side by side: a distribution before and now, and a value against another one; pure."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from mosaico.core.text import format_number
from mosaico.core.web.svg import (
    COLORS,
    FAINT,
    GRID,
    INK,
    LINE,
    Axis,
    build_axis,
    draw_frame,
    draw_text,
    escape,
    label_ticks,
    list_ticks,
)

WIDTH: Final = 320
HEIGHT: Final = 184
_LEFT, _RIGHT, _TOP, _BOTTOM = 8, 312, 22, 148
# The labels of the vertical axis of points need space.
_POINTS_LEFT = 46
_GAP = 2
# Of points that were measured earlier; the last one is drawn in full.
_RADIUS, _LAST_RADIUS = 3.5, 6.0


class ChartValue(NamedTuple):
    """A point: a value against another one, its text, and its page."""

    x: float
    y: float
    text: str
    url: str


def distribution_chart(
    title: str, edges: Sequence[float], before: Sequence[int] | None, now: Sequence[int]
) -> str:
    """Two bars for each bin, before and now; one without `before`. `edges` has one number more than there are bins.

    The bars are shares of the values of their run where the runs have different numbers of values.
    """
    sides = [counts for counts in (before, now) if counts is not None]
    shares = [[count / max(1, sum(counts)) for count in counts] for counts in sides]
    largest = max((share for side in shares for share in side), default=0.0) or 1.0
    y = Axis(0.0, largest, _BOTTOM, _TOP)
    slot = (_RIGHT - _LEFT) / len(now)
    body = [
        f'<line class="axis" x1="{_LEFT}" x2="{_RIGHT}" y1="{_BOTTOM}" y2="{_BOTTOM}" stroke="{FAINT}"/>'
    ]
    names = ["before", "now"] if before is not None else ["now"]
    for name, counts, side in zip(names, sides, shares, strict=True):
        place = names.index(name)
        width = (slot - 2 * _GAP) / len(names)
        for index, (count, share) in enumerate(zip(counts, side, strict=True)):
            if not count:
                continue
            x, top = _LEFT + index * slot + _GAP + place * width, y.pixel(share)
            label = f"{format_number(edges[index])} to {format_number(edges[index + 1])}: {count:,} {name}"
            body.append(_draw_bar(name, x, top, width - 1, label))
            # A wider number would touch that of the next bar.
            if len(f"{count:,}") * 7 < width:
                body.append(
                    draw_text(
                        x + width / 2, top - 4, f"{count:,}", anchor="middle", fill=FAINT, size=11
                    )
                )
    body += [
        draw_text(
            _LEFT + position * slot,
            _BOTTOM + 16,
            format_number(edges[position]),
            anchor=anchor,
            fill=FAINT,
        )
        for position, anchor in ((0, "start"), (len(now) // 2, "middle"), (len(now), "end"))
    ]
    return draw_frame(
        title, _describe(edges, sides, names), body, height=HEIGHT, width=WIDTH, kind="chart small"
    )


def _draw_bar(name: str, x: float, top: float, width: float, label: str) -> str:
    fill = "none" if name == "before" else LINE
    return (
        f'<rect class="bar-{name}" x="{x:.1f}" y="{top:.1f}" width="{width:.1f}"'
        f' height="{_BOTTOM - top:.1f}" fill="{fill}" stroke="{FAINT if name == "before" else LINE}">'
        f"<title>{escape(label)}</title></rect>"
    )


def _describe(edges: Sequence[float], sides: Sequence[Sequence[int]], names: Sequence[str]) -> str:
    return "; ".join(
        f"{format_number(edges[index])} to {format_number(edges[index + 1])}: "
        + ", ".join(f"{side[index]} {name}" for side, name in zip(sides, names, strict=True))
        for index in range(len(edges) - 1)
    )


def points_chart(title: str, x_name: str, y_name: str, points: Sequence[ChartValue]) -> str:
    """A point for each run, the last one in full; at least one point."""
    x = build_axis(min(p.x for p in points), max(p.x for p in points), _POINTS_LEFT, _RIGHT)
    y = build_axis(min(p.y for p in points), max(p.y for p in points), _BOTTOM, _TOP - 8)
    body = [*_draw_axes(x, y)]
    for index, point in enumerate(points):
        is_last = index == len(points) - 1
        body.append(
            f'<a href="{escape(point.url)}"><circle class="{"m-now" if is_last else "m-earlier"}"'
            f' cx="{x.pixel(point.x):.1f}" cy="{y.pixel(point.y):.1f}"'
            f' r="{_LAST_RADIUS if is_last else _RADIUS}" fill="{COLORS["CHANGED"] if is_last else FAINT}">'
            f"<title>{escape(point.text)}</title></circle></a>"
        )
    body.append(draw_text(_RIGHT, HEIGHT - 4, x_name, anchor="end", fill=INK))
    body.append(draw_text(_LEFT, 12, y_name, fill=INK))
    description = "; ".join(point.text for point in points)
    return draw_frame(
        title, description, body, height=HEIGHT, width=WIDTH, kind="chart small", role="group"
    )


def _draw_axes(x: Axis, y: Axis) -> Iterator[str]:
    values = list_ticks(y.low, y.high)[::2]
    for value, label in zip(values, label_ticks(values), strict=True):
        pixel = y.pixel(value)
        yield (
            f'<line class="grid" x1="{_POINTS_LEFT}" x2="{_RIGHT}" y1="{pixel:.1f}" y2="{pixel:.1f}"'
            f' stroke="{GRID}"/>'
        )
        yield draw_text(_POINTS_LEFT - 6, pixel + 4, label, anchor="end", fill=FAINT, size=11)
    values = list_ticks(x.low, x.high)[::3]
    for value, label in zip(values, label_ticks(values), strict=True):
        yield draw_text(x.pixel(value), _BOTTOM + 16, label, anchor="middle", fill=FAINT, size=11)
