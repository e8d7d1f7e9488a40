"""An SVG strip of versions over the runs of an agent: a point for each run, the mean of each version; pure."""

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from mosaico.core.text import format_number, shorten
from mosaico.core.web.svg import (
    BOTTOM,
    FAINT,
    HEIGHT,
    INK,
    LEFT,
    RIGHT,
    TOP,
    WIDTH,
    Axis,
    build_axis,
    draw_empty_chart,
    draw_frame,
    draw_grid,
    draw_text,
    escape,
)

# As many as `changes.css` has colors; further versions share the last one.
COLORS: Final = 5
# Of a name above its segment.
CHARACTER: Final = 7
NAME_SIZE: Final = 11
# Of a name above a short segment.
NAME_CHARS: Final = 24


class VersionPoint(NamedTuple):
    """A run: the number of its version, the text of its time, and its value, None without one."""

    version: int
    label: str
    value: float | None
    url: str


def version_class(version: int) -> str:
    """The class with the color of a version, by its number."""
    return f"version-{min(version, COLORS - 1)}"


def version_chart(
    title: str,
    points: Sequence[VersionPoint],
    names: Sequence[str],
    *,
    write: Callable[[float], str] = format_number,
) -> str:
    """The runs, oldest first, below a bar of their versions. `names` are those of the versions by number, `write` gives
    the text of a value.
    """
    values = [point.value for point in points if point.value is not None]
    if not values:
        return draw_empty_chart(title)
    y = build_axis(min(values), max(values), HEIGHT - BOTTOM, TOP + 8)
    step = (WIDTH - RIGHT - LEFT) / len(points)
    body = [*draw_grid(y), *_draw_segments(points, names, y, step, write)]
    body += [_draw_point(point, number, y, step, write) for number, point in enumerate(points)]
    for number, anchor in {0: "start", len(points) - 1: "end"}.items():
        at = LEFT + step * (number + (anchor == "end"))
        body.append(draw_text(at, HEIGHT - 22, points[number].label, anchor=anchor, fill=FAINT))
    description = f"{len(points)} runs of {len({point.version for point in points})} versions"
    return draw_frame(
        title, description, body, height=HEIGHT - 12, role="group", kind="chart versions"
    )


def _draw_segments(
    points: Sequence[VersionPoint],
    names: Sequence[str],
    y: Axis,
    step: float,
    write: Callable[[float], str],
) -> Iterator[str]:
    """The bar of each version where it follows another one, its name and its mean there."""
    first, last_end = 0, 0.0
    for version, group in groupby(points, key=lambda point: point.version):
        members = list(group)
        left, width = LEFT + first * step, len(members) * step
        name = names[version]
        yield (
            f'<rect class="segment {version_class(version)}" x="{left + 1:.1f}" y="6" width="{max(width - 2, 2):.1f}"'
            f' height="6" rx="3" fill="{INK}"><title>{escape(name)}</title></rect>'
        )
        # A name that would cover the one before is in the table only.
        text = shorten(name, max(int(width / CHARACTER), NAME_CHARS))
        start = min(left, WIDTH - LEFT - len(text) * CHARACTER)
        if start >= last_end:
            yield draw_text(start, 28, text, size=NAME_SIZE)
            last_end = start + len(text) * CHARACTER
        values = [point.value for point in members if point.value is not None]
        if len(values) > 1:
            mean = sum(value / len(values) for value in values)
            yield (
                f'<line class="mean {version_class(version)}" x1="{left:.1f}" x2="{left + width:.1f}"'
                f' y1="{y.pixel(mean):.1f}" y2="{y.pixel(mean):.1f}" stroke="{FAINT}">'
                f"<title>{escape(f'{name}: mean {write(mean)}')}</title></line>"
            )
        first += len(members)


def _draw_point(
    point: VersionPoint, number: int, y: Axis, step: float, write: Callable[[float], str]
) -> str:
    if point.value is None:
        return ""
    return (
        f'<circle class="point {version_class(point.version)}" cx="{LEFT + step * (number + 0.5):.1f}"'
        f' cy="{y.pixel(point.value):.1f}" r="3.2" fill="{INK}"><title>{escape(f"{point.label}: {write(point.value)}")}'
        "</title></circle>"
    )
