"""Which tables and sequences of a database are ours."""

from collections.abc import Iterable
from typing import Any, Final, TypeAlias

import psycopg

from mosaico.core.migrations import JOB_ENGINE_PREFIX

Connection: TypeAlias = "psycopg.Connection[Any]"

# The migrations write it.
REVISION_TABLE: Final = "alembic_version"

_TABLES: Final = """
    SELECT relname FROM pg_class
    WHERE relnamespace = to_regnamespace(current_schema()) AND relkind IN ('r', 'p') ORDER BY relname
"""
# The values of generated columns follow from the others.
_COLUMNS: Final = """
    SELECT attname FROM pg_attribute
    WHERE attrelid = to_regclass(quote_ident(%s)) AND attnum > 0 AND NOT attisdropped AND attgenerated = ''
    ORDER BY attnum
"""
# Those of identity columns and of serial ones; one that was never used has no last value.
_SEQUENCES: Final = """
    SELECT sequencename, last_value FROM pg_sequences
    WHERE schemaname = current_schema() AND last_value IS NOT NULL AND EXISTS (
        SELECT FROM pg_depend
        JOIN pg_class AS owner ON owner.oid = refobjid
        WHERE objid = format('%%I.%%I', schemaname, sequencename)::regclass AND deptype IN ('a', 'i')
            AND classid = 'pg_class'::regclass AND refclassid = 'pg_class'::regclass AND owner.relname = ANY(%s)
    )
    ORDER BY sequencename
"""


def list_own_tables(connection: Connection, names: Iterable[str]) -> tuple[list[str], list[str]]:
    """The tables of the schema that are ours, by these names, and those of other programs."""
    known = frozenset(names)
    present = [str(row[0]) for row in connection.execute(_TABLES) if row[0] != REVISION_TABLE]
    own = [name for name in present if name in known or name.startswith(JOB_ENGINE_PREFIX)]
    return own, [name for name in present if name not in own]


def list_columns(connection: Connection, table: str) -> tuple[str, ...]:
    """The columns of a table that COPY writes and reads."""
    return tuple(str(row[0]) for row in connection.execute(_COLUMNS, [table]))


def last_sequence_values(connection: Connection, tables: list[str]) -> dict[str, int]:
    """The last value of each sequence of these tables that was used, by its name."""
    return {str(name): int(value) for name, value in connection.execute(_SEQUENCES, [tables])}
