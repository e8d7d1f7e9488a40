"""Waits until the scores of a run have arrived: evaluators write them after the answers."""

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from mosaico.traces.registry import TraceQuery
from mosaico.traces.sources.langfuse.failures import LangfusePolicy
from mosaico.traces.sources.langfuse.reader import ExperimentRun, RunReader
from mosaico.traces.sources.langfuse.settling import settle_for_ms

log = logging.getLogger(__name__)


class ScoreCount(NamedTuple):
    """The answers of a run, those that lack a score, and the number of scores that are missing."""

    answers: int
    incomplete: int
    missing: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreSettler:
    """Reads one run repeatedly. `tell` gets what the run waits for, None at the end."""

    reader: RunReader
    query: TraceQuery
    policy: LangfusePolicy
    pause: Callable[[float], None]
    now_ms: Callable[[], int]
    tell: Callable[[str | None], None]

    def wait(self, run: ExperimentRun) -> None:
        """Wait until every answer has the scores that metrics use, or no further one has arrived for some time, or
        the run ended long ago.
        """
        if not self.query.score_names or self.now_ms() - run.end >= 1000 * self._limit_s:
            return
        count = self._count(run)
        equal_polls, polls = 0, math.ceil(self._limit_s / self.policy.score_poll_s)
        while count.incomplete and equal_polls < self._quiet_polls and polls > 0:
            self.tell(
                f"scores of evaluators: {count.answers - count.incomplete} of {count.answers} answers have"
                f" {', '.join(self.query.score_names)}"
            )
            self.pause(self.policy.score_poll_s)
            current, polls = self._count(run), polls - 1
            equal_polls = equal_polls + 1 if current.missing == count.missing else 0
            count = current
        if count.incomplete:
            log.info(
                "the run %r is read, and %d of %d answers lack scores",
                run.name,
                count.incomplete,
                count.answers,
            )
        self.tell(None)

    @property
    def _limit_s(self) -> float:
        return max(self.policy.score_limit_s, (settle_for_ms(self.query) or 0) / 1000)

    @property
    def _quiet_polls(self) -> int:
        settle_ms = settle_for_ms(self.query)
        quiet_s = self.policy.score_quiet_s if settle_ms is None else settle_ms / 1000
        return math.ceil(quiet_s / self.policy.score_poll_s)

    def _count(self, run: ExperimentRun) -> ScoreCount:
        missing = [
            self.query.count_missing_scores(trace)
            for batch in self.reader.read_batches(run, None)
            for trace in batch.traces
        ]
        return ScoreCount(len(missing), sum(map(bool, missing)), sum(missing))
