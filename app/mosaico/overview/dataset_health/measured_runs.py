"""The runs that say how the items of a benchmark behave, and whether the agent changed between them."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from sqlalchemy import select, type_coerce
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Session

from mosaico.overview.agent_versions import VersionNames, version_names
from mosaico.run_store.models import BenchmarkRun, RunAttributes
from mosaico.run_store.recorded_attributes import AttributeProfile
from mosaico.run_store.rules import RunStatus, Validity

MAX_RUNS: Final = 60
# Valid runs with new data are looked for among the newest: the list of all may be long.
_NEWEST_RUNS: Final = 500


class HealthRun(NamedTuple):
    """A valid run with new data. Runs of one agent with the same fingerprint, revision and names are of an agent that did not
    change, as far as is recorded.
    """

    seq: int
    agent_id: str
    fingerprint: str | None
    agent_revision: str | None
    names: VersionNames

    @property
    def is_recorded(self) -> bool:
        """Whether its traces name a model, a prompt or a release."""
        return any(self.names)

    def is_followed_unchanged_by(self, later: "HealthRun") -> bool:
        """Whether nothing that is recorded differs in a later run but its number."""
        return self[1:] == later[1:]


class UnchangedPair(NamedTuple):
    """Two consecutive runs of an unchanged agent, by their places in the list of all."""

    before: int
    after: int


def list_measured_runs(session: Session, benchmark_id: str) -> list[HealthRun]:
    """The newest valid runs of a benchmark that measured something new, oldest first; at most 60."""
    newest = (
        select(BenchmarkRun.seq)
        .where(BenchmarkRun.benchmark_id == benchmark_id)
        .order_by(BenchmarkRun.seq.desc())
        .limit(_NEWEST_RUNS)
    )
    statement = (
        select(
            BenchmarkRun.seq,
            BenchmarkRun.agent_id,
            BenchmarkRun.fingerprint,
            type_coerce(BenchmarkRun.plan, JSONB)["agent_revision"].astext,
            # Not the whole record: what changed is not read.
            type_coerce(RunAttributes.record, JSONB)["profile"],
        )
        .outerjoin(RunAttributes, RunAttributes.run_seq == BenchmarkRun.seq)
        .where(
            BenchmarkRun.seq.in_(newest),
            BenchmarkRun.status == RunStatus.COMPLETED,
            BenchmarkRun.validity == Validity.VALID,
            BenchmarkRun.has_new_data,
            BenchmarkRun.rescore_of.is_(None),
        )
        .order_by(BenchmarkRun.seq.desc())
        .limit(MAX_RUNS)
    )
    return [
        HealthRun(
            seq=seq,
            agent_id=agent_id,
            fingerprint=fingerprint,
            agent_revision=revision,
            names=version_names(AttributeProfile.model_validate(profile or {})),
        )
        for seq, agent_id, fingerprint, revision, profile in session.execute(statement).all()[::-1]
    ]


def pair_unchanged(runs: Sequence[HealthRun]) -> Iterator[UnchangedPair]:
    """Consecutive runs of each agent that did not change between them."""
    for agent_id in dict.fromkeys(run.agent_id for run in runs):
        places = [place for place, run in enumerate(runs) if run.agent_id == agent_id]
        for before, after in pairwise(places):
            if runs[before].is_followed_unchanged_by(runs[after]):
                yield UnchangedPair(before, after)
