"""A report may stand for several looks: "seen by 12"."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    op.add_column("entry", sa.Column("looks", sa.Integer))
