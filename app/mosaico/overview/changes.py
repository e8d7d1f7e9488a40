"""What changed: a drop, a run that could not be measured, what recovered and what somebody judged; pure.

A change is an incident, or consecutive runs with the same bad outcome that no incident has. Each period shows it in one
of four groups: it is new, ongoing since before the period, recovered, or judged.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Final, NamedTuple

from mosaico.alerts.rules import IncidentResolution, IncidentState


class ChangeOutcome(StrEnum):
    """What is news of a run, what a reader must see first. FAILED, INVALID and SAME_ANSWERS: it has no new number."""

    REGRESSED = "REGRESSED"
    FAILED = "FAILED"
    INVALID = "INVALID"
    CHANGED = "CHANGED"
    SAME_ANSWERS = "SAME_ANSWERS"


FAILED: Final = ChangeOutcome.FAILED
SAME_ANSWERS: Final = ChangeOutcome.SAME_ANSWERS
NEWS: Final = tuple(ChangeOutcome)


class ChangeGroup(StrEnum):
    """NEW began in the period, ONGOING before it; RECOVERED ended and JUDGED was judged in it."""

    NEW = "NEW"
    ONGOING = "ONGOING"
    RECOVERED = "RECOVERED"
    JUDGED = "JUDGED"


class JudgedAs(StrEnum):
    """TRUE: it was real. NOISE: a false alarm. ACCEPTED: the new level is correct."""

    TRUE = "true"
    NOISE = "noise"
    ACCEPTED = "accepted"


class Pair(NamedTuple):
    """An agent on a benchmark."""

    benchmark_id: str
    agent_id: str


class StatedJudgement(NamedTuple):
    """What somebody said of a change; `by` is the ID of an API key."""

    verdict: JudgedAs
    at: datetime
    by: str | None
    note: str | None

    def is_end(self, *, has_ended: bool) -> bool:
        """Return whether the change is over with it. Noise at a fixed threshold goes on until the value is back."""
        is_noise = self.verdict is JudgedAs.NOISE and has_ended
        return is_noise or self.verdict is JudgedAs.ACCEPTED


class NewsRun(NamedTuple):
    """A run whose outcome is news, and the run of the pair that ended after it, if there is one. `kpi_ids` are the KPIs
    that have the outcome themselves, those of the gate first.
    """

    pair: Pair
    seq: int
    id: str
    outcome: ChangeOutcome
    at: datetime
    kpi_ids: tuple[str, ...] = ()
    acceptance: StatedJudgement | None = None
    next_seq: int | None = None
    next_id: str | None = None
    next_at: datetime | None = None


class IncidentSpan(NamedTuple):
    """An incident, without its texts: `seqs` is from its first bad run up to the first recovered one, which is None while
    it is open; `last_seq` is the newest run of it. `can_undo`: nothing that happened since contradicts that its judgement is
    taken back.
    """

    id: str
    pair: Pair
    kpi: str | None
    metric: str | None
    state: str
    resolution: str | None
    started_seq: int
    end_seq: int | None
    last_seq: int
    runs: int
    started_at: datetime
    opened_at: datetime
    opened_run_id: str
    resolved_at: datetime | None
    resolved_run_id: str | None
    judgement: StatedJudgement | None
    can_undo: bool = False

    @property
    def subject(self) -> tuple[str | None, str | None]:
        return self.kpi, self.metric

    def has_run(self, seq: int) -> bool:
        return self.started_seq <= seq and (self.end_seq is None or seq < self.end_seq)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change of a pair: what it is about, its runs, how it ended, and what somebody said of it.

    `began_at` is when it became known, `since` when its first bad run ended. `run_seq` is its last run. Without a
    `kpi_ids` it is about `metric`, or about the whole run.
    """

    pair: Pair
    outcome: ChangeOutcome
    began_at: datetime
    since: datetime
    since_run_id: str
    run_seq: int
    runs: int
    kpi_ids: tuple[str, ...] = ()
    metric: str | None = None
    incident_ids: tuple[str, ...] = ()
    ended_at: datetime | None = None
    ended_seq: int | None = None
    ended_run_id: str | None = None
    resolution: str | None = None
    judgement: StatedJudgement | None = None
    can_undo: bool = False

    def group_in(self, since: datetime) -> ChangeGroup | None:
        """The group of the change in the period from a time on; None where it is over."""
        judgement = self.judgement
        if judgement is not None and judgement.at >= since:
            return ChangeGroup.JUDGED
        if judgement is not None and judgement.is_end(has_ended=self.ended_at is not None):
            return None
        if self.ended_at is not None:
            # The runs before a change without a direction are no level to return to.
            is_over = self.outcome == ChangeOutcome.CHANGED
            at = self.began_at if is_over else self.ended_at
            group = ChangeGroup.NEW if is_over else ChangeGroup.RECOVERED
            return group if at >= since else None
        return ChangeGroup.NEW if self.began_at >= since else ChangeGroup.ONGOING


def group_changes(changes: Iterable[Change], since: datetime) -> dict[ChangeGroup, list[Change]]:
    """The changes of a period by group."""
    groups: dict[ChangeGroup, list[Change]] = {group: [] for group in ChangeGroup}
    for change in changes:
        if (group := change.group_in(since)) is not None:
            groups[group].append(change)
    return groups


def list_changes(runs: Sequence[NewsRun], incidents: Sequence[IncidentSpan]) -> list[Change]:
    """The changes that these runs and incidents are. A drop that an incident has is one change, not two."""
    spans: dict[Pair, list[IncidentSpan]] = defaultdict(list)
    for incident in incidents:
        spans[incident.pair].append(incident)
    others = (_without_incidents(run, spans[run.pair]) for run in runs)
    by_pair: dict[Pair, list[NewsRun]] = defaultdict(list)
    for run in sorted(filter(None, others), key=lambda run: run.seq):
        by_pair[run.pair].append(run)
    fallen = {run.seq: run.kpi_ids for run in runs}
    streaks = [streak for rows in by_pair.values() for streak in _streaks(rows)]
    return [
        *(change for group in spans.values() for change in _changes_of_incidents(group)),
        *(
            _change_of_streak(streak)
            for streak in streaks
            if not _is_beside_incident(streak, fallen[streak[0].seq], spans[streak[0].pair])
        ),
    ]


def _is_beside_incident(
    streak: Sequence[NewsRun], fallen: Sequence[str], incidents: Sequence[IncidentSpan]
) -> bool:
    """Return whether other numbers fell together with the first one of the run, which has an incident: they are beside
    it in its card. A false alarm says nothing about them.
    """
    first, last = streak[0], streak[-1]
    return first.outcome == ChangeOutcome.REGRESSED and any(
        incident.started_seq == first.seq
        and incident.has_run(last.seq)
        and incident.kpi in fallen[:1]
        and (incident.judgement is None or incident.judgement.verdict is JudgedAs.TRUE)
        for incident in incidents
    )


def _without_incidents(run: NewsRun, incidents: Sequence[IncidentSpan]) -> NewsRun | None:
    """The part of a run that no incident has; None where they have all of it. An incident has a drop of its own number:
    another number that fell in the same run is another drop.
    """
    if run.outcome != ChangeOutcome.REGRESSED:
        return run
    covering = [incident for incident in incidents if incident.has_run(run.seq)]
    if not run.kpi_ids:
        return None if covering else run
    known = {incident.kpi for incident in covering}
    remaining = tuple(kpi_id for kpi_id in run.kpi_ids if kpi_id not in known)
    return run._replace(kpi_ids=remaining) if remaining else None


def _streaks(runs: Sequence[NewsRun]) -> list[list[NewsRun]]:
    """Runs of a pair that follow each other with one outcome, and are accepted alike."""
    streaks: list[list[NewsRun]] = []
    for run in runs:
        last = streaks[-1][-1] if streaks else None
        is_same = last is not None and (last.next_seq, last.outcome) == (run.seq, run.outcome)
        if last is not None and is_same and (last.acceptance is None) == (run.acceptance is None):
            streaks[-1].append(run)
        else:
            streaks.append([run])
    return streaks


def _change_of_streak(runs: Sequence[NewsRun]) -> Change:
    first, last = runs[0], runs[-1]
    return Change(
        pair=first.pair,
        outcome=first.outcome,
        began_at=first.at,
        since=first.at,
        since_run_id=first.id,
        run_seq=last.seq,
        runs=len(runs),
        kpi_ids=last.kpi_ids,
        ended_at=last.next_at,
        ended_seq=last.next_seq,
        ended_run_id=last.next_id,
        judgement=last.acceptance,
    )


def _changes_of_incidents(incidents: Sequence[IncidentSpan]) -> list[Change]:
    """The changes of a pair that incidents are. Several rules may watch one number: their open incidents are one change."""
    open_of: dict[tuple[object, ...], Change] = {}
    changes = []
    for incident in sorted(incidents, key=lambda incident: incident.opened_at):
        change = _change_of_incident(incident)
        is_open = incident.state == IncidentState.OPEN
        key = (*incident.subject, change.judgement and change.judgement.verdict)
        if is_open and key in open_of:
            open_of[key] = replace(
                open_of[key],
                incident_ids=(*open_of[key].incident_ids, incident.id),
                run_seq=max(open_of[key].run_seq, change.run_seq),
                runs=max(open_of[key].runs, change.runs),
            )
        elif is_open:
            open_of[key] = change
        else:
            changes.append(change)
    return [*changes, *open_of.values()]


def _change_of_incident(incident: IncidentSpan) -> Change:
    return Change(
        pair=incident.pair,
        outcome=ChangeOutcome.REGRESSED,
        began_at=incident.opened_at,
        since=incident.started_at,
        since_run_id=incident.opened_run_id,
        run_seq=incident.last_seq,
        runs=incident.runs,
        kpi_ids=(incident.kpi,) if incident.kpi else (),
        metric=incident.metric,
        incident_ids=(incident.id,),
        ended_at=incident.resolved_at,
        ended_seq=incident.end_seq,
        ended_run_id=incident.resolved_run_id,
        resolution=incident.resolution,
        judgement=incident.judgement,
        can_undo=incident.judgement is not None and incident.can_undo,
    )


def judgement_of(
    verdict: str | None,
    acknowledged: tuple[datetime | None, str | None, str | None],
    resolution: str | None,
    resolved: tuple[datetime | None, str | None, str | None],
) -> StatedJudgement | None:
    """What somebody said of an incident, from its acknowledgement and its end: each is a time, a key and a note."""
    if resolution == IncidentResolution.ACCEPTED and resolved[0] is not None:
        return StatedJudgement(JudgedAs.ACCEPTED, *_whole(resolved))
    if verdict is not None and acknowledged[0] is not None:
        return StatedJudgement(JudgedAs(verdict), *_whole(acknowledged))
    return None


def _whole(
    words: tuple[datetime | None, str | None, str | None],
) -> tuple[datetime, str | None, str | None]:
    at, by, note = words
    assert at is not None, "somebody said it at some time"
    return at, by, note


def count_changes(changes: Iterable[Change], starts: Mapping[str, datetime]) -> dict[str, int]:
    """How many changes each period has, by its name."""
    changes = list(changes)
    return {
        name: sum(1 for change in changes if change.group_in(since) is not None)
        for name, since in starts.items()
    }
