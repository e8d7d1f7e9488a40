"""B9: the statements whose rows grow with a request, a run or a source, with more rows than one usually has.

Each is executed in a transaction that is rolled back, on tables of `ROWS` rows.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from functools import partial
from typing import Final

from sqlalchemy import text
from sqlalchemy.orm import Session

from benchmarks.bulk.timings import ROWS, Timing, time_statements
from benchmarks.list_rows import NAMES, TABLES
from benchmarks.table_rows import TIME, insert_rows
from benchmarks.traces import expected_of, output_of
from mosaico.access.service import FIRST_KEY_NAME, _revoke_first_keys
from mosaico.alerts.details import AlertDetails
from mosaico.alerts.models import AlertEvent, AlertRule
from mosaico.alerts.publishing import store_and_publish
from mosaico.alerts.service import _lock_states, reset_states
from mosaico.comparison.acceptance import hold_incident, release_incident
from mosaico.comparison.baselines import unpin_baseline
from mosaico.core.batch_delete import delete_all
from mosaico.core.batches import STATEMENT_ROWS
from mosaico.core.clock import utc_now
from mosaico.core.db import Database
from mosaico.core.ids import new_id
from mosaico.jobs.job_manager import _REGISTER_PROCESS
from mosaico.llm.conversation import Usage
from mosaico.llm.types import ChatAnswer, RequestUsage
from mosaico.notifications.service import publish
from mosaico.notifications.types import NotificationMessage
from mosaico.run_store.models import RunShard
from mosaico.run_store.run_series import ItemIndex, SeriesPoint, SeriesResult, store_points
from mosaico.run_store.shard_ranges import ShardRange
from mosaico.runs.leases import RunLease
from mosaico.runs.llm_cache import evict_answers, put_answers
from mosaico.runs.shards import SHARD_TRACES, create_shards
from mosaico.runs.source_runs import ListedRun
from mosaico.schedules.missed_schedules import report_missed_schedules
from mosaico.statistics.verdict_rules import Scale, Side
from mosaico.traces.registry import SourceRun, TracePage
from mosaico.traces.service import create_collection, store_page
from mosaico.traces.types import Trace, TraceOutcome
from mosaico.triggers.polling import _delete_processed, _insert_processed, enqueue_due_polls
from mosaico.triggers.queries import SubscriptionKey
from tests.support.results import PLAN

# Endpoints of a message, alerts, rules, agents and runs of an incident.
MANY: Final = 1_000
GROUPS: Final = 20
ANSWERS: Final = 2_000
# Those of 10,000,000 traces.
SHARDS: Final = 5_000
SERIES: Final = 200
ITEMS: Final = 10_000
SOURCE_RUNS: Final = 10_000
BENCHMARKS: Final = 200
EVERY_RUN: Final = '\'{"newRun": {"pattern": "*"}}\''

_RULE: Final = {
    **TABLES["alert_rules"],
    "id": "'many-' || n",
    "benchmark_id": "'b'",
    "agent_id": "NULL",
}
_BEGUN: Final = "now() - interval '7 hours'"
_FIRE: Final = {"schedule_id": f"'many-' || (n - 1) % {MANY} + 1", "triggered_by": "'SCHEDULED'"}
_SKIPPED_AT: Final = f"now() - interval '6 hours' + ((n - 1) / {MANY}) * interval '1 second'"
_SKIPPED: Final = {
    **_FIRE,
    "due_at": _SKIPPED_AT,
    "fired_at": _SKIPPED_AT,
    "status": "'SKIPPED'",
    "reason": "'OVERLAP'",
}
_ROWS_OF_TABLES: Final[Mapping[str, tuple[int, Mapping[str, str]]]] = {
    "agents": (MANY, {"id": "'many-' || n"}),
    "endpoints": (MANY, {**TABLES["endpoints"], "id": "'many-' || n", "recipient_hash": "'many-' || n", "host": "'host-' || n"}),
    "alert_rules": (MANY, {**_RULE, "endpoints": f"jsonb_build_array('many-' || n % {GROUPS} + 1)"}),
    # Those of the last rule and of the agent 'a' do not exist yet.
    "alert_states": (ROWS, {"rule_id": f"'many-' || (n - 1) / {MANY} + 1", "agent_id": f"'many-' || (n - 1) % {MANY} + 1"}),
    "benchmarks": (BENCHMARKS, {"id": "'many-' || n", "metrics": "'[]'", "triggers": EVERY_RUN}),
    "benchmark_agents": (ROWS // 20, {"benchmark_id": f"'many-' || (n - 1) % {BENCHMARKS} + 1", "agent_id": f"'many-' || (n - 1) / {BENCHMARKS} + 1"}),
    "benchmark_baselines": (MANY, {"benchmark_id": "'b'", "agent_id": "'many-' || n", "run_id": f"'run-' || {ROWS} - n", "pinned_at": TIME}),
    "run_shards": (ROWS, {"run_seq": f"(n - 1) / {SHARDS} + 101", "shard": f"n % {SHARDS}"}),
    "run_series": (ROWS, {"run_seq": f"(n - 1) / {SERIES} + 101", "series": f"'series-' || n % {SERIES}"}),
    "source_subscriptions": (MANY, {"benchmark_id": "'b'", "agent_id": "'many-' || n", "polled_at": "now()"}),
    "processed_source_runs": (ROWS, {"benchmark_id": "'b'", "agent_id": f"'many-' || (n - 1) / {SOURCE_RUNS} + 1", "source_run_id": "'run-' || n"}),
    "api_keys": (ROWS, {"id": "'many-' || n", "role": f"CASE WHEN n % {ROWS // MANY} = 0 THEN 'admin' ELSE 'read' END", "name": f"CASE WHEN n % {ROWS // MANY} = 0 THEN '{FIRST_KEY_NAME}' ELSE 'many' END"}),
    "worker_processes": (MANY, {"worker_id": "n"}),
    # Each with a run in progress since seven hours, and a skipped due time for each second of the last ones.
    "schedule_configs": (MANY, {**TABLES["schedule_configs"], "id": "'many-' || n", **NAMES, "next_run_at": "now()", "enabled": "true"}),
    "benchmark_runs": (MANY, {**NAMES, "id": "'many-' || n", "status": "'RUNNING'", "triggered_by": "'SCHEDULED'"}),
    "schedule_fires": (MANY, {**_FIRE, "due_at": _BEGUN, "fired_at": _BEGUN, "status": "'STARTED'", "run_id": "'many-' || n"}),
}  # fmt: skip


def fill_inputs(db: Database) -> None:
    """The rows that the statements need beside those of `benchmarks.bulk.rows`."""
    with db.begin() as session:
        session.execute(text("SET LOCAL statement_timeout = 0"))
        for name, (count, columns) in _ROWS_OF_TABLES.items():
            insert_rows(session, name, columns, count)
        insert_rows(session, "schedule_fires", _SKIPPED, ROWS)
    with db.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("SET statement_timeout = 0"))
        connection.execute(text(f"VACUUM ANALYZE {', '.join(_ROWS_OF_TABLES)}"))


def _publish(session: Session) -> None:
    message = NotificationMessage(topic="test", title="Test")
    publish(session, message, [f"many-{number}" for number in range(1, MANY + 1)])


def _publish_alerts(session: Session) -> None:
    rules = {rule.id: rule for rule in session.query(AlertRule).where(AlertRule.id.like("many-%"))}
    store_and_publish(session, [_alert(rule) for rule in rules.values()], rules, utc_now())


def _alert(rule: AlertRule) -> AlertEvent:
    return AlertEvent(
        id=(event_id := new_id()),
        dedup_key=event_id,
        incident_id=event_id,
        state="FIRING",
        rule_id=rule.id,
        name="quality fell",
        severity=rule.severity,
        benchmark_id="b",
        agent_id="a",
        run_id="run-1",
        run_seq=1,
        explanation="The value fell from 0.9 to 0.5.",
        details=AlertDetails(value_name="ROUGE"),
        created_at=utc_now(),
    )


def _create_states(session: Session) -> None:
    rule_ids = sorted(f"many-{number}" for number in range(1, MANY + 1))
    _lock_states(session, rule_ids, "a", utc_now())


def _reset_states(session: Session) -> None:
    rule = session.get(AlertRule, "many-1")
    assert rule is not None
    reset_states(session, rule, "", utc_now())


def _hold(session: Session) -> None:
    hold_incident(session, range(1, MANY + 1))


def _release(session: Session) -> None:
    hold_incident(session, range(1, MANY + 1))
    release_incident(session, range(1, MANY + 1), is_noise=True)


def _register_process(session: Session) -> None:
    with closing(session.connection().connection.cursor()) as cursor:
        process = {"worker_id": -1, "machine": "x", "forgotten": STATEMENT_ROWS}
        cursor.execute(_REGISTER_PROCESS, process)


def _store_series(session: Session) -> None:
    items = ItemIndex(keys=b"12345678" * ITEMS, traces=b"1234" * ITEMS)
    values = hashlib.shake_128(b"values").digest(4 * ITEMS)
    point = SeriesPoint(Scale.RATE, Side.LOW, 0.5, values)
    series = {f"metric/{number}": SeriesResult(point=point, levels={}) for number in range(SERIES)}
    store_points(session, ROWS, items, series)


def _keys(count: int) -> list[bytes]:
    return [hashlib.sha256(b"%d" % number).digest() for number in range(count)]


def _put_answers(session: Session) -> None:
    answers = {key: ChatAnswer(content=output_of(7)) for key in _keys(ANSWERS)}
    usages = [RequestUsage("model", Usage(input_tokens=1, output_tokens=1), 0.1)] * ANSWERS
    put_answers(session, 1, answers, usages, utc_now())


def _evict_answers(session: Session) -> None:
    keys = [number.to_bytes(8, "big") for number in range(ROWS - ANSWERS, ROWS)]
    evict_answers(session, keys)


def _create_shards(session: Session) -> None:
    seq = ROWS - 7
    start = "UPDATE benchmark_runs SET status = 'RUNNING', shards_total = NULL WHERE seq = :seq"
    session.execute(text(start), {"seq": seq})
    lease = RunLease(
        run_id=f"run-{seq}",
        run_seq=seq,
        collection_id=1,
        fencing_token=1,
        plan=PLAN,
        fingerprint=None,
        confirms=None,
        is_news=True,
    )
    starts = range(0, SHARDS * SHARD_TRACES, SHARD_TRACES)
    ranges = [ShardRange(start, start + SHARD_TRACES - 1) for start in starts]
    create_shards(session, lease, ranges, "f")


def _store_page(session: Session) -> None:
    traces = tuple(
        Trace(
            trace_id=f"t-{number}",
            item_id=f"i-{number}",
            trial=0,
            outcome=TraceOutcome.SCORED,
            input=expected_of(number),
            expected_output=expected_of(number),
            output=output_of(number),
        )
        for number in range(2 * MANY)
    )
    collection = create_collection(session, "local", {})
    store_page(session, collection, TracePage(traces=traces, cursor="next"), utc_now())


def _process_runs(session: Session) -> None:
    runs = [
        SourceRun(id=f"n-{number}", name="n", started_at=utc_now(), ended_at=utc_now(), items=1, complete=True)
        for number in range(SOURCE_RUNS)
    ]  # fmt: skip
    key = SubscriptionKey("b", "many-1")
    _insert_processed(session, key, [ListedRun(run, run.id) for run in runs])


def _report_blocked(session: Session) -> None:
    report_missed_schedules(session, utc_now())


def _poll(session: Session) -> None:
    enqueue_due_polls(session, utc_now())


# The timing that measures each statement, and its rows.
INPUTS: Final[Mapping[str, Callable[[Session], object]]] = {
    f"message to {MANY:,} endpoints": _publish,
    f"{MANY:,} alerts to {GROUPS} endpoints": _publish_alerts,
    f"states of {MANY:,} rules": _create_states,
    f"reset of {MANY:,} states": _reset_states,
    f"hold of {MANY:,} runs": _hold,
    f"release of {MANY:,} runs": _release,
    f"{MANY:,} pinned baselines": partial(unpin_baseline, benchmark_id="b", agent_id=None),
    f"{MANY:,} ended processes": _register_process,
    f"{SERIES} series of {ITEMS:,} items": _store_series,
    f"{ANSWERS:,} LLM answers": _put_answers,
    f"eviction of {ANSWERS:,} LLM answers": _evict_answers,
    f"{SHARDS:,} shards": _create_shards,
    f"{SHARDS:,} purged shards": partial(delete_all, table=RunShard, condition=RunShard.run_seq == 101),
    f"page of {2 * MANY:,} traces": _store_page,
    f"{SOURCE_RUNS:,} processed source runs": _process_runs,
    f"{SOURCE_RUNS:,} forgotten source runs": partial(_delete_processed, key=SubscriptionKey("b", "many-2")),
    "polls of many pairs": _poll,
    f"{MANY:,} blocked schedules": _report_blocked,
    f"{MANY:,} first keys": partial(_revoke_first_keys, now=utc_now()),
}  # fmt: skip


def time_inputs(db: Database) -> Iterator[Timing]:
    fill_inputs(db)
    for name, process in INPUTS.items():
        yield time_statements(name, db, process)
