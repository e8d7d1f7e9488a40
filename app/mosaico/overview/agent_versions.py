"""The versions of an agent: the model and the prompt that its traces record, with the KPIs of each."""

import hashlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Final, NamedTuple

from pydantic import Field
from sqlalchemy import select, type_coerce
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Session

from mosaico.comparison.attribute_names import (
    MODEL_NAMES,
    PROMPT_NAMES,
    RELEASE_NAMES,
    plain_name,
)
from mosaico.comparison.stored_run_comparison import MAX_BASELINE_RUNS
from mosaico.core.schemas import StoredText, WireModel
from mosaico.kpis.models import KpiHistory
from mosaico.run_store.models import POSITION, BenchmarkRun, RunAttributes
from mosaico.run_store.recorded_attributes import AttributeProfile
from mosaico.run_store.rules import RunStatus, Validity
from mosaico.statistics.intervals import Interval
from mosaico.statistics.mean_interval import mean_interval, mean_of

DAYS, MAX_DAYS = 60, 3650
MAX_NIGHTS: Final = 400
# A value of fewer items is not one that the agent ran with.
MIN_SHARE: Final = 0.1


class VersionKpi(WireModel):
    """The mean of a KPI over the runs of a version, with its 95 % interval: over these runs, or that of the only one."""

    kpi_id: str
    name: StoredText
    unit: str | None
    gate: bool
    runs: Annotated[int, Field(description="Number of runs with a value.")]
    mean: Annotated[float | None, Field(description="Mean over the runs; null without a value.")]
    interval_low: Annotated[float | None, Field(description="Lower end of its 95 % interval.")]
    interval_high: Annotated[float | None, Field(description="Upper end of its 95 % interval.")]


class AgentVersion(WireModel):
    """A model and a prompt (or a release, where no prompt is recorded) that traces of runs name."""

    id: Annotated[str, Field(description="Digest of model and prompt.")]
    model: StoredText | None
    prompt: Annotated[
        StoredText | None,
        Field(description="Name and version of the prompt, or the release; null if not recorded."),
    ]
    first_at: Annotated[datetime, Field(description="When the first run of the version started.")]
    last_at: Annotated[datetime, Field(description="When the last run of the version started.")]
    runs: Annotated[int, Field(description="Number of its valid runs.")]
    last_run_id: Annotated[str, Field(description="ID of its last run.")]
    run_ids: Annotated[list[str], Field(description="IDs of its runs, newest first, at most 30.")]
    kpis: list[VersionKpi]

    @property
    def name(self) -> str:
        """The prompt and the model: "v15 · gpt-5.2-mini"."""
        return " · ".join(filter(None, (self.prompt, self.model))) or "not recorded"


class VersionNight(WireModel):
    """A run with its version and the value of the first KPI."""

    run_id: str
    at: datetime
    version_id: Annotated[str, Field(description="`id` of the version of the run.")]
    value: float | None


class AgentVersions(WireModel):
    """The versions of an agent on a benchmark, newest first, and its valid runs, oldest first."""

    agent_id: str
    benchmark_id: str | None
    versions: Annotated[list[AgentVersion], Field(description="The versions, newest first.")]
    nights: Annotated[list[VersionNight], Field(description="The runs, oldest first.")]
    unknown_runs: Annotated[
        int, Field(description="Number of runs of whose traces nothing was recorded.")
    ]


class VersionNames(NamedTuple):
    """What identifies a version."""

    model: str | None
    prompt: str | None

    @property
    def digest(self) -> str:
        return hashlib.sha256(repr(tuple(self)).encode()).hexdigest()[:10]


class _NightRow(NamedTuple):
    seq: int
    run_id: str
    at: datetime
    is_purged: bool
    names: VersionNames


def version_names(profile: AttributeProfile) -> VersionNames:
    """The model and the prompt of a run; where no prompt is recorded, its version or release."""
    return VersionNames(
        _value_of(profile, MODEL_NAMES),
        _value_of(profile, PROMPT_NAMES) or _value_of(profile, RELEASE_NAMES),
    )


def read_versions(
    session: Session, agent_id: str, benchmark_id: str | None, since: datetime
) -> AgentVersions:
    """The versions of the valid runs of an agent on a benchmark since a time; none without a benchmark."""
    nights, unknown = _read_nights(session, agent_id, benchmark_id, since)
    kpis = _read_kpis(session, [night.seq for night in nights])
    by_version = defaultdict[VersionNames, list[_NightRow]](list)
    for night in nights:
        by_version[night.names].append(night)
    versions = [_version(names, rows, kpis) for names, rows in by_version.items()]
    versions.sort(key=lambda version: version.last_at, reverse=True)
    return AgentVersions(
        agent_id=agent_id,
        benchmark_id=benchmark_id,
        versions=versions,
        nights=[
            VersionNight(
                run_id=night.run_id,
                at=night.at,
                version_id=night.names.digest,
                value=next((kpi.value for kpi in kpis.get(night.seq, ())), None),
            )
            for night in nights
        ],
        unknown_runs=unknown,
    )


def were_apart(versions: Iterable[AgentVersion], a: AgentVersion, b: AgentVersion) -> bool:
    """Return whether a run had the model of one version with the prompt of the other, or only one of both differs."""
    if a.model == b.model or a.prompt == b.prompt:
        return True
    mixed = {(a.model, b.prompt), (b.model, a.prompt)}
    return any((version.model, version.prompt) in mixed for version in versions)


def _value_of(profile: AttributeProfile, names: Collection[str]) -> str | None:
    """The values of all attributes with such a name: of `promptName` and `promptVersion`, "support 15"."""
    values = dict.fromkeys(
        " + ".join(c.value for c in counts if c.items >= MIN_SHARE * profile.items)
        for name, counts in profile.values.items()
        if plain_name(name) in names
    )
    return " ".join(filter(None, values)) or None


def _read_nights(
    session: Session, agent_id: str, benchmark_id: str | None, since: datetime
) -> tuple[list[_NightRow], int]:
    """The runs whose traces record something, oldest first, and the number of the others."""
    statement = (
        select(
            BenchmarkRun.seq,
            BenchmarkRun.id,
            BenchmarkRun.created_at,
            BenchmarkRun.purged_at,
            # Not the whole record: what changed is not read.
            type_coerce(RunAttributes.record, JSONB)["profile"],
        )
        .outerjoin(RunAttributes, RunAttributes.run_seq == BenchmarkRun.seq)
        .where(
            BenchmarkRun.agent_id == agent_id,
            BenchmarkRun.benchmark_id == benchmark_id,
            BenchmarkRun.status == RunStatus.COMPLETED,
            BenchmarkRun.validity == Validity.VALID,
            BenchmarkRun.created_at >= since,
            # Neither repeats nor rescored runs: they say nothing new about the agent.
            BenchmarkRun.rescore_of.is_(None),
            BenchmarkRun.same_data_as.is_(None),
        )
        .order_by(POSITION.desc(), BenchmarkRun.seq.desc())
        .limit(MAX_NIGHTS)
    )
    nights, unknown = list[_NightRow](), 0
    for seq, run_id, at, purged_at, document in session.execute(statement).all()[::-1]:
        names = version_names(AttributeProfile.model_validate(document or {}))
        if any(names):
            nights.append(_NightRow(seq, run_id, at, purged_at is not None, names))
        else:
            unknown += 1
    return nights, unknown


def _read_kpis(session: Session, seqs: Sequence[int]) -> dict[int, list[KpiHistory]]:
    """The valid KPIs of runs, those of the gate first."""
    statement = select(KpiHistory).where(
        KpiHistory.run_seq.in_(seqs), KpiHistory.validity == Validity.VALID
    )
    by_run = defaultdict[int, list[KpiHistory]](list)
    for kpi in sorted(session.scalars(statement), key=lambda kpi: (not kpi.gate, kpi.name.lower())):
        by_run[kpi.run_seq].append(kpi)
    return by_run


def _version(
    names: VersionNames, rows: Sequence[_NightRow], kpis: Mapping[int, Sequence[KpiHistory]]
) -> AgentVersion:
    by_id = defaultdict[str, list[KpiHistory]](list)
    for row in rows:
        for kpi in kpis.get(row.seq, ()):
            by_id[kpi.kpi_id].append(kpi)
    newest = [row.run_id for row in reversed(rows) if not row.is_purged]
    return AgentVersion(
        id=names.digest,
        model=names.model,
        prompt=names.prompt,
        first_at=min(row.at for row in rows),
        last_at=max(row.at for row in rows),
        runs=len(rows),
        last_run_id=rows[-1].run_id,
        run_ids=newest[:MAX_BASELINE_RUNS],
        kpis=[_kpi_of_version(history) for history in by_id.values()],
    )


def _kpi_of_version(history: Sequence[KpiHistory]) -> VersionKpi:
    last, values = history[-1], [kpi.value for kpi in history if kpi.value is not None]
    interval = mean_interval(values) or _own_interval(history)
    return VersionKpi(
        kpi_id=last.kpi_id,
        name=last.name,
        unit=last.unit,
        gate=last.gate,
        runs=len(values),
        mean=mean_of(values),
        interval_low=interval.low if interval else None,
        interval_high=interval.high if interval else None,
    )


def _own_interval(history: Sequence[KpiHistory]) -> Interval | None:
    """The interval of the only run, over its items."""
    kpi = next((kpi for kpi in history if kpi.value is not None), None)
    if kpi is None or kpi.interval_low is None or kpi.interval_high is None:
        return None
    return Interval(low=kpi.interval_low, high=kpi.interval_high)
