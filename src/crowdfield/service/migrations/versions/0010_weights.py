"""What each cell of a map counts for in figures of districts."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    op.create_table(
        "weights",
        sa.Column("situation", sa.String(64), sa.ForeignKey("situation.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("created", sa.Float(53), nullable=False),
        sa.Column("layout", sa.String(16), nullable=False),
        sa.Column("total", sa.Float(53), nullable=False),
        sa.Column("content", sa.LargeBinary, nullable=False),
    )
