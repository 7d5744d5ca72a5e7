"""Regions change from west, east, south, north to west, south, east, north: the order of GeoJSON and of the API."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

situation = sa.table("situation", sa.column("id", sa.String), sa.column("region", sa.JSON))


def upgrade() -> None:
    connection = op.get_bind()
    for name, (west, east, south, north) in connection.execute(sa.select(situation.c.id, situation.c.region)).all():
        changed = sa.update(situation).where(situation.c.id == name).values(region=[west, south, east, north])
        connection.execute(changed)
