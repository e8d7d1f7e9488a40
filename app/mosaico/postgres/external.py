"""An external Postgres server, named by DATABASE_URL."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import Conninfo

from mosaico.core.engine import BadDatabaseUrl

PROBE_SECONDS = 5
# libpq reads these variables: a password in the arguments would be visible in the process list.
ENVIRONMENT = {
    option.keyword.decode(): option.envvar.decode()
    for option in Conninfo.get_defaults()
    if option.envvar
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalStatus:
    """The state of an external server; `url` contains no password."""

    running: bool
    version: str | None
    url: str
    error: str | None


def connection_parameters(url: str) -> Mapping[str, str]:
    """The parts of a URL by their libpq names; raises `BadDatabaseUrl` without the URL, which may contain a password."""
    try:
        parts = conninfo_to_dict(re.sub(r"^postgres(ql)?\+\w+://", "postgresql://", url))
    except psycopg.ProgrammingError:
        # `from None`: the message of psycopg repeats the URL.
        raise BadDatabaseUrl from None
    return {name: str(value) for name, value in parts.items() if value is not None}


def psql_environment(url: str) -> dict[str, str]:
    """The environment variables that connect `psql` to a database."""
    parts = connection_parameters(url)
    return {ENVIRONMENT[name]: value for name, value in parts.items() if name in ENVIRONMENT}


def without_password(url: str) -> str:
    parts = connection_parameters(url)
    user = f"{quote(parts['user'])}@" if "user" in parts else ""
    port = f":{parts['port']}" if "port" in parts else ""
    return f"postgresql://{user}{parts.get('host', '')}{port}/{quote(parts.get('dbname', ''))}"


def external_status(url: str) -> ExternalStatus:
    """Query the version of the server; a failure becomes the `error` of the status."""
    parts = {"connect_timeout": str(PROBE_SECONDS), **connection_parameters(url)}
    try:
        with psycopg.connect("", **parts) as connection:  # type: ignore[arg-type]
            version = connection.info.parameter_status("server_version")
    except psycopg.OperationalError as error:
        return ExternalStatus(
            running=False, version=None, url=without_password(url), error=str(error).strip()
        )
    return ExternalStatus(running=True, version=version, url=without_password(url), error=None)
