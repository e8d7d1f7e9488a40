"""Builds the stored verdict of a run, with what differs from its baseline, in plain sentences; pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from mosaico.comparison.judge_text import moved_scores
from mosaico.comparison.whole_run_text import describe_whole_runs
from mosaico.core.text import count_noun, format_utc, sentence_of
from mosaico.kpis.verdict_types import BaselineRuns, ComparedItems, RunVerdict, ValueVerdict
from mosaico.run_store.plan_differences import PlanDifferences
from mosaico.statistics.verdict_rules import Verdict

NOT_COMPARABLE = "not comparable with its baseline"
FIRST_RUN = "first run: there is no earlier valid run of this agent to compare with"
# Within them, a weekday names one day.
_WEEK = timedelta(days=6)
SAME_SOURCE_RUN = "no earlier valid run of this agent evaluates another source run"

NO_QUALITY_COLUMN = "no column measures quality; `mosaico score` would need the expected answers, a score, or pass or fail"
NO_QUALITY_METRIC = "no metric measures quality; add a score, pass or fail, or a metric of expected answers, or a KPI"
# The verdict of a run is the first of these that one of its KPIs has.
BY_PRIORITY = (
    Verdict.REGRESSED,
    Verdict.CHANGED,
    Verdict.IMPROVED,
    Verdict.INCONCLUSIVE,
    Verdict.NO_EVIDENCE,
    Verdict.INVALID,
)


def run_not_compared(
    reason: str,
    verdict: Verdict | None,
    *,
    baseline: BaselineRuns | None,
    differences: PlanDifferences,
    ruler: Sequence[str] = (),
    failures: Sequence[str] = (),
) -> RunVerdict:
    """The verdict of a run that was not compared. `ruler` says how it is measured differently, `failures` are the reasons of metrics and KPIs that
    could not be computed.
    """
    return RunVerdict(
        verdict=verdict,
        reason=reason,
        explanation=" ".join(map(sentence_of, (reason, *failures, *_ruler_sentences(ruler)))),
        baseline=baseline,
        differences=_unique([*ruler, *differences.descriptions]),
        conditions=differences.conditions,
        measured_differently=tuple(ruler),
    )


def render_run(
    deciding: Sequence[ValueVerdict],
    *,
    noun: str,
    guard: ValueVerdict | None = None,
    is_measured: bool = True,
    is_file: bool = False,
    baseline: BaselineRuns | None,
    items: ComparedItems,
    differences: PlanDifferences,
    ruler: Sequence[str] = (),
    failures: Sequence[str] = (),
    lost: Sequence[str] = (),
) -> RunVerdict:
    """The verdict of a run: that of the KPIs or metrics that decide, which are a `noun`.

    Those that cannot be compared count only when none can be compared. `is_measured`: something measures quality.
    `guard` is the verdict of a metric beside them that regressed.
    `ruler` says how the run is measured differently from the one before. `failures` are the reasons of metrics and
    KPIs that could not be computed, `lost` those of metrics with values of too few items.
    """
    # A value without a verdict was not compared, for example a KPI of another formula: it must not
    # hide the verdict of the others.
    counts = Counter(str(value.verdict) for value in deciding if value.verdict is not None)
    # One regressed KPI makes the run regressed, however many others improved.
    verdict = next((verdict for verdict in BY_PRIORITY if counts[verdict]), None)
    if guard is not None:
        verdict = guard.verdict
    all_differences = _unique([*_item_differences(items), *ruler, *differences.descriptions])
    own_differences = [text for text in all_differences if text not in ruler]
    if verdict is None and not is_measured:
        verdict = Verdict.NOT_MEASURED
    # Its reason says how many items have values.
    is_incomplete = verdict is Verdict.INVALID and bool(lost)
    reason = (
        "; ".join(lost) if is_incomplete else _reason(verdict, all_differences, is_file=is_file)
    )
    return RunVerdict(
        verdict=verdict,
        reason=reason,
        explanation=" ".join(
            [
                *([guard.explanation] if guard else []),
                *([sentence_of(reason)] if reason else [_summary(counts, noun)] if counts else []),
                *map(sentence_of, failures),
                *map(sentence_of, _unique([*filter(None, map(moved_scores, deciding))])),
                *([] if is_incomplete else map(sentence_of, lost)),
                *map(sentence_of, _ruler_sentences(ruler, is_again=not differences.ruler)),
                *([] if is_incomplete else _item_sentences(items)),
                *([f"Differences: {'; '.join(own_differences)}."] if own_differences else []),
                # Stored for every interface, so that it names no parameter of one.
                *describe_whole_runs(deciding, is_file=False),
            ]
        ),
        baseline=baseline,
        items=items,
        counts=dict(counts),
        differences=all_differences,
        conditions=differences.conditions,
        measured_differently=tuple(ruler),
    )


def _ruler_sentences(ruler: Sequence[str], *, is_again: bool = False) -> list[str]:
    """What is measured differently; `is_again`: the baseline was measured by the same ruler."""
    if not ruler:
        return []
    return [*ruler, *(["the baseline was measured again by the same rules"] if is_again else [])]


def _unique(texts: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(texts))


def _reason(verdict: Verdict | None, differences: Sequence[str], *, is_file: bool) -> str | None:
    if verdict is Verdict.NOT_MEASURED:
        return NO_QUALITY_COLUMN if is_file else NO_QUALITY_METRIC
    if verdict is None:
        return "no KPI or metric of this run can be compared with its baseline"
    if verdict is Verdict.INVALID:
        return f"{NOT_COMPARABLE}: {'; '.join(differences) or 'no item has a value in both runs'}"
    return None


def _item_differences(items: ComparedItems) -> list[str]:
    differences = []
    if items.only_candidate:
        differences.append(f"{_items(items.only_candidate, 'is', 'are')} new")
    if items.only_baseline:
        differences.append(f"{_items(items.only_baseline, 'is', 'are')} missing")
    if items.revised:
        verb = _items(items.revised, "has", "have")
        differences.append(f"{verb} another task or expected output")
    return differences


def _item_sentences(items: ComparedItems) -> list[str]:
    # Samples of production have other items in each run by nature, so missing items are no
    # difference.
    if items.are_samples:
        return ["The runs read production traces without itemKey: two independent groups."]
    if not items.compared:
        return ["The runs share too few items and are compared as two independent groups."]
    sentences = [f"{count_noun(items.compared, 'item')} compared."]
    if items.left_out:
        left_out = _items(items.left_out, "is", "are")
        sentences.append(
            f"{left_out} left out of the comparison, because the limit is reached; the items are"
            " selected by the MD5 of their IDs. The values of the run itself include all items."
        )
    return sentences


def _summary(counts: Mapping[str, int], noun: str) -> str:
    """For example "4 of 5 KPIs regressed; 1 is inconclusive."."""
    phrases = [
        f"{counts[verdict]} {_predicate(verdict, counts[verdict])}"
        for verdict in BY_PRIORITY
        if counts.get(verdict)
    ]
    first, *remaining = phrases
    number, _, predicate = first.partition(" ")
    total = count_noun(sum(counts.values()), noun)
    return "; ".join([f"{number} of {total} {predicate}", *remaining]) + "."


def _predicate(verdict: Verdict, count: int) -> str:
    singular, plural = {
        Verdict.REGRESSED: ("regressed", "regressed"),
        Verdict.IMPROVED: ("improved", "improved"),
        Verdict.CHANGED: ("changed", "changed"),
        Verdict.INCONCLUSIVE: ("is inconclusive", "are inconclusive"),
        Verdict.NO_EVIDENCE: ("shows no evidence of a change", "show no evidence of a change"),
        Verdict.INVALID: ("cannot be compared", "cannot be compared"),
    }[verdict]
    return singular if count == 1 else plural


def _items(n: int, singular_verb: str, plural_verb: str) -> str:
    return f"{count_noun(n, 'item')} {singular_verb if n == 1 else plural_verb}"


def say_same_answers(verdict: RunVerdict, earlier: datetime, now: datetime) -> RunVerdict:
    """The verdict of a run that has the data of an earlier one, which ended at `earlier` (UTC)."""
    day = f"{earlier:%A}" if now - earlier < _WEEK else f"{earlier.day} {earlier:%B %Y}"
    same_answers = f"the same answers as on {day}"
    sentence = f"{same_answers[0].upper()}{same_answers[1:]}, {format_utc(earlier)}: no new data."
    return verdict.model_copy(
        update={
            "same_answers": same_answers,
            "explanation": f"{sentence} {verdict.explanation}",
        }
    )
