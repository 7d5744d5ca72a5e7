"""The region of a map can be changed: its versions go, and the numbers that they had are not used again.

Maps that were started with an inference that no live map can use never got a version; they get the default now.
"""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

situation = sa.table("situation", sa.column("id", sa.String), sa.column("model", sa.JSON))


def upgrade() -> None:
    op.add_column("situation", sa.Column("numbered", sa.Integer, nullable=False, server_default="0"))
    connection = op.get_bind()
    for name, model in connection.execute(sa.select(situation.c.id, situation.c.model)).all():
        if model.get("inference") == "gibbs":
            changed = sa.update(situation).where(situation.c.id == name).values(model=model | {"inference": "auto"})
            connection.execute(changed)
