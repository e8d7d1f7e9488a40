"""How much whole runs vary, and what one look at them and several looks say, in sentences; pure."""

from collections.abc import Iterable
from typing import Final

from mosaico.comparison.change_text import format_limit
from mosaico.core.parameter_names import parameter_name
from mosaico.core.text import count_noun
from mosaico.kpis.number_text import with_unit
from mosaico.kpis.verdict_types import ValueVerdict
from mosaico.statistics.sequential import DEFAULT_FALSE_PAGES, Scan, limit_of
from mosaico.statistics.verdict_rules import RunsBasis, Scale, Side, Verdict, VerdictNote

ONE_LOOK: Final = (
    "One gate is one look: chance alone fails about one of 40 gates of an unchanged agent, which adds up when it runs on"
    " every push"
)


def describe_whole_runs(deciding: Iterable[ValueVerdict], *, is_file: bool) -> list[str]:
    """How much whole runs vary, of the value that regressed, otherwise of the first one that decides, in one sentence;
    none where nothing changed, or nothing was compared.
    """
    values = [value for value in deciding if _contains_whole_runs(value)]
    value = min(values, key=lambda value: value.verdict is not Verdict.REGRESSED, default=None)
    if value is None or value.whole_runs is None:
        return []
    runs = value.whole_runs
    deviation = format_limit(_three_digits(runs.sd), value.scale)
    unit = None if value.scale is Scale.RATIO else value.unit
    size = f"{with_unit(deviation, unit)} beyond their items (standard deviation)"
    match runs.basis:
        case RunsBasis.GIVEN:
            return [f"Whole runs vary by {size}, as stated."]
        case RunsBasis.MEASURED:
            return [f"Whole runs vary by {size}, measured from {runs.runs} earlier runs."]
        case RunsBasis.ASSUMED:
            tells = _what_tells(is_file=is_file)
            if runs.runs:
                tells = f"{runs.runs} earlier runs are too few to show that they vary less"
            return [f"Assumed: whole runs of an unchanged agent vary by {size}; {tells}."]


def _contains_whole_runs(value: ValueVerdict) -> bool:
    """Return whether the interval contains them: also where as much rose as fell."""
    return (
        bool(value.whole_runs)
        and value.effect is not None
        and VerdictNote.IDENTICAL not in value.notes
    )


def _three_digits(value: float) -> float:
    return float(f"{value:.3g}")


def _what_tells(*, is_file: bool) -> str:
    if not is_file:
        return "earlier runs tell it"
    return f"earlier runs of the unchanged agent ({parameter_name('--history')}) tell it"


def describe_one_look() -> str:
    """What a single gate gives, and what to add for a limit over all of them."""
    return f"{ONE_LOOK}; {parameter_name('--history')} also compares all runs by one limit."


def describe_over_runs(name: str, scan: Scan, side: Side, runs: int) -> str:
    """The evidence of the last runs together, by the limit that alerts use; empty without a direction of harm."""
    score = {Side.LOW: scan.fall, Side.HIGH: scan.rise, Side.BOTH: None}[side]
    if score is None:
        return ""
    limit, z = limit_of(DEFAULT_FALSE_PAGES), score.z if side is Side.LOW else -score.z
    numbers = f"z {z:.1f}, limit {limit:.1f}, which an unchanged agent exceeds {DEFAULT_FALSE_PAGES:g} times in 30 runs"
    if z > limit:
        return f"Over all {runs} runs: {name} is worse in the last {count_noun(score.width, 'run')} ({numbers})."
    return f"Over all {runs} runs: {name} is not worse beyond chance ({numbers})."
