"""What a rule remembers of the runs of an agent, and what of it ends when somebody judges an incident; pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from mosaico.alerts.evaluation.incident_rules import accept_level, return_runs
from mosaico.alerts.rules import AlertStatus, RuleState, RunSpan
from mosaico.kpis.series_types import SeriesState

# Far more than the runs that are compared, of which at least one is between two incidents of a rule.
MAX_SPANS: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What a rule remembers of the judged runs of an agent.

    `run_seq` and `run_id` are the last of them. `series` is the state of a REGRESSED rule. `excluded` are the runs
    of ended incidents, which are no history. `breach_seq` is the first run of the present chain of breaches or of
    the open incident, whose runs have `fingerprint`, and `clear_seq` the first healthy run at its end.
    """

    run_seq: int = 0
    run_id: str = ""
    state: RuleState = field(default_factory=RuleState)
    series: SeriesState = field(default_factory=SeriesState)
    excluded: tuple[RunSpan, ...] = ()
    breach_seq: int | None = None
    clear_seq: int | None = None
    fingerprint: str | None = None

    @property
    def excluded_runs(self) -> tuple[RunSpan, ...]:
        """The runs that are no history of the next run."""
        if self.breach_seq is None:
            return self.excluded
        return (*self.excluded, RunSpan(self.breach_seq, None))


def accept(memory: Memory, accepted_seq: int | None = None) -> Memory:
    """What a rule remembers once somebody has accepted the level of its open incident, from the accepted run on if
    one is given: what was before it does not count.
    """
    if not memory.state.open:
        return memory
    excluded = memory.excluded
    if memory.breach_seq is not None:
        excluded = bound_spans((*excluded, RunSpan(0, memory.breach_seq)))
    series = accept_level(memory.series, accepted_seq)
    return replace(_ended(memory), series=series, excluded=excluded)


def end_as_noise(memory: Memory) -> Memory:
    """What a rule remembers once somebody has called its open incident noise: its runs are ordinary."""
    return replace(_ended(memory), series=return_runs(memory.series))


def _ended(memory: Memory) -> Memory:
    state = replace(
        memory.state,
        status=AlertStatus.RESOLVED,
        open=False,
        breaches=0,
        clears=0,
        # The person has seen the incident: a new one is worth a message of its own.
        fired_at=None,
    )
    return replace(memory, state=state, breach_seq=None, clear_seq=None, fingerprint=None)


def bound_spans(spans: Sequence[RunSpan]) -> tuple[RunSpan, ...]:
    """The newest `MAX_SPANS` spans; with more of them, the history begins after all others."""
    surplus, kept = spans[:-MAX_SPANS], spans[-MAX_SPANS:]
    ends = [span.end for span in surplus if span.end is not None]
    return (RunSpan(0, max(ends)), *kept[1:]) if ends else tuple(kept)
