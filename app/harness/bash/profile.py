"""Whether a run looks healthy, and where the sandbox gets in the way of the model.

Source: spec 013, "Interpreting results". It names no figures for tokens; ours are below.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from app.harness.bash.summary import summarize
from app.harness.bash.types import EvalReport, EvalResult, EvalSummary

HEALTHY_PASS_RATE: Final = 0.90
HEALTHY_TOOL_SUCCESS: Final = 0.80
HEALTHY_TURNS: Final = 5.0
HEALTHY_CATEGORY: Final = 0.70

FRICTION_TOOL_SUCCESS: Final = 0.75
FRICTION_CATEGORY: Final = 0.50
FRICTION_TURNS: Final = 7.0
LOW_PASS_RATE: Final = 0.80
HIGH_TOKEN_RATIO: Final = 2.0  # tokens of a failed task over those of a passed one


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthyTrait:
    """One trait of a healthy run, and whether this run has it; None when nothing is known."""

    name: str
    met: bool | None
    found: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FrictionSignal:
    """Something that went badly more often than by chance, and what it hints at."""

    name: str
    found: str
    meaning: str


class Profile(NamedTuple):
    """What a run looks like."""

    traits: Sequence[HealthyTrait]
    signals: Sequence[FrictionSignal]

    @property
    def is_healthy(self) -> bool:
        return all(trait.met for trait in self.traits)


def profile(report: EvalReport, summary: EvalSummary) -> Profile:
    """The traits of a healthy run and the signals of friction, for one run.

    An attempt that errored makes a run less healthy, but says nothing about the sandbox.
    """
    scored = replace(report, results=tuple(each for each in report.results if each.score))
    return Profile(list(_traits(summary)), list(_signals(scored, summarize(scored))))


def _traits(summary: EvalSummary) -> Iterable[HealthyTrait]:
    rate = summary.pass_rate
    yield HealthyTrait(
        name="pass rate > 90 %",
        met=None if rate is None else rate > HEALTHY_PASS_RATE,
        found=_share(rate),
    )
    yield HealthyTrait(
        name="tool call success > 80 %",
        met=summary.tool_call_success_rate > HEALTHY_TOOL_SUCCESS
        if summary.total_tool_calls
        else None,
        found=_share(summary.tool_call_success_rate if summary.total_tool_calls else None),
    )
    yield HealthyTrait(
        name="turns per task < 5",
        met=summary.avg_turns_per_task < HEALTHY_TURNS if summary.total_turns else None,
        found=f"{summary.avg_turns_per_task:.1f}" if summary.total_turns else "unknown",
    )
    weak = _categories_below(summary, HEALTHY_CATEGORY)
    yield HealthyTrait(
        name="no category below 70 %",
        met=not weak if summary.by_category else None,
        found=", ".join(weak) or "none",
    )
    if summary.tasks_skipped:  # of these nothing is known
        yield HealthyTrait(name="no task skipped", met=None, found=str(summary.tasks_skipped))


def _signals(report: EvalReport, summary: EvalSummary) -> Iterable[FrictionSignal]:
    if summary.total_tool_calls and summary.tool_call_success_rate < FRICTION_TOOL_SUCCESS:
        yield FrictionSignal(
            name="tool call success < 75 %",
            found=_share(summary.tool_call_success_rate),
            meaning="the sandbox lacks what the model uses",
        )
    for weak in _categories_below(summary, FRICTION_CATEGORY):
        yield FrictionSignal(
            name="a category below 50 %",
            found=weak,
            meaning="commands or syntax of that domain are missing",
        )
    if summary.avg_turns_per_task > FRICTION_TURNS:
        yield FrictionSignal(
            name="turns per task > 7",
            found=f"{summary.avg_turns_per_task:.1f}",
            meaning="the model tries again after errors",
        )
    ratio = _token_ratio(report.results)
    low = summary.pass_rate is not None and summary.pass_rate < LOW_PASS_RATE
    if low and ratio is not None and ratio >= HIGH_TOKEN_RATIO:
        yield FrictionSignal(
            name="many tokens, few passes",
            found=f"a failed task takes {ratio:.1f} times the tokens of a passed one",
            meaning="the model is caught in a loop of retries",
        )


def _categories_below(summary: EvalSummary, least: float) -> list[str]:
    return [
        f"{name} {_share(category.rate)}"
        for name, category in summary.by_category.items()
        if category.rate < least
    ]


def _token_ratio(results: Iterable[EvalResult]) -> float | None:
    """Mean tokens of failed tasks over those of passed ones; None without both."""
    spent: dict[bool, list[int]] = {True: [], False: []}
    for each in results:
        if each.trace is None:
            continue
        read, written = each.trace.total_input_tokens, each.trace.total_output_tokens
        if read is not None and written is not None:
            spent[each.passed()].append(read + written)
    if not spent[False] or not sum(spent[True]):
        return None
    failed, passed = (sum(spent[key]) / len(spent[key]) for key in (False, True))
    return failed / passed


def _share(rate: float | None) -> str:
    return "unknown" if rate is None else f"{100 * rate:.1f} %"
