"""Decisions of the overview: the verdict of a cell, the order of cells, and what counts; pure."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple, Protocol

from mosaico.kpis.verdict_types import RunVerdict
from mosaico.overview.change_schemas import ChangeView
from mosaico.overview.changes import FAILED, ChangeGroup
from mosaico.overview.schemas import OverviewCell
from mosaico.run_store.rules import RunStatus, Validity
from mosaico.statistics.verdict_rules import Scale, Verdict

NOT_COMPARED: Final = "NOT_COMPARED"


class OutcomeCount(NamedTuple):
    """How many pairs have an outcome, with its words."""

    outcome: str
    pairs: int
    text: str


# What a reader must see first.
_ORDER: Final = (
    Verdict.REGRESSED,
    FAILED,
    Verdict.INVALID,
    Verdict.CHANGED,
    Verdict.IMPROVED,
    Verdict.INCONCLUSIVE,
    Verdict.NO_EVIDENCE,
    Verdict.NOT_MEASURED,
    NOT_COMPARED,
)


class RunReasons(Protocol):
    """The parts of a run that say why it has its outcome."""

    @property
    def error_code(self) -> str | None: ...
    @property
    def error_message(self) -> str | None: ...
    @property
    def validity(self) -> str | None: ...
    @property
    def validity_reasons(self) -> Sequence[str] | None: ...
    @property
    def verdict(self) -> RunVerdict | None: ...


def explain_run(run: RunReasons, outcome: str | None) -> str:
    """Return the reason why a run has its outcome: the error, the reasons of an invalid run, or the
    comparison.
    """
    if outcome == FAILED:
        return str(run.error_message or run.error_code or "No error message was recorded.")
    if run.validity == Validity.INVALID:
        return "; ".join(run.validity_reasons or ["too few traces were measured"])
    return str(run.verdict.explanation) if run.verdict else "The run was not compared."


def outcome_of(cell: OverviewCell) -> str:
    """The verdict of a cell, FAILED for a run without results, NOT_COMPARED for a first run."""
    if cell.status == RunStatus.FAILED:
        return FAILED
    return cell.verdict or NOT_COMPARED


def outcome_rank(cell: OverviewCell) -> int:
    """The place of the outcome of a cell, the worst first."""
    return _ORDER.index(outcome_of(cell))


def sort_cells(cells: Sequence[OverviewCell]) -> list[OverviewCell]:
    """Recent cells first, each group from the worst outcome to the best, then by name."""
    return sorted(
        cells,
        key=lambda cell: (
            not cell.is_recent,
            outcome_rank(cell),
            cell.benchmark_name.lower(),
            cell.agent_name.lower(),
        ),
    )


def count_outcomes(cells: Sequence[OverviewCell]) -> dict[str, int]:
    """The number of recent cells by outcome."""
    return dict(Counter(outcome_of(cell) for cell in cells if cell.is_recent))


def list_detectable_drops(cells: Sequence[OverviewCell]) -> list[float]:
    """The smallest detectable drops of the recent headline KPIs that are shares, ascending."""
    verdicts = [cell.kpi.verdict for cell in cells if cell.is_recent and cell.kpi]
    return sorted(
        verdict.min_detectable_effect
        for verdict in verdicts
        if verdict and verdict.scale is Scale.RATE and verdict.min_detectable_effect is not None
    )


def describe_night(changes: Sequence[ChangeView], since: datetime, pair_count: int) -> str:
    """The headline: "1 of 7 got worse, 1 could not be measured", "Nothing got worse", "No run has ended"."""
    if not pair_count and not changes:
        return "No run has ended"
    worse = _pairs(changes, [Verdict.REGRESSED], since)
    unmeasured = _pairs(changes, [FAILED, Verdict.INVALID], since) - worse
    recovered = worse - _pairs(_of(changes, ChangeGroup.NEW), [Verdict.REGRESSED], since)
    parts = [
        f"{len(worse)} of {max(pair_count, len(worse))} got worse" if worse else "Nothing got worse"
    ]
    if recovered:
        parts.append(f"{len(recovered)} recovered")
    if unmeasured:
        parts.append(f"{len(unmeasured)} could not be measured")
    return ", ".join(parts)


def _of(changes: Iterable[ChangeView], *groups: ChangeGroup) -> list[ChangeView]:
    return [change for change in changes if change.group in groups]


def _pairs(
    changes: Sequence[ChangeView], outcomes: Sequence[str], since: datetime
) -> set[tuple[str, str]]:
    """The agents on benchmarks to which something happened in a period that nobody judged."""
    return {
        (change.benchmark_id, change.agent_id)
        for change in _of(changes, ChangeGroup.NEW, ChangeGroup.RECOVERED)
        if change.outcome in outcomes and (change.group is ChangeGroup.NEW or change.since >= since)
    }


def describe_counts(counts: Mapping[str, int]) -> list[OutcomeCount]:
    """The outcomes that are no news, of the pairs that ran: 13 without evidence."""
    words = (
        (Verdict.IMPROVED, "improved"),
        (Verdict.NO_EVIDENCE, "no evidence of a change"),
        (Verdict.INCONCLUSIVE, "inconclusive"),
        (Verdict.NOT_MEASURED, "without a measure of quality"),
        (NOT_COMPARED, "not compared"),
    )
    return [
        OutcomeCount(outcome, counts[outcome], word)
        for outcome, word in words
        if counts.get(outcome)
    ]


def describe_sight(drops: Sequence[float]) -> list[tuple[float, int]]:
    """What the last runs could have shown: drops of shares, with the number of pairs that would have shown each. That of
    half of the pairs, then that of all; ascending `drops`.
    """
    if not drops:
        return []
    half = (len(drops) + 1) // 2
    shown = [(drops[half - 1], half), (drops[-1], len(drops))]
    return shown if shown[0][0] < shown[1][0] else shown[1:]
