"""Migrated databases that are emptied after a test and used again.

A copy of the template takes longer than most tests.
"""

from dataclasses import dataclass, field
from itertools import count

import psycopg
from sqlalchemy.pool import QueuePool

from mosaico.core.db import Database
from tests.support.postgres import drop_database, make_database, url_of

# Everything that a test may have changed beside rows; a database that differs is thrown away. A copy has
# the object IDs of the template, which are compared faster than names and definitions in SQL.
FIRST_OBJECT_OF_USERS = 16384
SCHEMA_DIGEST = f"""
    SELECT concat_ws(' ', count(*), sum(hashtextextended(part, 0))) FROM (
        SELECT concat_ws(' ', 'class', oid, relname, relnamespace, relkind, relowner, relacl,
                         relrowsecurity, reloptions) AS part
        FROM pg_class WHERE oid >= {FIRST_OBJECT_OF_USERS} AND relpersistence <> 't'
        UNION ALL
        SELECT concat_ws(' ', 'attribute', attrelid, attname, atttypid, attnotnull, attisdropped, attacl)
        FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
        WHERE attrelid >= {FIRST_OBJECT_OF_USERS} AND attnum > 0 AND relpersistence <> 't'
        UNION ALL
        SELECT concat_ws(' ', 'default', adrelid, adnum, adbin)
        FROM pg_attrdef JOIN pg_class ON pg_class.oid = adrelid WHERE relpersistence <> 't'
        UNION ALL
        SELECT concat_ws(' ', 'trigger', tgrelid, tgname, tgfoid, tgenabled) FROM pg_trigger
        WHERE NOT tgisinternal
        UNION ALL
        SELECT concat_ws(' ', 'constraint', conrelid, conname, contype, convalidated, conkey, confrelid,
                         confkey, confdeltype, conbin)
        FROM pg_constraint WHERE oid >= {FIRST_OBJECT_OF_USERS}
            AND connamespace NOT IN (SELECT oid FROM pg_namespace WHERE nspname LIKE 'pg%')
        UNION ALL
        SELECT concat_ws(' ', 'proc', proname, prosrc, proacl) FROM pg_proc
        WHERE oid >= {FIRST_OBJECT_OF_USERS}
        UNION ALL
        SELECT concat_ws(' ', 'namespace', nspname, nspacl) FROM pg_namespace
        WHERE nspname NOT LIKE 'pg%'
        UNION ALL
        SELECT concat_ws(' ', 'acl', defaclobjtype, defaclacl) FROM pg_default_acl
        UNION ALL
        SELECT concat_ws(' ', 'database', datacl, setconfig) FROM pg_database
        LEFT JOIN pg_db_role_setting ON setdatabase = pg_database.oid
        WHERE datname = current_database()
        UNION ALL
        SELECT version_num FROM alembic_version
    ) AS parts
"""
# A table of more pages than the planner takes an empty one for, or one that was analysed, gets new
# files: for the next test it is as if nothing had ever been in it.
NON_EMPTY_TABLES = """
    SELECT quote_ident(relname), reltuples >= 0 OR pg_relation_size(oid)
        + coalesce(pg_relation_size(nullif(reltoastrelid, 0)), 0) > 10 * 8192
    FROM pg_class
    WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND pg_relation_size(oid) > 0
        AND relname <> 'alembic_version'
"""
CLIENT_NAME = "tests"
# The sessions of the client of a database, and whether nothing of a test is left in them.
CLIENT_SESSIONS = """
    SELECT state = 'idle' AND NOT EXISTS (
        SELECT FROM pg_locks WHERE pg_locks.pid = pg_stat_activity.pid AND locktype = 'advisory'
    )
    FROM pg_stat_activity WHERE datname = current_database() AND application_name = %s
"""
TERMINATE_OTHER_SESSIONS = """
    SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid() AND application_name <> %s
"""
RESTART_SEQUENCES = """
    SELECT setval(format('%I.%I', schemaname, sequencename), start_value, false)
    FROM pg_sequences WHERE last_value IS NOT NULL
"""
# Rows go in any order, and those that the service keeps for ever, too.
WITHOUT_TRIGGERS = "-c session_replication_role=replica -c lock_timeout=5s"

Session = psycopg.Connection[tuple[object, ...]]


@dataclass(slots=True)
class Databases:
    """The databases of one test process, each with a client, and with a session that empties it.

    Their sessions know the tables already: a new one takes longer to look at them than to empty them,
    and longer than many requests.
    """

    server_url: str
    superuser_url: str
    template: str
    prefix: str
    template_digest: str | None = None
    numbers: "count[int]" = field(default_factory=count)
    free: list[str] = field(default_factory=list)
    sessions: dict[str, Session] = field(default_factory=dict)
    clients: dict[str, Database] = field(default_factory=dict)

    def take(self) -> str:
        """The name of a migrated, empty database."""
        if self.free:
            return self.free.pop()
        name = f"{self.prefix}{next(self.numbers)}"
        drop_database(self.superuser_url, name)
        make_database(self.server_url, name, template=self.template)
        return name

    def give_back(self, name: str) -> None:
        """Empty a database for the next test, or drop it when more than its rows has changed."""
        try:
            emptied = self._empty(name)
        except psycopg.Error:
            emptied = False
        if emptied:
            self.free.append(name)
        else:
            self._close_sessions(name)
            drop_database(self.superuser_url, name)

    def client(self, name: str) -> Database:
        """The client of a database that was taken; its connections serve the next test, too."""
        if name not in self.clients:
            self.clients[name] = Database(self.url(name), pool_size=10, name=CLIENT_NAME)
        return self.clients[name]

    def close(self) -> None:
        """Leave every database. They stay: to drop one takes a checkpoint, and the server ends with the tests."""
        for name in {*self.sessions, *self.clients}:
            self._close_sessions(name)

    def url(self, name: str) -> str:
        return url_of(self.server_url, name)

    def _empty(self, name: str) -> bool:
        session = self._session(name)
        # A session with an open transaction or an advisory lock would reach into the next test.
        spared = CLIENT_NAME if self._is_client_unused(name, session) else ""
        session.execute(TERMINATE_OTHER_SESSIONS, [spared])
        if schema_digest(session) != self._template_digest():
            return False
        filled = session.execute(NON_EMPTY_TABLES).fetchall()
        with session.transaction():
            for table, is_large in filled:
                emptying = f"TRUNCATE {table} CASCADE" if is_large else f"DELETE FROM {table}"
                session.execute(emptying.encode())
            session.execute(RESTART_SEQUENCES)
        return True

    def _session(self, name: str) -> Session:
        if name not in self.sessions:
            self.sessions[name] = self._connect(name)
        return self.sessions[name]

    def _is_client_unused(self, name: str, session: Session) -> bool:
        """Whether no connection of the client is in use or lost; otherwise it closes all of them."""
        if name not in self.clients:
            return False
        pool = self.clients[name].engine.pool
        assert isinstance(pool, QueuePool)
        idle_states = session.execute(CLIENT_SESSIONS, [CLIENT_NAME]).fetchall()
        if pool.checkedout() or idle_states != [(True,)] * pool.checkedin():
            self.clients[name].dispose()
            return False
        return True

    def _close_sessions(self, name: str) -> None:
        if name in self.clients:
            self.clients.pop(name).dispose()
        if name in self.sessions:
            self.sessions.pop(name).close()

    def _connect(self, name: str) -> Session:
        url = url_of(self.superuser_url, name)
        return psycopg.connect(url, autocommit=True, options=WITHOUT_TRIGGERS)

    def _template_digest(self) -> str:
        if self.template_digest is None:
            with self._connect(self.template) as session:
                self.template_digest = schema_digest(session)
        return self.template_digest


def schema_digest(session: Session) -> str:
    """What a database is like, apart from its rows."""
    row = session.execute(SCHEMA_DIGEST).fetchone()
    assert row is not None
    return str(row[0])
