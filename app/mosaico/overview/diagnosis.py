"""Checks of an installation with the settings of the process that runs it: what was found, or what is wrong and its
remedy. The service runs them for `mosaico doctor`, because only it knows its settings and its user.

Findings name no secret: of the settings the addresses of the mail server, of Langfuse and of the data folder.
"""

import shutil
import smtplib
import tempfile
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import Field
from sqlalchemy import func, select, text
from sqlalchemy.orm import Session, contains_eager

from mosaico.access import queries as key_queries
from mosaico.access.rules import ROLES
from mosaico.agents.models import Agent
from mosaico.agents.service import agent_query, check_source
from mosaico.agents.source_fields import LANGFUSE
from mosaico.benchmarks.models import Benchmark, KpiDefinition
from mosaico.core.clock import utc_now
from mosaico.core.defaults import MIN_FREE_BYTES, REPORTED_CLOCK_DIFFERENCE
from mosaico.core.errors import AppError
from mosaico.core.migrations import require_current_schema
from mosaico.core.resources import Resources
from mosaico.core.row_windows import RowWindow, iter_windows
from mosaico.core.schemas import WireModel
from mosaico.core.smtp import SmtpServer
from mosaico.core.text import format_duration
from mosaico.jobs.worker_process import PRESENCE_LOCK
from mosaico.notifications.mail_session import mail_session
from mosaico.schedules.heartbeat import MAX_AGE, find_last_heartbeat

TIMEOUT_S = 5.0
MAX_LISTED = 20
# A zone of the time zone database, which a machine may lack.
SAMPLE_ZONE = "Europe/Rome"

# The advisory lock of a worker ends with its process; the second half of its key is the worker's ID.
_COUNT_WORKERS = text(
    "SELECT count(DISTINCT objid) FROM pg_locks WHERE locktype = 'advisory' AND granted"
    " AND classid = :presence"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)


class CheckFailed(Exception):
    """A check found a problem; `remedy` is its remedy."""

    def __init__(self, finding: str, remedy: str) -> None:
        super().__init__(finding)
        self.remedy = remedy


class Diagnosis(WireModel):
    """The result of a check. Without `checked` it needs another check that failed, which the finding names."""

    name: str
    ok: bool
    finding: Annotated[str, Field(description="What was found.")]
    remedy: Annotated[
        str | None,
        Field(description="What to do; without one, the finding of a failed check says it."),
    ] = None
    checked: Annotated[bool, Field(description="Whether the check could be made.")] = True


class Diagnoses(WireModel):
    """The results of all checks."""

    items: list[Diagnosis]


def diagnose_service(res: Resources) -> Iterator[Diagnosis]:
    """The checks of a running service, by itself. It calls its mail server and Langfuse."""
    yield from diagnose_machine(res.options.get("summary_at", ""), res.data_dir, res.smtp)
    yield run_check("database", partial(check_open_database, res))
    yield run_check("migrations", partial(check_open_schema, res))
    yield from diagnose_stored(res)


def diagnose_machine(
    summary_at: str, data_dir: Path, smtp: SmtpServer | None
) -> Iterator[Diagnosis]:
    """The checks that need no database."""
    yield run_check("time zone", partial(check_time_zone, summary_at))
    yield run_check("disk", partial(check_disk, data_dir))
    yield run_check("mail server", partial(check_mail_server, smtp))


def diagnose_stored(res: Resources) -> Iterator[Diagnosis]:
    """The checks of what the database holds. The plugins must be loaded."""
    yield run_check("keys", partial(check_keys, res))
    yield run_check("clock", partial(check_clock, res))
    yield run_check("worker", partial(check_worker, res))
    yield run_check("heartbeat", partial(check_heartbeat, res))
    yield run_check("Langfuse", partial(check_langfuse_servers, res))
    yield run_check("KPIs", partial(check_kpi_directions, res))


def run_check(name: str, check: Callable[[], str]) -> Diagnosis:
    """The result of a check, whatever it raises."""
    try:
        return Diagnosis(name=name, ok=True, finding=check())
    except CheckFailed as failure:
        return Diagnosis(name=name, ok=False, finding=str(failure), remedy=failure.remedy)
    except AppError as error:
        return failed_check(name, error)


def failed_check(name: str, error: AppError) -> Diagnosis:
    hint = error.extra.get("hint")
    return Diagnosis(name=name, ok=False, finding=error.detail, remedy=hint)


def check_time_zone(summary_at: str) -> str:
    """The time zone of this machine and that of the daily summary."""
    try:
        ZoneInfo(SAMPLE_ZONE)
    except ZoneInfoNotFoundError:
        raise CheckFailed(
            "this machine has no time zone database", "install it: pip install tzdata"
        ) from None
    local = datetime.now(UTC).astimezone()
    return f"{local.tzname()} (UTC{local:%z}); daily summary at {summary_at}"


def check_disk(data_dir: Path, min_free_bytes: int = MIN_FREE_BYTES) -> str:
    """The free space of the disk with the data folder, which need not exist yet and must be writable."""
    folder = next(path for path in (data_dir, *data_dir.absolute().parents) if path.exists())
    try:
        # Permissions do not say it: of a read-only disk, of quotas, of the superuser. The file has no name.
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise CheckFailed(
            f"this user cannot write to {folder}: {error.strerror}",
            f"give the user of the service the folder, such as `chown -R USER {folder}`, or set"
            " MOSAICO_DATA_DIR to another one",
        ) from None
    free_bytes = shutil.disk_usage(folder).free
    finding = f"{free_bytes / 1024**3:.1f} GiB free at {data_dir}"
    if free_bytes < min_free_bytes:
        raise CheckFailed(
            finding, "free some space, or set MOSAICO_DATA_DIR to a folder on another disk"
        )
    return finding


def check_mail_server(access: SmtpServer | None) -> str:
    """Check that the mail server accepts a session; no mail is sent."""
    if access is None:
        return "no mail server is configured; set MOSAICO_SMTP_URL to use the channel EMAIL"
    server = f"{access.host}:{access.port}"
    try:
        with mail_session(access, TIMEOUT_S):
            return f"{server} accepts mail from {access.sender}"
    except (OSError, smtplib.SMTPException) as error:
        raise CheckFailed(
            f"{server}: {type(error).__name__}: {error}",
            "start the mail server, or correct MOSAICO_SMTP_URL",
        ) from None


def check_open_database(res: Resources) -> str:
    """The version of the database that the service uses."""
    with res.db.read() as session:
        version = session.scalar(text("SELECT current_setting('server_version')"))
    return f"Postgres {version} answers"


def check_open_schema(res: Resources) -> str:
    """Check that the schema of the database is the schema of this version."""
    require_current_schema(res.db.direct_url)
    return "the schema is up to date"


def check_keys(res: Resources) -> str:
    """The valid API keys; the master key has decrypted every stored secret before."""
    with res.db.read() as session:
        counts = {role: key_queries.count_usable_keys(session, role, utc_now()) for role in ROLES}
    if not counts["admin"]:
        raise CheckFailed(
            "no valid API key has the role admin",
            "set MOSAICO_ADMIN_KEY to a new key of at least 24 characters and start the service",
        )
    total = "at least " if max(counts.values()) == key_queries.MAX_COUNTED else ""
    admins = "at least " if counts["admin"] == key_queries.MAX_COUNTED else ""
    return (
        f"valid API keys: {total}{sum(counts.values())}, of them admin: {admins}{counts['admin']};"
        " secrets decrypt"
    )


def check_clock(res: Resources, max_difference: timedelta = REPORTED_CLOCK_DIFFERENCE) -> str:
    """Check that the clocks of this machine and of the database agree."""
    before = datetime.now(UTC)
    with res.db.read() as session:
        database_time = session.scalars(select(func.clock_timestamp())).one()
    after = datetime.now(UTC)
    # The database read its clock between the two readings here.
    difference = max(before - database_time, database_time - after, timedelta())
    finding = f"this machine and the database differ by {difference.total_seconds():.1f} s"
    if difference > max_difference:
        raise CheckFailed(finding, "set both clocks with NTP, such as `timedatectl set-ntp true`")
    return finding


def check_worker(res: Resources) -> str:
    """Check that a worker is connected, on any machine."""
    with res.db.read() as session:
        workers = session.scalars(_COUNT_WORKERS, {"presence": PRESENCE_LOCK}).one()
    if not workers:
        raise CheckFailed("no worker runs", "start one: `mosaico worker`, or `mosaico serve`")
    return "1 worker runs" if workers == 1 else f"{workers} workers run"


def check_heartbeat(res: Resources) -> str:
    """Check that the dead man's switch was called a moment ago. It is not called here: that would hide a dead worker."""
    if res.heartbeat_url is None:
        return "nobody is told when MOSAICO itself is down; set MOSAICO_HEARTBEAT_URL"
    host = urlsplit(res.heartbeat_url.reveal()).hostname
    with res.db.read() as session:
        last = find_last_heartbeat(session)
    if last is None:
        raise CheckFailed(
            f"{host} was never called",
            "start a scheduler and a worker with MOSAICO_HEARTBEAT_URL; the first call is a minute later",
        )
    ago = f"{format_duration(last.age)} ago"
    if not last.succeeded:
        raise CheckFailed(
            f"the call of {host} failed {ago}",
            "the log of the worker has the reason; correct MOSAICO_HEARTBEAT_URL or MOSAICO_OUTBOUND_ALLOW",
        )
    if last.age > MAX_AGE:
        raise CheckFailed(
            f"{host} was called {ago}, and not since",
            "it is called while a scheduler fires schedules in time and a worker does jobs: see docs/heartbeat.md",
        )
    return f"{host} was called {ago}"


def check_langfuse_servers(res: Resources) -> str:
    """Check that Langfuse accepts the keys of every agent with keys."""
    agent_count, servers = 0, set[str]()
    for window in iter_windows(res.db, Agent.id):
        # Before the servers are called, which must not happen in a transaction.
        with res.db.read() as session:
            agents = list_langfuse_agents(session, window)
        for agent in agents:
            query = agent_query(agent, res)
            check = check_source(LANGFUSE, query, res).check
            if not check.ok:
                raise CheckFailed(
                    f"agent {agent.id} at {check.langfuse_url}: {check.detail}",
                    f"correct its address or keys: `mosaico agents update {agent.id}`",
                )
            servers.add(f"{check.langfuse_url} (API {check.api})")
        agent_count += len(agents)
    if not servers:
        return "no agent has Langfuse keys"
    return f"{agent_count} agents: {', '.join(sorted(servers))}"


def list_langfuse_agents(session: Session, window: RowWindow) -> Sequence[Agent]:
    """The agents of a range that have keys of Langfuse, by ID."""
    statement = select(Agent).where(
        window.contains(Agent.id),
        Agent.langfuse_secret_key.is_not(None),
        func.coalesce(Agent.source_kind, LANGFUSE) == LANGFUSE,
        ~Agent.archived,
    )
    return session.scalars(statement.order_by(Agent.id)).all()


def check_kpi_directions(res: Resources) -> str:
    """The current KPIs whose direction is not that of their formula; they may be meant."""
    findings, kpi_count = list[str](), 0
    for window in iter_windows(res.db, KpiDefinition.benchmark_id):
        with res.db.read() as session:
            kpis = list_kpis_of_window(session, window)
        kpi_count += len(kpis)
        findings += [
            f"KPI {kpi.name} of benchmark {kpi.benchmark_id}: {warning}"
            for kpi in kpis
            for warning in kpi.warnings
        ]
    if not findings:
        return f"{kpi_count} KPIs have a direction that fits their formula"
    more = len(findings) - MAX_LISTED
    return "; ".join([*findings[:MAX_LISTED], *([f"{more} more"] if more > 0 else [])])


def list_kpis_of_window(session: Session, window: RowWindow) -> Sequence[KpiDefinition]:
    """The current KPIs of the active benchmarks in a range, by benchmark and ID."""
    statement = (
        select(KpiDefinition)
        .join(KpiDefinition.benchmark)
        .options(contains_eager(KpiDefinition.benchmark))
        .where(
            window.contains(KpiDefinition.benchmark_id),
            KpiDefinition.retired_at.is_(None),
            ~Benchmark.archived,
        )
    )
    return session.scalars(statement.order_by(KpiDefinition.benchmark_id, KpiDefinition.id)).all()
