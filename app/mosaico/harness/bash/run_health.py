"""The healthy profile of a run, and signals that the sandbox hinders the model.

Source: spec 013, "Interpreting results". The spec gives no number for "most tasks", "frequently" and
"high token count": these thresholds are ours.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from mosaico.harness.bash.types import EvalReport, EvalResult, EvalSummary

HEALTHY_OVERALL_RATE: Final = 0.90
HEALTHY_NATURAL_STOPS: Final = 0.50
HEALTHY_TOOL_SUCCESS: Final = 0.80
HEALTHY_TURNS: Final = 5.0
HEALTHY_CATEGORY: Final = 0.70

FRICTION_TOOL_SUCCESS: Final = 0.75
FRICTION_NATURAL_STOPS: Final = 0.75
FRICTION_CATEGORY: Final = 0.50
FRICTION_TURNS: Final = 7.0
LOW_PASS_RATE: Final = 0.80
HIGH_TOKEN_RATIO: Final = 2.0  # tokens of a failed task over those of a passed one
RETRY_TURNS: Final = 5.0  # turns of a failed task from which many tokens suggest retries


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthyTrait:
    """One trait of a healthy run; `met` is None when it is unknown."""

    name: str
    met: bool | None
    measured: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FrictionSignal:
    """A conspicuous figure and its possible cause."""

    name: str
    measured: str
    meaning: str


class RunProfile(NamedTuple):
    """The healthy traits and friction signals of a run."""

    traits: Sequence[HealthyTrait]
    signals: Sequence[FrictionSignal]

    @property
    def is_healthy(self) -> bool:
        return all(trait.met for trait in self.traits)


def profile(report: EvalReport, summary: EvalSummary) -> RunProfile:
    """The profile of a run.

    A run with errored attempts is not healthy, but they are not friction: they say nothing about the
    sandbox.
    """
    scored = [result for result in report.results if result.score is not None]
    return RunProfile(list(_traits(summary)), list(_signals(scored, summary)))


def _traits(summary: EvalSummary) -> Iterable[HealthyTrait]:
    rate, natural_stops = summary.overall_rate, summary.natural_stop_rate
    yield HealthyTrait(
        name="overall rate > 90 %",
        met=None if rate is None else rate > HEALTHY_OVERALL_RATE,
        measured=_percent(rate),
    )
    tool_success = summary.tool_call_success_rate if summary.total_tool_calls else None
    yield HealthyTrait(
        name="tool call success > 80 %",
        met=None if tool_success is None else tool_success > HEALTHY_TOOL_SUCCESS,
        measured=_percent(tool_success),
    )
    yield HealthyTrait(
        name="natural stop on most tasks",
        met=None if natural_stops is None else natural_stops > HEALTHY_NATURAL_STOPS,
        measured=_percent(natural_stops),
    )
    yield HealthyTrait(
        name="turns per task < 5",
        met=summary.avg_turns_per_task < HEALTHY_TURNS if summary.total_turns else None,
        measured=f"{summary.avg_turns_per_task:.1f}" if summary.total_turns else "unknown",
    )
    weak = _categories_below(summary, HEALTHY_CATEGORY)
    yield HealthyTrait(
        name="no category below 70 %",
        met=not weak if summary.by_category else None,
        measured=", ".join(weak) or "none",
    )
    # Unknown, so that a run in which tasks have no score is never called healthy.
    if summary.tasks_errored:
        yield HealthyTrait(name="no task errored", met=None, measured=str(summary.tasks_errored))
    if summary.tasks_skipped:
        yield HealthyTrait(name="no task skipped", met=None, measured=str(summary.tasks_skipped))


def _signals(scored: Sequence[EvalResult], summary: EvalSummary) -> Iterable[FrictionSignal]:
    if summary.total_tool_calls and summary.tool_call_success_rate < FRICTION_TOOL_SUCCESS:
        yield FrictionSignal(
            name="tool call success < 75 %",
            measured=_percent(summary.tool_call_success_rate),
            meaning="the sandbox lacks features that the model uses",
        )
    for weak in _categories_below(summary, FRICTION_CATEGORY):
        yield FrictionSignal(
            name="a category below 50 %",
            measured=weak,
            meaning="commands or syntax of this category are missing",
        )
    if summary.avg_turns_per_task > FRICTION_TURNS:
        yield FrictionSignal(
            name="turns per task > 7",
            measured=f"{summary.avg_turns_per_task:.1f}",
            meaning="the model retries after errors",
        )
    natural_stops = summary.natural_stop_rate
    if natural_stops is not None and natural_stops < FRICTION_NATURAL_STOPS:
        yield FrictionSignal(
            name="natural stop on fewer than 75 % of the tasks",
            measured=_percent(natural_stops),
            meaning="the model is stuck in a loop until a limit ends the task",
        )
    ratio = _token_ratio(scored)
    is_low = summary.pass_rate is not None and summary.pass_rate < LOW_PASS_RATE
    # Long texts also take tokens: only a failed task of many turns was retried.
    is_retried = _turns_of_failed_tasks(scored) >= RETRY_TURNS
    if is_low and is_retried and ratio is not None and ratio >= HIGH_TOKEN_RATIO:
        yield FrictionSignal(
            name="many tokens, few passes",
            measured=f"a failed task takes {ratio:.1f} times the tokens of a passed one",
            meaning="the model repeats failing commands",
        )


def _categories_below(summary: EvalSummary, threshold: float) -> list[str]:
    return [
        f"{name} {_percent(category.rate)}"
        for name, category in summary.by_category.items()
        if category.rate < threshold
    ]


def _token_ratio(results: Iterable[EvalResult]) -> float | None:
    """Mean tokens of failed tasks over those of passed tasks; None without both."""
    tokens: dict[bool, list[int]] = {True: [], False: []}
    for result in results:
        total = result.trace.total_tokens() if result.trace is not None else None
        if total is not None:
            tokens[result.passed()].append(total)
    if not tokens[False] or not sum(tokens[True]):
        return None
    failed, passed = (sum(tokens[key]) / len(tokens[key]) for key in (False, True))
    return failed / passed


def _turns_of_failed_tasks(results: Iterable[EvalResult]) -> float:
    """Mean turns of failed tasks; 0 without any."""
    turns = [result.trace.turns for result in results if result.trace and not result.passed()]
    return sum(turns) / len(turns) if turns else 0.0


def _percent(rate: float | None) -> str:
    return "unknown" if rate is None else f"{100 * rate:.1f} %"
