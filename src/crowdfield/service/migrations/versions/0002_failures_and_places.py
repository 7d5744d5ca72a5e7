"""A failed fit is kept beside the last good map; reports are found by place through an index."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.add_column("situation", sa.Column("failure", sa.Text))
    op.add_column("situation", sa.Column("failed", sa.Float(53)))
    op.create_index("entry_by_place", "entry", ["situation", "longitude", "latitude"])
