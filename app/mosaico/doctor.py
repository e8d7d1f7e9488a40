"""`mosaico doctor`: the checks that a running service makes of itself, or, where none answers, those of this environment."""

import platform
from collections.abc import Iterator
from functools import partial
from importlib.metadata import version

import httpx

from mosaico.core.console.service_address import find_service
from mosaico.core.db import Database
from mosaico.core.errors import AppError
from mosaico.core.http.client import own_service_client
from mosaico.core.migrations import (
    require_current_schema,
    require_own_tables,
    require_postgres,
)
from mosaico.core.settings import Settings
from mosaico.overview.diagnosis import (
    TIMEOUT_S,
    CheckFailed,
    Diagnoses,
    Diagnosis,
    diagnose_machine,
    diagnose_stored,
    failed_check,
    run_check,
)
from mosaico.plugin_loading import load_plugins
from mosaico.postgres.external import external_status
from mosaico.postgres.server import EmbeddedPostgres
from mosaico.startup import mail_access, opened_resources
from mosaico.table_list import METADATA

# The service calls its mail server and each Langfuse.
DIAGNOSIS_TIMEOUT_S = 120.0
DIAGNOSIS_PATH = "/api/v1/overview/system/checks"
NEEDS_DATABASE = ("migrations", "keys", "clock", "worker", "heartbeat", "Langfuse", "KPIs")


def diagnose(settings: Settings) -> Iterator[Diagnosis]:
    """The result of each check. Where a service answers, it makes them itself: its settings and its user are other
    ones than those of this command. Without a database, the checks that need it are not made and not ok.
    """
    yield run_check("versions", check_versions)
    service = run_check("service", check_service)
    yield service
    if not service.ok:
        yield from (_unchecked(name, service) for name in ("database", *NEEDS_DATABASE))
    elif is_answering(find_service().url):
        yield from ask_service()
    else:
        yield from diagnose_environment(settings)


def diagnose_environment(settings: Settings) -> Iterator[Diagnosis]:
    """The checks with the settings of this environment, which a service would start with."""
    yield from diagnose_machine(settings.summary_at, settings.data_dir, mail_access(settings))
    database = run_check("database", partial(check_database, settings))
    yield database
    if not database.ok:
        yield from (_unchecked(name, database) for name in NEEDS_DATABASE)
        return
    migrations = run_check("migrations", partial(check_migrations, settings))
    yield migrations
    if not migrations.ok:
        yield from (_unchecked(name, migrations) for name in NEEDS_DATABASE[1:])
        return
    try:
        with opened_resources(settings, name="mosaico-doctor", pool_size=1) as res:
            load_plugins()
            yield from diagnose_stored(res)
    except AppError as error:
        # The master key does not fit, for example.
        keys = failed_check("keys", error)
        yield keys
        yield from (_unchecked(name, keys) for name in NEEDS_DATABASE[2:])


def ask_service() -> list[Diagnosis]:
    """What the running service finds, with its own settings."""
    service = find_service()
    try:
        with own_service_client(
            service.url, key=service.key, timeout_s=DIAGNOSIS_TIMEOUT_S
        ) as client:
            response = client.post(DIAGNOSIS_PATH)
            response.raise_for_status()
            return Diagnoses.model_validate_json(response.content).items
    except httpx.HTTPStatusError as error:
        finding = f"the service does not tell its state: HTTP {error.response.status_code}"
        remedy = f"set MOSAICO_API_KEY to a key with the role admin; the key sent is {service.key_source}"
    except (httpx.TransportError, ValueError) as error:
        finding = f"the service does not tell its state: {type(error).__name__}"
        remedy = "look at its log"
    return [Diagnosis(name="checks", ok=False, finding=finding, remedy=remedy)]


def check_versions() -> str:
    """The versions of this program, of Python and of the system."""
    system = f"{platform.system()} {platform.machine()}"
    return f"mosaico {version('mosaico')}, Python {platform.python_version()}, {system}"


def check_service(timeout_s: float = TIMEOUT_S) -> str:
    """Check that nothing but the service listens at its address."""
    url = find_service().url
    if is_answering(url, timeout_s):
        return f"the service answers at {url}, and makes the checks below with its own settings"
    return f"nothing listens at {url}, so this environment is checked; `mosaico serve` starts the service"


def is_answering(url: str, timeout_s: float = TIMEOUT_S) -> bool:
    """Return whether the service listens at a URL. Raises: `CheckFailed` where another program does."""
    try:
        with own_service_client(url, key=None, timeout_s=timeout_s) as client:
            health = client.get("/healthz").json()
    except httpx.ConnectError:
        return False
    except (httpx.TransportError, ValueError):
        health = None
    if health != {"status": "ok"}:
        raise CheckFailed(
            f"another program listens at {url}",
            "end it, or set MOSAICO_PORT to a free port; of a service elsewhere, MOSAICO_URL is the address",
        )
    return True


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


def _unchecked(name: str, cause: Diagnosis) -> Diagnosis:
    return Diagnosis(
        name=name, ok=False, finding=f"fix the check {cause.name} first", checked=False
    )
