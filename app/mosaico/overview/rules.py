"""Decisions of the overview: the verdict of a cell, the order of cells, and what counts; pure."""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from mosaico.overview.schemas import OverviewCell
from mosaico.run_store.rules import RunStatus, Validity
from mosaico.statistics.verdict_rules import Scale, Verdict

NOT_COMPARED: Final = "NOT_COMPARED"
FAILED: Final = "FAILED"
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


def decide_verdict(validity: str | None, verdict: Verdict | None) -> Verdict | None:
    """The verdict of a run; INVALID when too little was measured to compare it."""
    return Verdict.INVALID if validity == Validity.INVALID else verdict


def outcome_of(cell: OverviewCell) -> str:
    """The verdict of a cell, FAILED for a run without results, NOT_COMPARED for a first run."""
    if cell.status == RunStatus.FAILED:
        return FAILED
    return cell.verdict or NOT_COMPARED


def sort_cells(cells: Sequence[OverviewCell]) -> list[OverviewCell]:
    """Recent cells first, each group from the worst outcome to the best, then by name."""
    return sorted(
        cells,
        key=lambda cell: (
            not cell.is_recent,
            _ORDER.index(outcome_of(cell)),
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


def describe_night(counts: dict[str, int]) -> str:
    """The headline: "1 of 7 got worse", "nothing got worse", "no run ended"."""
    total = sum(counts.values())
    if not total:
        return "No run has ended"
    worse = counts.get(Verdict.REGRESSED, 0)
    if worse:
        return f"{worse} of {total} got worse"
    broken = counts.get(FAILED, 0) + counts.get(Verdict.INVALID, 0)
    if broken:
        return f"Nothing got worse, {broken} of {total} cannot be judged"
    return "Nothing got worse"


def describe_counts(counts: dict[str, int]) -> list[str]:
    """The other outcomes in words: "5 without evidence of a change"."""
    words = (
        (Verdict.CHANGED, "changed without a better direction"),
        (Verdict.IMPROVED, "improved"),
        (Verdict.NO_EVIDENCE, "without evidence of a change"),
        (Verdict.INCONCLUSIVE, "inconclusive"),
        (Verdict.INVALID, "invalid"),
        (Verdict.NOT_MEASURED, "without a measure of quality"),
        (FAILED, "failed"),
        (NOT_COMPARED, "not compared"),
    )
    return [f"{counts[outcome]} {word}" for outcome, word in words if counts.get(outcome)]
