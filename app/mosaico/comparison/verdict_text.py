"""Builds the stored verdicts of a run and their explanations in plain sentences; pure."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from mosaico.comparison.change_text import (
    ChangeText,
    describe_change,
    format_amount,
    format_limit,
    scale_of_change,
)
from mosaico.core.text import count_noun, format_decimal, format_utc, shorten
from mosaico.items.formulas.properties import ValueRange
from mosaico.kpis.series_types import RunsEvidence, SeriesEvent, SeriesStatus
from mosaico.kpis.verdict_types import (
    BaselineRuns,
    ChangedTasks,
    ComparedItems,
    JudgedAnswers,
    QuestionAnswer,
    RunVerdict,
    ValueVerdict,
)
from mosaico.run_store.plan_differences import PlanDifferences
from mosaico.statistics.verdict_rules import (
    FEW,
    About,
    Answer,
    ChangeVerdict,
    Note,
    Scale,
    Side,
    Verdict,
)

NOT_COMPARABLE = "not comparable with its baseline"
UNLIMITED = ValueRange(None, None)
LOST_METRIC = "a metric is no longer installed; install its plugin again"
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
_OVER_RUNS = {
    SeriesStatus.WARMUP: "too few to compare",
    SeriesStatus.OK: "no incident",
    SeriesStatus.FIRING: "incident open",
}
_CHANGED_OVER_RUNS = {
    SeriesEvent.OPENED: "incident opened",
    SeriesEvent.WORSE: "incident open, worse",
    SeriesEvent.PARTLY_BACK: "incident open, partly back",
    SeriesEvent.RESOLVED: "recovered",
    SeriesEvent.IMPROVED: "improved",
    SeriesEvent.REFERENCE_LOST: "incident closed, nothing to compare with",
}
# Names of tasks that are stored, and those in a sentence.
_MAX_NAMES, _SHOWN_NAMES, _NAME_CHARS = 20, 5, 40
_EFFECTS = {
    Verdict.REGRESSED: "worse",
    Verdict.IMPROVED: "better",
    Verdict.CHANGED: "a change",
}
# Other sentences say what these notes mean.
_PHRASED_NOTES = frozenset({Note.AT_BEST})


def not_compared(
    reason: str, verdict: Verdict | None = None, *, has_value: bool = True
) -> ValueVerdict:
    """The verdict of a KPI or metric that was not compared."""
    return ValueVerdict(
        verdict=verdict,
        reason=reason,
        explanation=f"{_capitalized(reason)}.",
        has_value=has_value,
    )


def describe_runs_evidence(evidence: RunsEvidence) -> str:
    """The verdict of the last runs together, in a few words, beside that of the run alone."""
    if evidence.event is not None:
        return f"over runs: {_CHANGED_OVER_RUNS[evidence.event]}"
    return f"over runs: {_OVER_RUNS[evidence.status]}"


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
        explanation=" ".join(map(_sentence, (reason, *failures, *_ruler_sentences(ruler)))),
        baseline=baseline,
        differences=_unique([*ruler, *differences.descriptions]),
        conditions=differences.conditions,
        measured_differently=tuple(ruler),
    )


def render_verdict(
    name: str,
    change: ChangeVerdict,
    scale: Scale,
    *,
    unit: str | None = None,
    gate: bool = False,
    limits: ValueRange = UNLIMITED,
) -> ValueVerdict:
    """The verdict of one KPI or metric that was compared with its baseline; `limits` are those of its
    value.
    """
    scale = scale_of_change(change, scale) or scale
    if scale is not Scale.RATIO:
        change = _within_limits(change, limits)
    return ValueVerdict(
        verdict=change.verdict,
        explanation=explain(name, change, scale, unit),
        baseline_value=change.baseline_value,
        value=change.value,
        effect=change.effect,
        low=change.low,
        high=change.high,
        low_adjusted=change.low_adjusted,
        high_adjusted=change.high_adjusted,
        p=change.p,
        p_adjusted=change.p_adjusted,
        min_detectable_effect=change.mde,
        min_effect=change.min_effect,
        margin=change.margin,
        scale=scale,
        unit=unit,
        side=change.side,
        items=change.n_items,
        trials=change.trials,
        more_trials=change.more_trials,
        items_needed=change.items_needed,
        clusters=change.clusters,
        about=change.about,
        answers=tuple(
            QuestionAnswer(
                about=answer.about,
                low=answer.low,
                high=answer.high,
                p=answer.p,
                min_detectable_effect=answer.mde,
                min_detectable_tasks=answer.broken_items,
            )
            for answer in change.answers
        ),
        min_detectable_tasks=change.broken_items,
        changed_tasks=changed_tasks(change),
        judged_answers=None if change.judge is None else JudgedAnswers(**change.judge._asdict()),
        method=change.method,
        gate=gate,
        notes=change.notes,
    )


def _within_limits(change: ChangeVerdict, limits: ValueRange) -> ChangeVerdict:
    """The change with intervals that do not lead beyond the smallest and the largest value."""
    baseline = change.baseline_value
    if baseline is None:
        return change
    lowest = -math.inf if limits.minimum is None else limits.minimum - baseline
    highest = math.inf if limits.maximum is None else limits.maximum - baseline

    def clip(end: float | None) -> float | None:
        return None if end is None else min(max(end, lowest), highest)

    return replace(
        change,
        low=clip(change.low),
        high=clip(change.high),
        low_adjusted=clip(change.low_adjusted),
        high_adjusted=clip(change.high_adjusted),
    )


def explain(name: str, change: ChangeVerdict, scale: Scale, unit: str | None = None) -> str:
    """A verdict in sentences that need no knowledge of statistics."""
    others = _other_answers(change, scale)
    phrased = _PHRASED_NOTES | {Note.THESE_ITEMS} if others else _PHRASED_NOTES
    notes = [note.sentence for note in change.notes if note not in phrased]
    text = describe_change(change, scale, unit)
    if text is None:
        return " ".join([f"{name} was not compared.", *notes])
    if Note.TYPICAL in change.notes:
        # The values are means, and may have moved the other way.
        values = f"{name} was {text.before} and is {text.after}, of a typical trace {text.change}."
    else:
        values = describe_values(name, change.effect, text)
    sentences = [values, _meaning(change, scale), *notes]
    sentences += [_remedy(change), _describe_tasks(change), _describe_judge(change, scale), *others]
    return " ".join(sentence for sentence in sentences if sentence)


def _describe_judge(change: ChangeVerdict, scale: Scale) -> str:
    """What the judge did on equal answers; empty if it did nothing."""
    judge = change.judge
    if judge is None or judge.changed == 0:
        return ""
    share = format_decimal(100 * judge.changed / judge.answers, ".0f")
    shift = format_amount(judge.shift, scale, has_sign=True)
    consequence = (
        "This is the judge and not the agent: the interval takes it into account."
        if judge.counts
        else "If a judge gave these scores, it is not the same; the interval does not take that into account."
    )
    return (
        f"Of {count_noun(judge.answers, 'answer')} that did not change by a byte, {judge.changed} ({share} %) have another"
        f" score, by {shift} on average over all of them. {consequence}"
    )


def changed_tasks(change: ChangeVerdict) -> ChangedTasks | None:
    """The tasks that changed by themselves, with the first names; None without any."""
    found = change.tasks
    if found is None or not (found.fell or found.rose or found.beyond_chance):
        return None
    named = found.rose if change.side is Side.HIGH else found.fell
    return ChangedTasks(
        tasks=found.items,
        fell=len(found.fell),
        rose=len(found.rose),
        beyond_chance=len(found.beyond_chance),
        names=named[:_MAX_NAMES],
        beyond_chance_names=found.beyond_chance[:_MAX_NAMES],
    )


def moved_scores(verdict: ValueVerdict) -> str:
    """What a judge did on equal answers, in a few words: "9 of 20 equal answers (45 %) have another score"; empty if it
    did nothing.
    """
    judged = verdict.judged_answers
    if judged is None or judged.changed == 0:
        return ""
    share = format_decimal(100 * judged.changed / judged.answers, ".0f")
    return (
        f"{judged.changed} of {count_noun(judged.answers, 'equal answer')} ({share} %)"
        f" {'has' if judged.changed == 1 else 'have'} another score"
    )


def broken_tasks(tasks: ChangedTasks | None) -> str:
    """The tasks that broke or were repaired, in a few words: "4 of 10 tasks fell from always to never"; empty for none."""
    if tasks is None:
        return ""
    parts = [
        (tasks.fell, "fell from always to never"),
        (tasks.rose, "rose from never to always"),
    ]
    phrases = [(count, words) for count, words in parts if count]
    if not phrases:
        return ""
    (count, words), *others = phrases
    text = f"{count} of {count_noun(tasks.tasks, 'task')} {words}"
    return ", ".join([text, *(f"{count} {words}" for count, words in others)])


def _describe_tasks(change: ChangeVerdict) -> str:
    """The tasks that changed by themselves, with their names."""
    tasks = changed_tasks(change)
    if tasks is None:
        return ""
    sentences = []
    if phrase := broken_tasks(tasks):
        total = tasks.rose if change.side is Side.HIGH else tasks.fell
        sentences.append(f"{phrase}{_names(tasks.names, total)}.")
    if tasks.beyond_chance:
        changed = (
            f"{count_noun(tasks.beyond_chance, 'task')} changed beyond chance by the trials of"
        )
        owner = "its own" if tasks.beyond_chance == 1 else "each one"
        sentences.append(
            f"{changed} {owner}{_names(tasks.beyond_chance_names, tasks.beyond_chance)}."
        )
    return " ".join(sentences)


def _names(names: Sequence[str], count: int) -> str:
    if not names:
        return ""
    shown = [shorten(name, _NAME_CHARS) for name in names[:_SHOWN_NAMES]]
    more = f", and {count - len(shown)} more" if count > len(shown) else ""
    return f" ({', '.join(shown)}{more})"


def _second_answer(change: ChangeVerdict) -> Answer | None:
    """The answer to the question that does not decide, where a reader needs it: when the verdict is about these tasks
    only, or when the answers differ.
    """
    others = [answer for answer in change.answers if answer.about is not change.about]
    if not others or not change.effect or len(change.answers) < len(About):
        return None
    [other] = others
    if other.low is None or other.high is None or other.p is None or change.p is None:
        return None
    is_same = (other.p < change.alpha) is (change.p < change.alpha)
    return None if is_same and change.about is About.POPULATION else other


def _other_answers(change: ChangeVerdict, scale: Scale) -> list[str]:
    """The answer to the question that does not decide."""
    other = _second_answer(change)
    if other is None or other.low is None or other.high is None or other.p is None:
        return []
    interval = f"{format_amount(other.low, scale)} to {format_amount(other.high, scale)}"
    explains = "could explain" if other.p >= change.alpha else "does not explain"
    phrase = _capitalized(other.about.phrase)
    return [f"{phrase} chance alone {explains} the change (95 % CI {interval})."]


def describe_values(name: str, effect: float | None, text: ChangeText) -> str:
    """The sentence about the values of both runs and the change between them."""
    if not effect:
        evidence = f" ({text.interval})" if text.interval else ""
        return f"{name} is unchanged at {text.after}{evidence}."
    direction = "fell" if effect < 0 else "rose"
    return f"{name} {direction} from {text.before} to {text.after}: {text.change}."


def render_run(
    deciding: Sequence[ValueVerdict],
    *,
    noun: str,
    is_measured: bool = True,
    is_file: bool = False,
    baseline: BaselineRuns | None,
    items: ComparedItems,
    differences: PlanDifferences,
    ruler: Sequence[str] = (),
    failures: Sequence[str] = (),
) -> RunVerdict:
    """The verdict of a run: that of the KPIs or metrics that decide, which are a `noun`.

    Those that cannot be compared count only when none can be compared. `is_measured`: something measures quality.
    `ruler` says how the run is measured differently from the one before. `failures` are the reasons of metrics and
    KPIs that could not be computed.
    """
    # A value without a verdict was not compared, for example a KPI of another formula: it must not
    # hide the verdict of the others.
    counts = Counter(str(value.verdict) for value in deciding if value.verdict is not None)
    # One regressed KPI makes the run regressed, however many others improved.
    verdict = next((verdict for verdict in BY_PRIORITY if counts[verdict]), None)
    all_differences = _unique([*_item_differences(items), *ruler, *differences.descriptions])
    others = [difference for difference in all_differences if difference not in ruler]
    if verdict is None and not is_measured:
        verdict = Verdict.NOT_MEASURED
    reason = _reason(verdict, all_differences, is_file=is_file)
    return RunVerdict(
        verdict=verdict,
        reason=reason,
        explanation=" ".join(
            [
                _sentence(reason) if reason else _summary(counts, noun),
                *map(_sentence, failures),
                *map(_sentence, _unique([*filter(None, map(moved_scores, deciding))])),
                *map(_sentence, _ruler_sentences(ruler, is_again=not differences.ruler)),
                *_item_sentences(items),
                *([f"Differences: {'; '.join(others)}."] if others else []),
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


def _meaning(change: ChangeVerdict, scale: Scale) -> str:
    match change.verdict:
        case Verdict.REGRESSED | Verdict.IMPROVED | Verdict.CHANGED:
            question = f" {change.about.phrase}" if _second_answer(change) else ""
            return f"This is {_EFFECTS[change.verdict]}{question}, and chance alone does not explain the change."
        case Verdict.NO_EVIDENCE if Note.DETECTABLE_BUT_SMALL not in change.notes:
            # The note says why: nothing is ruled out for other items.
            if Note.IDENTICAL in change.notes:
                return ""
            return f"A change of more than {format_limit(change.margin, scale)} is ruled out."
        case Verdict.INCONCLUSIVE:
            return _inconclusive(change, scale)
        case _:
            return ""


def _inconclusive(change: ChangeVerdict, scale: Scale) -> str:
    """Return the reason why there is no verdict; the detectable effect only when the change is
    smaller than it.
    """
    if change.effect is None or FEW & {*change.notes}:
        return "This is inconclusive."
    if change.p_adjusted is not None and change.p_adjusted < change.alpha:
        # The change is certain, but its size is not: it may be too small to matter.
        smallest = format_limit(change.min_effect, scale)
        return f"This is inconclusive: the value changed, but possibly by less than {smallest}."
    if change.mde and abs(change.effect) < change.mde:
        return (
            "This is inconclusive: chance alone could explain the change. With these items only"
            f" {describe_detectable(change.mde, change.broken_items, scale)} or more is detected reliably."
        )
    if change.items_needed:
        return (
            "This is inconclusive: chance alone could explain the change. These items cannot "
            f"reliably detect any change: at least {change.items_needed} items are required."
        )
    return "This is inconclusive: chance alone could explain the change."


def describe_detectable(effect: float, broken: int | None, scale: Scale | None) -> str:
    """The change that is found in four of five runs: "a change of 0.240, or of 3 tasks from always to never,"."""
    change = f"a change of {format_amount(effect, scale)}"
    return (
        f"{change}, or of {count_noun(broken, 'task')} from always to never," if broken else change
    )


def _remedy(change: ChangeVerdict) -> str:
    """The trials that would probably give a conclusive verdict."""
    if not change.more_trials:
        return ""
    trials = count_noun(change.more_trials, "more trial")
    if Note.AT_BEST in change.notes:
        return f"At least {trials} per item would be needed: the noise between trials is unknown."
    return f"{_capitalized(trials)} per item would probably give a conclusive verdict."


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


def _sentence(reason: str) -> str:
    return f"{_capitalized(reason)}."


def _capitalized(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]


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
