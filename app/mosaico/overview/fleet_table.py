"""The fleet as tables show it: one row for each pair, or a grid of agents and benchmarks."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from markupsafe import Markup

from mosaico.comparison.attribute_text import describe_difference
from mosaico.comparison.change_text import format_amount
from mosaico.core.web.heat_strip import StripCell, heat_strip
from mosaico.kpis.number_text import FigureFormat, with_unit
from mosaico.overview import rules
from mosaico.overview.change_cards import Badge, badge_of
from mosaico.overview.changes import FAILED, SAME_ANSWERS, ChangeGroup, ChangeOutcome
from mosaico.overview.fleet_schemas import Fleet, FleetPair
from mosaico.overview.nights import Night, describe_nights
from mosaico.statistics.verdict_rules import Scale, Verdict

_STEPS = {-1: "down-1", -2: "down-2", -3: "down-3", 1: "up-1", 2: "up-2"}
_FRAMES = {
    SAME_ANSWERS: "same",
    Verdict.INVALID: "invalid",
    FAILED: "invalid",
    "NO_VALUE": "invalid",
}


class FleetRow(NamedTuple):
    """An agent on a benchmark as a table shows it: its number with its own verdict, and what else its run says."""

    pair: FleetPair
    badge: Badge
    value: str
    interval: str
    delta: str
    is_worse: bool
    elsewhere: str
    differences: Sequence[str]
    strip: Markup
    since: datetime | None


class GridLine(NamedTuple):
    """A row of the grid: an agent or a benchmark, with a cell for each column; None where it was never benchmarked."""

    id: str
    name: str
    cells: list[FleetRow | None]


def fleet_rows(pairs: Sequence[FleetPair], *, is_wide: bool = True) -> list[FleetRow]:
    """The rows of some pairs, in their order."""
    return [_row(pair, is_wide=is_wide) for pair in pairs]


def _row(pair: FleetPair, *, is_wide: bool) -> FleetRow:
    kpi, outcome = pair.kpi, rules.outcome_of(pair)
    verdict = kpi.verdict if kpi else None
    scale = verdict.scale if verdict else None
    has_value = (
        kpi is not None and kpi.value is not None and outcome not in (FAILED, Verdict.INVALID)
    )
    figures = FigureFormat.of([kpi.value, *kpi.history], kpi.unit, scale) if kpi else None
    value = (
        figures.write(kpi.value) if figures and kpi and kpi.value is not None and has_value else ""
    )
    effect = verdict.effect if verdict and has_value else None
    delta = "" if effect is None else format_amount(effect, scale, has_sign=True)
    unit = kpi.unit if kpi and scale is Scale.NUMBER else None
    return FleetRow(
        pair=pair,
        badge=_pair_badge(pair),
        value=value,
        interval=(figures.write_range(kpi.interval_low, kpi.interval_high) or "") if figures and kpi and value else "",
        delta=with_unit(delta, unit) if delta else "",
        is_worse=bool(kpi and kpi.outcome is Verdict.REGRESSED),
        elsewhere=_elsewhere(pair),
        differences=_differences(pair)[:2] if value else (),
        strip=_strip(pair, is_wide=is_wide),
        since=pair.change.since if pair.change else None,
    )  # fmt: skip


def _pair_badge(pair: FleetPair) -> Badge:
    """What the pair is now: its change, otherwise the own verdict of its number."""
    change = pair.change
    if change is not None and change.outcome is not ChangeOutcome.CHANGED:
        is_of_number = change.kpi is None or (
            pair.kpi is not None and change.kpi.kpi_id == pair.kpi.kpi_id
        )
        if is_of_number:
            return badge_of(change)
    outcome = rules.outcome_of(pair)
    if outcome not in (FAILED, Verdict.INVALID) and pair.kpi is not None:
        outcome = pair.kpi.outcome or outcome
    word = "no evidence" if outcome == Verdict.NO_EVIDENCE else outcome.replace("_", " ").lower()
    return Badge(outcome, word, outcome.lower().replace("_", "-"))


def _elsewhere(pair: FleetPair) -> str:
    """Another number of the run that says more than the shown one: "cost per task: regressed"."""
    change = pair.change
    if (
        change is not None
        and change.kpi is not None
        and change.group in (ChangeGroup.NEW, ChangeGroup.ONGOING)
    ):
        if pair.kpi is None or change.kpi.kpi_id != pair.kpi.kpi_id:
            return f"{change.kpi.name}: {badge_of(change).text}"
        return ""
    is_same = (
        pair.kpi is None
        or pair.decided_by in (None, pair.kpi.name)
        or pair.kpi.outcome == pair.verdict
    )
    return (
        ""
        if is_same or pair.verdict is None
        else f"{pair.decided_by}: {pair.verdict.replace('_', ' ').lower()}"
    )


def _differences(pair: FleetPair) -> Sequence[str]:
    """What changed, in the order of the card on Morning; of a run without a change what differs from its baseline."""
    change = pair.change
    if change is None or change.what_changed is None or not change.what_changed.differences:
        return pair.differences
    return [describe_difference(difference) for difference in change.what_changed.differences]


def _strip(pair: FleetPair, *, is_wide: bool) -> Markup:
    nights = describe_nights(pair.nights)
    words = "; ".join(f"{text} on {day.day} {day:%b}" for day, text in nights) or "as usual"
    label = f"{pair.agent_name} on {pair.benchmark_name}, last {len(pair.nights)} nights: {words}"
    cells = [_cell(night) for night in pair.nights]
    return Markup(heat_strip(cells, label, is_wide=is_wide))  # noqa: S704 - our own SVG, which escapes the label


def _cell(night: Night) -> StripCell:
    if not night.has_run:
        return StripCell("none")
    frame = _FRAMES.get(night.outcome or "")
    mark = night.outcome if night.outcome and night.outcome != "NO_VALUE" else ""
    return StripCell(frame or _STEPS.get(night.step or 0, "still"), mark)


def night_heads(fleet: Fleet) -> tuple[str, str]:
    """The first and the last day of the strips."""
    first, last = fleet.first_day, fleet.last_day
    return f"{first.day} {first:%b}", f"{last.day} {last:%b}"


def build_grid(
    rows: Sequence[FleetRow], *, by_benchmark: bool
) -> tuple[list[tuple[str, str]], list[GridLine]]:
    """The columns and the rows of the grid: agents and benchmarks, or the other way round. Rows keep the order of the
    pairs, so that the worst one comes first; columns are by name.
    """

    def line_of(row: FleetRow) -> tuple[str, str]:
        pair = row.pair
        return (
            (pair.benchmark_id, pair.benchmark_name)
            if by_benchmark
            else (pair.agent_id, pair.agent_name)
        )

    def column_of(row: FleetRow) -> tuple[str, str]:
        pair = row.pair
        return (
            (pair.agent_id, pair.agent_name)
            if by_benchmark
            else (pair.benchmark_id, pair.benchmark_name)
        )

    columns = sorted({column_of(row) for row in rows}, key=lambda column: column[1].lower())
    cells = {(line_of(row)[0], column_of(row)[0]): row for row in rows}
    lines = dict.fromkeys(line_of(row) for row in rows)
    return columns, [
        GridLine(id_, name, [cells.get((id_, column[0])) for column in columns])
        for id_, name in lines
    ]
