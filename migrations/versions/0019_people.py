"""People who log in with a provider: their sessions, and the keys that belong to them."""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "people",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("issuer", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("email", sa.Text()),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("last_login_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("blocked_at", sa.DateTime(timezone=True)),
        sa.CheckConstraint("role IN ('read', 'run', 'admin')", name=op.f("ck_people_role")),
        sa.PrimaryKeyConstraint("id", name="pk_people"),
        sa.UniqueConstraint("issuer", "subject", name="uq_people_issuer_subject"),
    )
    op.create_index("ix_people_created_at_id", "people", ["created_at", "id"])
    op.add_column("api_keys", sa.Column("person_id", sa.Text()))
    op.create_foreign_key(
        "fk_api_keys_person_id_people",
        "api_keys",
        "people",
        ["person_id"],
        ["id"],
        ondelete="CASCADE",
    )
    op.create_index("ix_api_keys_person_id", "api_keys", ["person_id"])
    op.alter_column("browser_sessions", "api_key_id", nullable=True)
    op.add_column("browser_sessions", sa.Column("person_id", sa.Text()))
    op.add_column("browser_sessions", sa.Column("provider_session", sa.Text()))
    op.create_foreign_key(
        "fk_browser_sessions_person_id_people",
        "browser_sessions",
        "people",
        ["person_id"],
        ["id"],
        ondelete="CASCADE",
    )
    op.create_index("ix_browser_sessions_person_id", "browser_sessions", ["person_id"])
    op.create_index(
        "ix_browser_sessions_provider_session", "browser_sessions", ["provider_session"]
    )
    op.create_check_constraint(
        op.f("ck_browser_sessions_one_owner"),
        "browser_sessions",
        "num_nonnulls(api_key_id, person_id) = 1",
    )


def downgrade() -> None:
    op.execute("DELETE FROM browser_sessions WHERE person_id IS NOT NULL")
    op.drop_constraint(op.f("ck_browser_sessions_one_owner"), "browser_sessions")
    op.drop_column("browser_sessions", "provider_session")
    op.drop_column("browser_sessions", "person_id")
    op.alter_column("browser_sessions", "api_key_id", nullable=False)
    op.drop_column("api_keys", "person_id")
    op.drop_table("people")
