"""Reports may say how exactly their places are known."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    op.add_column("entry", sa.Column("accuracy", sa.Float(53)))
