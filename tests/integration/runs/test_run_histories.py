"""Random histories of runs: no illegal transition, and final states never change."""

from collections.abc import Callable

import httpx
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from mosaico.jobs.declarations import BeginRun, FailRun
from mosaico.jobs.handlers import JobContext
from mosaico.run_store.rules import FINAL, MAX_RETRIES, NEXT_STATUSES, RunStatus
from mosaico.runs import pipeline
from tests.support.service import JSON, Service, pair

RUNS = "/benchmark-runs"
ACTIONS = ("start", "cancel", "retry", "begin", "work", "fail", "delete")
HISTORIES = st.lists(
    st.tuples(st.sampled_from(ACTIONS), st.integers(0, 5)), min_size=4, max_size=14
)
# Links to another run end when that run is deleted.
NO_LINKS = {"retryOf": None, "sameSourceAs": None, "sameDataAs": None}


class RunHistoryCheck:
    """Acts on the runs of a service and checks the invariants after each action."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.known: dict[str, JSON] = {}
        self.job = JobContext(
            resources=service.resources, pool=service.pool, is_stopping=lambda: False
        )

    def do(self, action: str, index: int) -> None:
        if action == "start" or not self.known:
            run = self.service.start_run()
            self.known[run["id"]] = run
            return
        run_id = list(self.known)[index % len(self.known)]
        act: Callable[[str], None] = getattr(self, f"_{action}")
        act(run_id)
        self._check(deleted=run_id if action == "delete" else None)

    def _cancel(self, run_id: str) -> None:
        answer = self.service.send("POST", f"{RUNS}/{run_id}/cancel")
        assert answer.status_code == (409 if self._final(run_id) else 200)

    def _retry(self, run_id: str) -> None:
        run = self.known[run_id]
        answer = self.service.send("POST", f"{RUNS}/{run_id}/retry")
        retried = any(other["retryOf"] == run_id for other in self.known.values())
        may = run["status"] in ("FAILED", "CANCELLED") and run["retryCount"] < MAX_RETRIES
        assert answer.status_code == (201 if may and not retried else 409)
        if answer.is_success:
            again = answer.json()
            assert again["retryCount"] == run["retryCount"] + 1 <= MAX_RETRIES
            self.known[again["id"]] = again

    def _begin(self, run_id: str) -> None:
        pipeline.begin(self.job, BeginRun(run_id=run_id))

    def _work(self, _run_id: str) -> None:
        self.service.work()

    def _fail(self, run_id: str) -> None:
        pipeline.on_failure(
            self.job,
            FailRun(
                run_id=run_id, code="POISON", message="the job ended its workers; see their logs"
            ),
        )

    def _delete(self, run_id: str) -> None:
        answer: httpx.Response = self.service.send("DELETE", f"{RUNS}/{run_id}")
        assert answer.status_code == (204 if self._final(run_id) else 409)

    def _final(self, run_id: str) -> bool:
        return RunStatus(self.known[run_id]["status"]).is_final

    def _check(self, deleted: str | None) -> None:
        now = {run["id"]: run for run in self.service.list_items(RUNS, limit=200)}
        for run_id, before in list(self.known.items()):
            if run_id not in now:
                assert run_id == deleted
                del self.known[run_id]
                continue
            old, new = RunStatus(before["status"]), RunStatus(now[run_id]["status"])
            if old in FINAL:
                assert {**now[run_id], **NO_LINKS} == {**before, **NO_LINKS}
            elif old is not new:
                # One job may take several steps, so a look may miss the states in between.
                assert new in NEXT_STATUSES[old] | {RunStatus.COMPLETED, RunStatus.FAILED}
            assert (now[run_id]["completedAt"] is not None) == new.is_final
        assert set(now) == set(self.known)
        self.known = {run_id: now[run_id] for run_id in self.known}


def test_run_histories__keep_all_invariants(service: Service) -> None:
    service.create_agent()
    service.create_benchmark(
        metrics=["ACCURACY"], measures=[{"name": "quality", "formula": "ACCURACY"}]
    )
    service.upload([pair(1), pair(2, output="x")])

    # Runs of earlier examples stay, so no example can be repeated: neither shrunk nor kept.
    @settings(
        max_examples=4,
        deadline=None,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(HISTORIES)
    def tell(history: list[tuple[str, int]]) -> None:
        story = RunHistoryCheck(service)
        for run in service.list_items(RUNS):
            story.known[run["id"]] = run
        for action, index in history:
            story.do(action, index)

    tell()
    service.work()
    ended = service.list_items(RUNS, limit=200)
    assert {run["status"] for run in ended} <= {"COMPLETED", "FAILED", "CANCELLED"}
    completed = [run["id"] for run in ended if run["status"] == "COMPLETED"]
    history = [entry["runId"] for entry in service.list_items("/kpi-history", limit=200)]
    assert sorted(history) == sorted(completed), "each completed run has its KPI once, others none"
