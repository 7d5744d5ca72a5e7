"""Districts of a map, alerts about them, and the messages that alerts send."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    op.create_table(
        "district_set",
        sa.Column("situation", sa.String(64), sa.ForeignKey("situation.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("name", sa.String(64), primary_key=True),
        sa.Column("created", sa.Float(53), nullable=False),
        sa.Column("areas", sa.Integer, nullable=False),
        sa.Column("content", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "alert",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("situation", sa.String(64), sa.ForeignKey("situation.id", ondelete="CASCADE"), nullable=False),
        sa.Column("districts", sa.String(64), nullable=False),
        sa.Column("area", sa.String(200)),
        sa.Column("state", sa.String(200), nullable=False),
        sa.Column("probability", sa.Float(53), nullable=False),
        sa.Column("share", sa.Float(53), nullable=False),
        sa.Column("clear", sa.Float(53), nullable=False),
        sa.Column("webhook", sa.Text),
        sa.Column("email", sa.Text),
        sa.Column("secret", sa.String(128), nullable=False),
        sa.Column("created", sa.Float(53), nullable=False),
        sa.Column("seen", sa.Integer, nullable=False, server_default="0"),
    )
    op.create_table(
        "alert_area",
        sa.Column("alert", sa.String(32), sa.ForeignKey("alert.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("area", sa.String(200), primary_key=True),
        sa.Column("raised", sa.Boolean, nullable=False),
        sa.Column("share", sa.Float(53), nullable=False),
        sa.Column("since", sa.Float(53), nullable=False),
    )
    op.create_table(
        "delivery",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("alert", sa.String(32), sa.ForeignKey("alert.id", ondelete="CASCADE"), nullable=False),
        sa.Column("body", sa.JSON, nullable=False),
        sa.Column("created", sa.Float(53), nullable=False),
        sa.Column("due", sa.Float(53), nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False, server_default="0"),
        sa.Column("state", sa.String(8), nullable=False),
        sa.Column("error", sa.Text),
    )
    op.create_index("delivery_due", "delivery", ["state", "due"])
