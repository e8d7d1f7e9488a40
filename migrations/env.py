"""How Alembic reaches the database: the address comes from the caller or from DATABASE_URL."""

import os
from contextlib import nullcontext

from alembic import context
from sqlalchemy import create_engine, pool, text

from mosaico.core.engine import sqlalchemy_url
from mosaico.core.migrations import (
    HEAD_REVISION,
    require_known_revision,
    require_own_tables,
    take_over_last_schema,
)
from mosaico.row_policies import install_policies, remove_policies
from mosaico.table_list import METADATA

# Two processes that migrate at once take turns; the second finds nothing to do.
MIGRATION_LOCK = 0x4D4F5342


def include_object(
    _item: object,
    name: str | None,
    kind: str,
    _reflected: bool,
    _compared: object,
) -> bool:
    """Leave the job engine's own tables alone."""
    return not (kind == "table" and (name or "").startswith("procrastinate_"))


def run() -> None:
    url = context.config.attributes.get("url") or sqlalchemy_url(os.environ["DATABASE_URL"])
    engine = create_engine(url, poolclass=pool.NullPool, hide_parameters=True)
    # A restore migrates within its own transaction.
    given = context.config.attributes.get("connection")
    with engine.connect() if given is None else nullcontext(given) as connection:
        context.configure(
            connection=connection,
            target_metadata=METADATA,
            include_object=include_object,
            compare_type=True,
            compare_server_default=False,
        )
        with context.begin_transaction():
            # A role may have limits for the service; an index of a large table takes longer.
            connection.execute(text("SET LOCAL statement_timeout = 0"))
            connection.execute(text("SET LOCAL lock_timeout = 0"))
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": MIGRATION_LOCK})
            # With the lock: what another process migrates meanwhile is ours.
            require_own_tables(connection, METADATA)
            require_known_revision(connection)
            if context.config.attributes.get("only_check"):
                return
            take_over_last_schema(connection)
            remove_policies(connection)
            context.run_migrations()
            # Older revisions lack tables.
            if context.get_context().get_current_revision() == HEAD_REVISION:
                install_policies(connection)


run()
