"""Pictures of runs as SVG: a KPI over time, changes with their intervals, items one by one; pure.

No style sheet, no script and nothing fetched, so that a strict policy shows them; a verdict is told
by its mark and its words, never by colour alone.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from app.core.text import html_text, xml_text

WIDTH, HEIGHT = 640, 280
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 40, 44
ROW = 40
MOST_BARS = 300
# Beyond, the distance of two values may be none that a number can hold.
LARGEST = 1e300

INK, FAINT, LINE, BAND = "#24292f", "#6e7781", "#0969da", "#ddf4ff"
_COLOURS: Final = {
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


class Reading(NamedTuple):
    """A KPI in one run, with its interval and verdict, as far as there are any. Where `history` is
    another than in the run before, the number means something else.
    """

    label: str
    value: float
    low: float | None
    high: float | None
    verdict: str | None
    history: str | None = None


class Change(NamedTuple):
    """A change with its 95 % interval; within `margin` it would not count."""

    name: str
    effect: float
    low: float
    high: float
    margin: float
    verdict: str


class ItemChange(NamedTuple):
    """The change of one item."""

    item: str
    change: float


class _Scale(NamedTuple):
    """From values to places in the picture."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)


def kpi_trend(name: str, readings: Sequence[Reading], unit: str | None = None) -> str:
    """A KPI over its runs, oldest first: the line, the band of its intervals, a mark a verdict. Line
    and band end where a history does.
    """
    if not readings:
        return _nothing(name)
    ends = [end for one in readings for end in (one.value, one.low, one.high) if end is not None]
    y = _scale(min(ends), max(ends), HEIGHT - BOTTOM, TOP)
    x = _Scale(0, max(1, len(readings) - 1), LEFT + 12, WIDTH - RIGHT - 12)
    places = [x.at(at) for at in range(len(readings))]
    last = readings[-1]
    told = f"runs: {len(readings)}, the last at {last.value:.4g}, {last.verdict or 'not compared'}"
    return _picture(
        f"{name}{f' ({unit})' if unit else ''}",
        told,
        [
            *_grid(y),
            *_lines(places, readings, y),
            *(
                _mark(at, y.at(one.value), one.verdict, f"{one.label}: {one.value:.4g}")
                for at, one in zip(places, readings, strict=True)
            ),
            *_ends(readings[0].label, last.label if len(readings) > 1 else ""),
        ],
        legend=True,
    )


def changes_chart(title: str, changes: Sequence[Change]) -> str:
    """What changed, a row each: the interval, the zero, and the shaded margin that does not count."""
    if not changes:
        return _nothing(title)
    height = TOP + ROW * len(changes) + BOTTOM
    ends = [end for one in changes for end in (one.low, one.high, one.margin, -one.margin)]
    x = _scale(min(ends), max(ends), LEFT + 96, WIDTH - RIGHT - 8)
    rows = [
        part for at, one in enumerate(changes) for part in _change(one, x, TOP + ROW * (at + 0.5))
    ]
    zero = (
        f'<line x1="{x.at(0):.1f}" x2="{x.at(0):.1f}" y1="{TOP}" y2="{height - BOTTOM}"'
        f' stroke="{INK}"/>'
    )
    ticks = [
        _text(x.at(tick), height - BOTTOM + 16, f"{tick:+.3g}", anchor="middle", fill=FAINT)
        for tick in _ticks(x.low, x.high)
    ]
    told = "; ".join(
        f"{one.name} {one.effect:+.3g} ({one.low:+.3g} to {one.high:+.3g}), {one.verdict}"
        for one in changes
    )
    return _picture(title, told, [*rows, zero, *ticks], height=height, legend=True)


def items_chart(title: str, changes: Iterable[ItemChange], *, less_is_better: bool = False) -> str:
    """The change of every item, the worst on the left; of very many an even selection."""
    sign = -1 if less_is_better else 1
    ordered = sorted(changes, key=lambda one: (sign * one.change, one.item))
    if not ordered:
        return _nothing(title)
    fell = sum(sign * one.change < 0 for one in ordered)
    rose = sum(sign * one.change > 0 for one in ordered)
    mean = math.fsum(one.change / len(ordered) for one in ordered)
    shown = _selected(ordered)
    values = [one.change for one in shown]
    y = _scale(min(0.0, *values), max(0.0, *values), HEIGHT - BOTTOM, TOP)
    told = f"{len(ordered)} items: {fell} worse, {rose} better, {mean:+.3g} in the mean"
    return _picture(
        title,
        told,
        [
            *_grid(y),
            *_bars(shown, y, sign),
            (
                f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y.at(mean):.1f}" y2="{y.at(mean):.1f}"'
                f' stroke="{INK}" stroke-dasharray="6 4"/>'
            ),
            _text(LEFT, HEIGHT - 14, told, fill=FAINT),
        ],
    )


def _lines(places: Sequence[float], readings: Sequence[Reading], y: _Scale) -> Iterator[str]:
    """The band and the line of each history."""
    stretches = groupby(zip(places, readings, strict=True), key=lambda each: each[1].history)
    for stretch in [list(each) for _, each in stretches]:
        points = " ".join(f"{at:.1f},{y.at(one.value):.1f}" for at, one in stretch)
        yield from _bands([at for at, _ in stretch], [one for _, one in stretch], y)
        yield f'<polyline points="{points}" fill="none" stroke="{LINE}" stroke-width="2"/>'


def _bands(places: Sequence[float], readings: Sequence[Reading], y: _Scale) -> Iterator[str]:
    """The intervals of neighbours joined; one alone as a bar."""
    known = [
        (at, y.at(one.low), y.at(one.high))
        for at, one in zip(places, readings, strict=True)
        if one.low is not None and one.high is not None
    ]
    if len(known) > 1:
        upper = " ".join(f"{at:.1f},{high:.1f}" for at, _, high in known)
        lower = " ".join(f"{at:.1f},{low:.1f}" for at, low, _ in reversed(known))
        yield f'<polygon points="{upper} {lower}" fill="{BAND}"/>'
    for at, low, high in known:
        yield (
            f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{low:.1f}" y2="{high:.1f}" stroke="{LINE}"'
            ' stroke-opacity="0.4"/>'
        )


def _change(one: Change, x: _Scale, y: float) -> Iterator[str]:
    inside = x.at(-one.margin), x.at(one.margin)
    yield (
        f'<rect x="{inside[0]:.1f}" y="{y - ROW / 2 + 2:.1f}" width="{inside[1] - inside[0]:.1f}"'
        f' height="{ROW - 4}" fill="{BAND}"/>'
    )
    yield _text(8, y + 4, _short(one.name))
    yield (
        f'<line x1="{x.at(one.low):.1f}" x2="{x.at(one.high):.1f}" y1="{y:.1f}" y2="{y:.1f}"'
        f' stroke="{_COLOURS.get(one.verdict, INK)}" stroke-width="3"/>'
    )
    yield _mark(x.at(one.effect), y, one.verdict, f"{one.name}: {one.verdict}")


def _bars(shown: Sequence[ItemChange], y: _Scale, sign: int) -> Iterator[str]:
    width = (WIDTH - LEFT - RIGHT) / len(shown)
    for at, one in enumerate(shown):
        ends = sorted((y.at(0.0), y.at(one.change)))
        colour = _COLOURS["REGRESSED" if sign * one.change < 0 else "IMPROVED"]
        yield (
            f'<rect x="{LEFT + at * width:.1f}" y="{ends[0]:.1f}" width="{max(width - 1, 0.5):.1f}"'
            f' height="{max(ends[1] - ends[0], 1):.1f}" fill="{colour if one.change else FAINT}">'
            f"<title>{_words(one.item)}: {one.change:+.3g}</title></rect>"
        )


def _grid(y: _Scale) -> Iterator[str]:
    for tick in _ticks(y.low, y.high):
        at = y.at(tick)
        yield (
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}" stroke="#d0d7de"/>'
        )
        yield _text(LEFT - 8, at + 4, f"{tick:.4g}", anchor="end", fill=FAINT)


def _ends(first: str, last: str) -> Iterator[str]:
    yield _text(LEFT, HEIGHT - 24, first, fill=FAINT)
    yield _text(WIDTH - RIGHT, HEIGHT - 24, last, anchor="end", fill=FAINT)


def _mark(x: float, y: float, verdict: str | None, told: str) -> str:
    sign = _MARKS.get(verdict or "", "·")
    colour = _COLOURS.get(verdict or "", INK)
    words = f"{told}, {verdict}" if verdict and verdict not in told else told
    return (
        f'<text x="{x:.1f}" y="{y + 5:.1f}" text-anchor="middle" font-size="16" fill="{colour}">'
        f"<title>{_words(words)}</title>{sign}</text>"
    )


def _picture(
    title: str, told: str, body: Iterable[str], *, height: int = HEIGHT, legend: bool = False
) -> str:
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}"'
            f' viewBox="0 0 {WIDTH} {height}" role="img" font-family="system-ui, sans-serif"'
            ' font-size="12">'
        ),
        f"<title>{_words(title)}</title>",
        f"<desc>{_words(told)}</desc>",
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        _text(8, 20, title, size=14),
        *body,
    ]
    if legend:
        words = "   ".join(
            f"{sign} {name.replace('_', ' ').lower()}" for name, sign in _MARKS.items()
        )
        parts.append(_text(LEFT, height - 6, words, fill=FAINT, size=11))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _nothing(title: str) -> str:
    told = "nothing to show yet"
    return _picture(title, told, [_text(LEFT, HEIGHT / 2, told, fill=FAINT)])


def _text(
    x: float, y: float, words: str, *, anchor: str = "start", fill: str = INK, size: int = 12
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{fill}" font-size="{size}">'
        f"{_words(words)}</text>"
    )


def _words(text: str) -> str:
    return html_text(xml_text(text))


def _short(text: str, limit: int = 22) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _selected(ordered: Sequence[ItemChange]) -> Sequence[ItemChange]:
    if len(ordered) <= MOST_BARS:
        return ordered
    last = len(ordered) - 1
    return [ordered[round(at * last / (MOST_BARS - 1))] for at in range(MOST_BARS)]


def _scale(low: float, high: float, start: float, end: float) -> _Scale:
    """With some room at both ends; a single value stands in the middle."""
    low, high = max(low, -LARGEST), min(high, LARGEST)
    room = (high - low) * 0.06 or max(abs(high), 1.0) * 0.1
    return _Scale(low - room, high + room, start, end)


def _ticks(low: float, high: float) -> list[float]:
    """Four to ten round numbers within."""
    step = 10 ** math.floor(math.log10((high - low) / 4))
    step *= next(each for each in (1, 2, 5, 10) if (high - low) / (step * each) <= 8)  # noqa: PLR2004 - lines
    first = math.ceil(low / step)
    return [round(at * step, 12) for at in range(first, math.floor(high / step) + 1)]
