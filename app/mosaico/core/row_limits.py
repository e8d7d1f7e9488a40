"""Who sees which benchmarks: a limited caller reads and writes as a database role that sees only their rows.

The policies of the tables are the one place that decides, for each statement of each route, page, export and stream.
A caller without limits uses the role of the service, to which no policy applies. Source: PostgreSQL, row security
policies.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, TypeVar

from sqlalchemy import Connection, text
from sqlalchemy.orm import Session

from mosaico.core.errors import Forbidden

LIMITED_ROLE: Final = "mosaico_limited"
Visible = tuple[str, ...] | None  # IDs of benchmarks; None for all


class OutsideLimit(Forbidden):
    """This key or person is limited to some benchmarks, and that belongs to another one, or to none."""


Key = TypeVar("Key")
Value = TypeVar("Value")

_visible: ContextVar[Visible] = ContextVar("visible_benchmarks", default=None)

_OF_BENCHMARK: Final = "mosaico_sees(benchmark_id)"
_OF_RUN: Final = "EXISTS (SELECT FROM benchmark_runs run WHERE run.seq = run_seq)"
_OF_RULE: Final = "EXISTS (SELECT FROM alert_rules rule WHERE rule.id = rule_id)"
_OF_COLLECTION: Final = (
    "EXISTS (SELECT FROM benchmark_runs run WHERE run.collection_id = {column})"
    " OR EXISTS (SELECT FROM local_datasets uploaded WHERE uploaded.collection_id = {column})"
)

# Which rows of a table a limited caller sees and changes. The tables in a condition are limited, too.
LIMITED_TABLES: Final[Mapping[str, str]] = {
    "benchmarks": "mosaico_sees(id)",
    **dict.fromkeys(
        (
            "alert_events", "alert_rules", "awaited_runs", "benchmark_agents", "benchmark_baselines",
            "benchmark_revisions", "benchmark_runs", "incidents", "kpi_definitions", "kpi_history",
            "processed_source_runs", "schedule_configs", "source_subscriptions", "webhook_secrets",
        ),
        _OF_BENCHMARK,
    ),
    **dict.fromkeys(
        ("run_items", "run_llm_usage", "run_metrics", "run_series", "run_shards", "trace_results"),
        _OF_RUN,
    ),
    "agents": "EXISTS (SELECT FROM benchmark_agents evaluated WHERE evaluated.agent_id = id)"
    " OR EXISTS (SELECT FROM benchmark_runs run WHERE run.agent_id = id)",
    "alert_states": _OF_RULE,
    "run_evaluations": _OF_RULE,
    "alert_silences": "mosaico_sees(matchers ->> 'benchmarkId')",
    "notifications": "EXISTS (SELECT FROM alert_events alert WHERE alert.notification_id = notifications.id)",
    "deliveries": "EXISTS (SELECT FROM notifications message WHERE message.id = notification_id)",
    "endpoints": "EXISTS (SELECT FROM alert_rules rule WHERE rule.endpoints @> to_jsonb(endpoints.id))",
    "schedule_fires": "EXISTS (SELECT FROM schedule_configs schedule WHERE schedule.id = schedule_id)",
    "local_datasets": "EXISTS (SELECT FROM benchmarks tested WHERE tested.dataset_ref = local_datasets.name)",
    "collections": _OF_COLLECTION.format(column="collections.id"),
    "collected_traces": _OF_COLLECTION.format(column="collected_traces.collection_id"),
    "trace_transcripts": _OF_COLLECTION.format(column="trace_transcripts.collection_id"),
    # Of no benchmark that could be known.
    **dict.fromkeys(("otel_spans", "otel_traces", "trigger_events"), "false"),
}  # fmt: skip
# What the service needs for every request, and what only administrators see, who are never limited.
INTERNAL_TABLES: Final = frozenset(
    {
        "api_keys", "audit_log", "browser_sessions", "circuit_breakers", "idempotency_keys", "llm_cache",
        "login_links", "people", "purge_marks", "rate_windows", "worker_processes",
    }
)  # fmt: skip

_FUNCTION: Final = """
    CREATE OR REPLACE FUNCTION mosaico_sees(benchmark text) RETURNS boolean LANGUAGE sql STABLE
    RETURN COALESCE(current_setting('mosaico.benchmarks', true), '[]')::jsonb ? benchmark
"""
_LIMIT: Final = text(
    "SELECT set_config('mosaico.benchmarks', :benchmarks, true), set_config('role', :role, true)"
)


def current_limit() -> Visible:
    """The benchmarks that the caller of the present request sees; None for all."""
    return _visible.get()


@contextmanager
def limited_to(visible: Visible) -> Iterator[None]:
    """Let every transaction of this block see these benchmarks only; None for all."""
    before = _visible.set(visible)
    try:
        yield
    finally:
        _visible.reset(before)


def limit_session(session: Session) -> None:
    """Limit the transaction of a session to what its caller sees; nothing happens without a limit."""
    visible = current_limit()
    if visible is not None:
        session.execute(_LIMIT, {"benchmarks": json.dumps(visible), "role": LIMITED_ROLE})


def lift_limit(session: Session, *, visible: str, **parameters: object) -> None:
    """Let the rest of a transaction write rows that its caller cannot see yet, if `visible`, a statement with a row
    or none, finds what they will belong to; nothing happens without a limit. Raises: `OutsideLimit`.
    """
    if current_limit() is None:
        return
    if session.execute(text(visible), parameters).first() is None:
        raise OutsideLimit
    session.execute(text("SET LOCAL ROLE NONE"))


def limited_reader(
    read: Callable[[Sequence[Key]], Mapping[Key, Value]],
) -> Callable[[Sequence[Key]], Mapping[Key, Value]]:
    """A reader with the limit of the present request, for a call outside of it."""
    visible = current_limit()

    def read_limited(keys: Sequence[Key]) -> Mapping[Key, Value]:
        with limited_to(visible):
            return read(keys)

    return read_limited


def install_limits(connection: Connection) -> bool:
    """Create the role and the policies of all tables; returns whether the role exists.

    Each upgrade calls it. An owner of tables that may not create roles leaves the limits away, and a key with a limit
    is then refused: see docs/access.md.
    """
    has_role = "SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = :role)"
    may_create = "SELECT rolcreaterole OR rolsuper FROM pg_roles WHERE rolname = current_user"
    if not connection.scalar(text(has_role), {"role": LIMITED_ROLE}):
        if not connection.scalar(text(may_create)):
            return False
        connection.exec_driver_sql(f"CREATE ROLE {LIMITED_ROLE} NOLOGIN")
    connection.exec_driver_sql(_FUNCTION)
    for table, condition in LIMITED_TABLES.items():
        connection.exec_driver_sql(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")
        for policy in ("every_row", "visible_rows"):
            connection.exec_driver_sql(f"DROP POLICY IF EXISTS {policy} ON {table}")
        connection.exec_driver_sql(f"CREATE POLICY every_row ON {table} USING (true)")
        connection.exec_driver_sql(
            f"CREATE POLICY visible_rows ON {table} AS RESTRICTIVE TO {LIMITED_ROLE} USING ({condition})"
        )
    for statement in (
        f"GRANT USAGE ON SCHEMA public TO {LIMITED_ROLE}",
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {LIMITED_ROLE}",
        f"REVOKE UPDATE, DELETE ON audit_log FROM {LIMITED_ROLE}",
        f"GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA public TO {LIMITED_ROLE}",
    ):
        connection.exec_driver_sql(statement)
    return True


def has_limits(session: Session) -> bool:
    """Return whether this service may use the role of limited callers."""
    statement = "SELECT COALESCE((SELECT pg_has_role(oid, 'MEMBER') FROM pg_roles WHERE rolname = :role), false)"
    return bool(session.scalar(text(statement), {"role": LIMITED_ROLE}))
