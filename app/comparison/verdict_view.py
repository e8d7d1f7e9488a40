"""What a run is found to be beside its baseline, as it is stored, shown and said; pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from app.results.plan import Differences
from app.statistics.anomaly import Side
from app.statistics.intervals import Interval
from app.statistics.verdict import Judgement, Note, Scale, Verdict

NOT_COMPARABLE = "not comparable with its baseline"
NO_VALUE = "it has no value"
FIRST_RUN = "first run: there is no earlier valid run of this agent to compare it with"

# Which verdict speaks for several: the first that one of them has.
_LOUDEST = (
    Verdict.REGRESSED,
    Verdict.IMPROVED,
    Verdict.INCONCLUSIVE,
    Verdict.NO_EVIDENCE,
    Verdict.INVALID,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdicts:
    """All that a run says beside its baseline, as it is stored: of the run, of each metric by
    column, of each KPI by id; and the intervals of what has one.
    """

    run: dict[str, Any]
    metrics: Mapping[str, dict[str, Any]]
    kpis: Mapping[str, dict[str, Any]]
    metric_intervals: Mapping[str, Interval] = field(default_factory=dict)
    kpi_intervals: Mapping[str, Interval] = field(default_factory=dict)


class Compared(NamedTuple):
    """How many items two runs share, and how many they do not; `left_out` are too many to look at."""

    items: int
    only_base: int
    only_candidate: int
    revised: int
    left_out: int


def withheld(reason: str, verdict: Verdict | None = None) -> dict[str, Any]:
    """No comparison was made, and why."""
    return {"verdict": verdict, "reason": reason, "explanation": f"{_capital(reason)}."}


def told_judgement(
    name: str, found: Judgement, scale: Scale, *, gate: bool = False
) -> dict[str, Any]:
    """One KPI or metric beside its baseline."""
    return {
        "verdict": found.verdict,
        "reason": None,
        "effect": found.effect,
        "low": found.low,
        "high": found.high,
        "p": found.p,
        "pAdjusted": found.p_adjusted,
        "mde": found.mde,
        "minEffect": found.min_effect,
        "margin": found.margin,
        "base": found.base,
        "value": found.value,
        "scale": scale,
        "side": found.side,
        "items": found.n_items,
        "trials": found.trials,
        "moreTrials": found.more_trials,
        "clusters": found.clusters,
        "fixedLow": found.fixed.low if found.fixed else None,
        "fixedHigh": found.fixed.high if found.fixed else None,
        "method": found.method,
        "gate": gate,
        "notes": list(found.notes),
        "explanation": explain(name, found, scale),
    }


def explain(name: str, found: Judgement, scale: Scale) -> str:
    """A judgement in words that need no statistics."""
    notes = [note.words for note in found.notes]
    if found.effect is None:
        return " ".join([f"{name} was not compared.", *notes])
    sentences = [_change(name, found, scale), _meaning(found, scale), *notes]
    if found.verdict is Verdict.INCONCLUSIVE and found.more_trials:
        sentences.append(f"{_count(found.more_trials, 'more trial')} of each item would settle it.")
    return " ".join(sentence for sentence in sentences if sentence)


def told_run(
    kpis: Sequence[Mapping[str, Any]],
    metrics: Sequence[Mapping[str, Any]],
    *,
    baseline: Mapping[str, Any] | None,
    compared: Compared,
    differs: Differences,
) -> dict[str, Any]:
    """The run as a whole: its KPIs speak for it, or its metrics where it has none. Those that cannot
    be compared are silent while others can.
    """
    speakers = [one for one in (kpis or metrics) if one["verdict"] is not None]
    counts = Counter(str(one["verdict"]) for one in speakers)
    verdict = next((each for each in _LOUDEST if counts[each]), None)
    differing = [*_other_items(compared), *differs.told]
    reason = None
    if verdict is None:
        reason = "nothing of this run can be compared with its baseline"
    elif verdict is Verdict.INVALID:
        said = "; ".join(differing) or "no item has a value in both runs"
        reason = f"{NOT_COMPARABLE}: {said}"
    return {
        "verdict": verdict,
        "reason": reason,
        "baseline": baseline,
        "items": {
            "items": compared.items,
            "onlyBase": compared.only_base,
            "onlyCandidate": compared.only_candidate,
            "revised": compared.revised,
            "leftOut": compared.left_out,
        },
        "counts": dict(counts),
        "differs": differing,
        "conditions": list(differs.conditions),
        "explanation": " ".join(
            [
                f"{_capital(reason)}."
                if reason
                else _summary(counts, "KPIs" if kpis else "metrics"),
                f"Compared over {_count(compared.items, 'item')}."
                if compared.items
                else "They have too few items in common, and are compared as two samples.",
                *_told_left_out(compared),
                *(f"Unlike the baseline, {difference}." for difference in differing),
            ]
        ),
    }


def _change(name: str, found: Judgement, scale: Scale) -> str:
    assert found.effect is not None
    if found.effect == 0:
        return f"{name} is as it was, {_number(found.value)}."
    moved = "fell" if found.effect < 0 else "rose"
    reach = (
        f" (95 % certain: {_signed(found.low, scale)} to {_signed(found.high, scale)})"
        if found.low is not None and found.high is not None
        else ""
    )
    return (
        f"{name} {moved} by {_amount(abs(found.effect), scale)}, from"
        f" {_number(found.base)} to {_number(found.value)}{reach}."
    )


def _meaning(found: Judgement, scale: Scale) -> str:
    match found.verdict:
        case Verdict.REGRESSED:
            return "That is worse, and more than chance."
        case Verdict.IMPROVED:
            return "That is better, and more than chance."
        case Verdict.NO_EVIDENCE if Note.DETECTABLE_BUT_SMALL not in found.notes:
            if found.side is Side.BOTH and Note.NO_DIRECTION in found.notes:
                return ""
            return f"Nothing speaks for a change of more than {_amount(found.margin, scale)}."
        case Verdict.INCONCLUSIVE if found.mde:
            return (
                "It may be chance, and may be real: with these items only a change of"
                f" {_amount(found.mde, scale)} is seen reliably."
            )
        case _:
            return ""


def _other_items(compared: Compared) -> list[str]:
    found = []
    if compared.only_candidate:
        found.append(f"{_items_do(compared.only_candidate, 'is', 'are')} new")
    if compared.only_base:
        found.append(f"{_items_do(compared.only_base, 'is', 'are')} missing")
    if compared.revised:
        found.append(f"{_items_do(compared.revised, 'asks', 'ask')} something else than before")
    return found


def _summary(counts: Mapping[str, int], kind: str) -> str:
    said = [f"{counts[verdict]} {verdict}" for verdict in _LOUDEST if counts.get(verdict)]
    return f"Of the {kind} {', '.join(said)}."


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def _told_left_out(compared: Compared) -> list[str]:
    if not compared.left_out:
        return []
    left_out = _items_do(compared.left_out, "is", "are")
    return [
        f"{left_out} left out, whose ids come last by their MD5.",
        "The values that the run has by itself are those of all.",
    ]


def _items_do(n: int, one: str, several: str) -> str:
    return f"{_count(n, 'item')} {one if n == 1 else several}"


def _number(value: float | None) -> str:
    return "nothing" if value is None else f"{value:.4g}"


def _amount(value: float, scale: Scale) -> str:
    return f"{value:.1%}" if scale is Scale.RATIO else f"{value:.3g}"


def _signed(value: float, scale: Scale) -> str:
    return f"{value:+.1%}" if scale is Scale.RATIO else f"{value:+.3g}"


def _capital(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]
