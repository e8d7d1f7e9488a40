"""Checks of an installation, one small function each: what was found, or what is wrong and its remedy."""

import platform
import shutil
import smtplib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from importlib.metadata import version
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import httpx
from sqlalchemy import func, select, text
from sqlalchemy.orm import Session, contains_eager

from mosaico.access import queries as key_queries
from mosaico.access.rules import ROLES
from mosaico.agents.models import Agent
from mosaico.agents.service import agent_query, check_source
from mosaico.agents.source_fields import LANGFUSE
from mosaico.benchmarks.models import Benchmark, KpiDefinition
from mosaico.core.clock import utc_now
from mosaico.core.db import Database
from mosaico.core.defaults import MIN_FREE_BYTES, REPORTED_CLOCK_DIFFERENCE
from mosaico.core.errors import AppError
from mosaico.core.http.client import own_service_client
from mosaico.core.migrations import (
    require_current_schema,
    require_own_tables,
    require_postgres,
)
from mosaico.core.resources import Resources
from mosaico.core.row_windows import RowWindow, iter_windows
from mosaico.core.settings import Settings, base_url
from mosaico.core.smtp import SmtpServer
from mosaico.jobs.worker_process import PRESENCE_LOCK
from mosaico.notifications.mail_session import mail_session
from mosaico.plugin_loading import load_plugins
from mosaico.postgres.external import external_status
from mosaico.postgres.server import EmbeddedPostgres
from mosaico.startup import mail_access, opened_resources
from mosaico.table_list import METADATA

TIMEOUT_S = 5.0
MAX_LISTED = 20
# A zone of the time zone database, which a machine may lack.
SAMPLE_ZONE = "Europe/Rome"
NEEDS_DATABASE = ("migrations", "keys", "clock", "worker", "Langfuse", "KPIs")

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """The result of a check. A failed check has a remedy; if `remedy` is None, the finding contains it.

    Without `checked` the check needs another one that failed, which the finding names.
    """

    name: str
    ok: bool
    finding: str
    remedy: str | None = None
    checked: bool = True


def diagnose(settings: Settings) -> Iterator[Diagnosis]:
    """The result of each check. Without a database, those that need it are not made and not ok."""
    yield _check("versions", check_versions)
    yield _check("time zone", partial(check_time_zone, settings.summary_at))
    yield _check("disk", partial(check_disk, settings.data_dir))
    yield _check("port", partial(check_port, settings))
    yield _check("mail server", partial(check_mail_server, mail_access(settings)))
    database = _check("database", partial(check_database, settings))
    yield database
    if not database.ok:
        yield from (_unchecked(name, database) for name in NEEDS_DATABASE)
        return
    migrations = _check("migrations", partial(check_migrations, settings))
    yield migrations
    if not migrations.ok:
        yield from (_unchecked(name, migrations) for name in NEEDS_DATABASE[1:])
        return
    try:
        with opened_resources(settings, name="mosaico-doctor", pool_size=1) as res:
            yield _check("keys", partial(check_keys, res))
            yield _check("clock", partial(check_clock, res))
            yield _check("worker", partial(check_worker, res))
            yield _check("Langfuse", partial(check_langfuse_servers, res))
            yield _check("KPIs", partial(check_kpi_directions, res))
    except AppError as error:
        # The master key does not fit, for example.
        keys = _failed("keys", error)
        yield keys
        yield from (_unchecked(name, keys) for name in NEEDS_DATABASE[2:])


def check_versions() -> str:
    """The versions of this program, of Python and of the system."""
    system = f"{platform.system()} {platform.machine()}"
    return f"mosaico {version('mosaico')}, Python {platform.python_version()}, {system}"


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
    """The free space of the disk with the data folder, which need not exist yet."""
    folder = next(path for path in (data_dir, *data_dir.absolute().parents) if path.exists())
    free_bytes = shutil.disk_usage(folder).free
    finding = f"{free_bytes / 1024**3:.1f} GiB free at {data_dir}"
    if free_bytes < min_free_bytes:
        raise CheckFailed(
            finding, "free some space, or set MOSAICO_DATA_DIR to a folder on another disk"
        )
    return finding


def check_port(settings: Settings, timeout_s: float = TIMEOUT_S) -> str:
    """Check that the port of the API is free, or that this service listens on it."""
    url = base_url(settings)
    try:
        with own_service_client(url, key=None, timeout_s=timeout_s) as client:
            health = client.get("/healthz").json()
    except httpx.ConnectError:
        return f"nothing listens at {url}; `mosaico serve` starts the service"
    except (httpx.TransportError, ValueError):
        health = None
    if health != {"status": "ok"}:
        raise CheckFailed(
            f"another program listens at {url}", "end it, or set MOSAICO_PORT to a free port"
        )
    return f"the service answers at {url}"


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


def check_database(settings: Settings) -> str:
    """The version and the address of the running database."""
    if settings.database_url is not None:
        external = external_status(settings.database_url.get_secret_value())
        if not external.running:
            raise CheckFailed(
                f"{external.url}: {external.error}", "start the server, or correct DATABASE_URL"
            )
        require_postgres(external.version or "")
        return f"Postgres {external.version} at {external.url}"
    embedded = EmbeddedPostgres(settings.data_dir).status()
    if not embedded.running:
        raise CheckFailed(
            f"the embedded database in {settings.data_dir} does not run",
            "start it with the service, `mosaico serve`, or alone, `mosaico db start`",
        )
    return f"Postgres {embedded.version} at {embedded.url}"


def check_migrations(settings: Settings) -> str:
    """Check that the schema of the database is the schema of this version."""
    external = settings.database_direct_url or settings.database_url
    url = external.get_secret_value() if external else EmbeddedPostgres(settings.data_dir).url()
    with Database(url, pool_size=1, name="mosaico-doctor") as db:
        with db.read() as session:
            require_own_tables(session.connection(), METADATA)
        require_current_schema(url)
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


def check_langfuse_servers(res: Resources) -> str:
    """Check that Langfuse accepts the keys of every agent with keys."""
    load_plugins()
    agent_count, servers = 0, set[str]()
    for window in iter_windows(res.db, Agent.id):
        # Before the servers are called, which must not happen in a transaction.
        with res.db.read() as session:
            agents = list_langfuse_agents(session, window)
        for agent in agents:
            query = agent_query(agent, res)
            check = check_source(LANGFUSE, query, res)
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
    load_plugins()
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


def _check(name: str, check: Callable[[], str]) -> Diagnosis:
    try:
        return Diagnosis(name=name, ok=True, finding=check())
    except CheckFailed as failure:
        return Diagnosis(name=name, ok=False, finding=str(failure), remedy=failure.remedy)
    except AppError as error:
        return _failed(name, error)


def _failed(name: str, error: AppError) -> Diagnosis:
    hint = error.extra.get("hint")
    return Diagnosis(name=name, ok=False, finding=error.detail, remedy=hint)


def _unchecked(name: str, cause: Diagnosis) -> Diagnosis:
    return Diagnosis(
        name=name, ok=False, finding=f"fix the check {cause.name} first", checked=False
    )
