"""Keys get rights of their own: until when, for which maps, in whose name; and a prefix for the ids of their reports.

Keys made before keep what they could do: they never expire, are for all maps, may report in any name, and share one
space of report ids, so that what they sent before is known again when they send it once more.
"""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.add_column("api_key", sa.Column("expires", sa.Float(53)))
    op.add_column("api_key", sa.Column("maps", sa.JSON))
    op.add_column("api_key", sa.Column("any_source", sa.Boolean, nullable=False, server_default=sa.true()))
    op.add_column("api_key", sa.Column("origin", sa.String(32), nullable=False, server_default=""))
