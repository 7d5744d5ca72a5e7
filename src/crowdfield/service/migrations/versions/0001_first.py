"""The first tables. Written out, not taken from `tables`: a migration must not change when the code does."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

SEQUENCE = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def of_situation(**options: Any) -> sa.Column[str]:
    return sa.Column("situation", sa.String(64), sa.ForeignKey("situation.id", ondelete="CASCADE"), **options)


def upgrade() -> None:
    op.create_table(
        "situation",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("title", sa.Text, nullable=False),
        sa.Column("states", sa.JSON, nullable=False),
        sa.Column("labels", sa.JSON, nullable=False),
        sa.Column("region", sa.JSON, nullable=False),
        sa.Column("crs", sa.Text, nullable=False),
        sa.Column("extent", sa.JSON, nullable=False),
        sa.Column("columns", sa.Integer, nullable=False),
        sa.Column("rows", sa.Integer, nullable=False),
        sa.Column("model", sa.JSON, nullable=False),
        sa.Column("created", sa.Float, nullable=False),
        sa.Column("head", sa.BigInteger, nullable=False, server_default="0"),
    )
    op.create_table(
        "entry",
        sa.Column("seq", SEQUENCE, primary_key=True, autoincrement=True),
        of_situation(nullable=False),
        sa.Column("kind", sa.String(8), nullable=False),
        sa.Column("id", sa.String(200), nullable=False),
        sa.Column("longitude", sa.Float(53)),
        sa.Column("latitude", sa.Float(53)),
        sa.Column("label", sa.String(200)),
        sa.Column("source", sa.String(200)),
        sa.Column("time", sa.Float(53)),
        sa.Column("text", sa.Text),
        sa.Column("value", sa.JSON),
        sa.Column("received", sa.Float(53), nullable=False),
        sa.Column("author", sa.String(32)),
        sa.UniqueConstraint("situation", "kind", "id", name="entry_once"),
        sqlite_autoincrement=True,
    )
    op.create_index("entry_by_situation", "entry", ["situation", "seq"])
    op.create_table(
        "version",
        of_situation(primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("head", sa.BigInteger, nullable=False),
        sa.Column("reports", sa.Integer, nullable=False),
        sa.Column("created", sa.Float(53), nullable=False),
        sa.Column("seconds", sa.Float, nullable=False),
        sa.Column("arrays", sa.LargeBinary, nullable=False),
        sa.Column("sources", sa.JSON, nullable=False),
        sa.Column("suggestions", sa.JSON, nullable=False),
        sa.Column("info", sa.JSON, nullable=False),
    )
    op.create_table(
        "state",
        of_situation(primary_key=True),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("head", sa.BigInteger, nullable=False),
        sa.Column("model", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "event",
        sa.Column("id", SEQUENCE, primary_key=True, autoincrement=True),
        of_situation(nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("data", sa.JSON, nullable=False),
        sa.Column("at", sa.Float(53), nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "lease",
        of_situation(primary_key=True),
        sa.Column("holder", sa.String(64), nullable=False),
        sa.Column("until", sa.Float(53), nullable=False),
    )
    op.create_table(
        "api_key",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("name", sa.String(100), nullable=False),
        sa.Column("role", sa.String(16), nullable=False),
        sa.Column("created", sa.Float(53), nullable=False),
        sa.Column("revoked", sa.Boolean, nullable=False, server_default=sa.false()),
    )
    op.create_table(
        "secret",
        sa.Column("name", sa.String(32), primary_key=True),
        sa.Column("value", sa.String(128), nullable=False),
    )
