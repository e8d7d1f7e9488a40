"""Migrated databases that one test leaves to the next, emptied: copying one costs more than most
tests do.
"""

from dataclasses import dataclass, field
from itertools import count

import psycopg

from tests.support.postgres import drop_database, make_database, url_of

# Everything that a test may have changed beside rows; a database that differs is thrown away.
SHAPE = """
    SELECT md5(string_agg(part, ',' ORDER BY part)) FROM (
        SELECT concat_ws(' ', relnamespace::regnamespace, relname, relkind, relowner, relacl,
                         relrowsecurity) AS part
        FROM pg_class WHERE relnamespace::regnamespace::text NOT LIKE 'pg%'
        UNION ALL
        SELECT concat_ws(' ', attrelid::regclass, attname, atttypid, attnotnull, attacl)
        FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
        WHERE attnum > 0 AND NOT attisdropped AND relnamespace::regnamespace::text NOT LIKE 'pg%'
        UNION ALL
        SELECT concat_ws(' ', tgrelid::regclass, tgname, tgenabled) FROM pg_trigger
        WHERE NOT tgisinternal
        UNION ALL
        SELECT concat_ws(' ', conrelid::regclass, conname, pg_get_constraintdef(oid))
        FROM pg_constraint WHERE connamespace::regnamespace::text NOT LIKE 'pg%'
        UNION ALL
        SELECT concat_ws(' ', proname, md5(prosrc), proacl) FROM pg_proc
        WHERE pronamespace::regnamespace::text NOT LIKE 'pg%'
        UNION ALL
        SELECT concat_ws(' ', nspname, nspacl) FROM pg_namespace WHERE nspname NOT LIKE 'pg%'
        UNION ALL
        SELECT concat_ws(' ', defaclobjtype, defaclacl) FROM pg_default_acl
        UNION ALL
        SELECT concat_ws(' ', datacl, setconfig) FROM pg_database
        LEFT JOIN pg_db_role_setting ON setdatabase = pg_database.oid
        WHERE datname = current_database()
        UNION ALL
        SELECT version_num FROM alembic_version
    ) AS parts
"""
TABLES = """
    SELECT quote_ident(tablename) FROM pg_tables
    WHERE schemaname = 'public' AND tablename <> 'alembic_version'
"""
END_OTHERS = """
    SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid() AND usename = current_user
"""
RESTART_SEQUENCES = """
    SELECT setval(format('%I.%I', schemaname, sequencename), start_value, false)
    FROM pg_sequences WHERE last_value IS NOT NULL
"""


@dataclass(slots=True)
class Databases:
    """The databases of one test process."""

    server_url: str
    template: str
    prefix: str
    shape: str | None = None
    numbers: "count[int]" = field(default_factory=count)
    free: list[str] = field(default_factory=list)

    def take(self) -> str:
        """The name of a migrated, empty database."""
        if self.free:
            return self.free.pop()
        name = f"{self.prefix}{next(self.numbers)}"
        drop_database(self.server_url, name)
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
            drop_database(self.server_url, name)

    def url(self, name: str) -> str:
        return url_of(self.server_url, name)

    def _empty(self, name: str) -> bool:
        with psycopg.connect(self.url(name), autocommit=True) as connection:
            connection.execute(END_OTHERS)
            if shape_of(connection) != self._template_shape():
                return False
            connection.execute("SET lock_timeout = '5s'")
            tables = [str(row[0]) for row in connection.execute(TABLES)]
            each = " UNION ALL ".join(
                f"SELECT '{table}' WHERE EXISTS (SELECT FROM {table})" for table in tables
            )
            filled = [str(row[0]) for row in connection.execute(each.encode())]
            with connection.transaction():
                # Its owner may; what the service itself may is another test's business.
                connection.execute("ALTER TABLE audit_log DISABLE TRIGGER USER")
                if filled:
                    truncate = f"TRUNCATE {', '.join(filled)} RESTART IDENTITY CASCADE"
                    connection.execute(truncate.encode())
                connection.execute("ALTER TABLE audit_log ENABLE TRIGGER USER")
            connection.execute(RESTART_SEQUENCES)
        return True

    def _template_shape(self) -> str:
        if self.shape is None:
            with psycopg.connect(self.url(self.template), autocommit=True) as connection:
                self.shape = shape_of(connection)
        return self.shape


def shape_of(connection: "psycopg.Connection[tuple[object, ...]]") -> str:
    """What a database is like, apart from its rows."""
    row = connection.execute(SHAPE).fetchone()
    assert row is not None
    return str(row[0])
