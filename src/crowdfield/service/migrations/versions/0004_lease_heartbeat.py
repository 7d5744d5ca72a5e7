"""Heartbeats are counters, so that no clock decides who is alive; failed fits are counted."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.create_table(
        "pulse",
        sa.Column("name", sa.String(64), primary_key=True),
        sa.Column("kind", sa.String(8), nullable=False),
        sa.Column("beat", sa.BigInteger, nullable=False),
        sa.Column("at", sa.Float(53), nullable=False),
        sa.Column("data", sa.JSON, nullable=False),
    )
    # Leases are about running processes, not about data: none needs to outlive an upgrade.
    op.drop_table("lease")
    op.create_table(
        "lease",
        sa.Column("situation", sa.String(64), sa.ForeignKey("situation.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("holder", sa.String(64), nullable=False),
    )
    op.add_column("situation", sa.Column("failures", sa.Integer, nullable=False, server_default="0"))
