"""Weights of a map: how many people, households, … each cell counts for in figures of districts, from a raster.

Only the sum of each cell is stored, not the raster. The sums belong to one layout: after a change of the region the
raster has to be uploaded again; until then figures count square kilometres, and a note says why.
"""

import gzip
import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Engine, delete, insert, select

from crowdfield.service.database import writing
from crowdfield.service.records import Situation
from crowdfield.service.store import Unknown
from crowdfield.service.tables import weights

# The type of amounts in the database.
KEPT_AS = "<f8"
NO_WEIGHTS = "this map has no weights; its figures count square kilometres"


@dataclass(frozen=True)
class StoredWeights:
    """Weights of a map without the amounts of its cells."""

    name: str
    created: float
    layout: str
    total: float

    def fits(self, situation: Situation) -> bool:
        """Whether they belong to the current cells of the map."""
        return self.layout in _tags(situation)

    @property
    def outdated(self) -> str:
        """The note for weights that do not belong to the current cells."""
        return (
            f"the region of this map was changed after the weights '{self.name}' were uploaded: "
            "amounts are in square kilometres until the weights are uploaded again"
        )


def _tags(situation: Situation) -> tuple[str, str]:
    """What weights of the current cells were stored with. Those of private maps once had the tag of the layout."""
    return situation.cells_tag, situation.layout_tag


@dataclass(frozen=True, eq=False)
class CellWeights:
    """The weight of each cell, and its unit."""

    name: str
    amounts: NDArray[np.float64]  # [rows * columns], NaN where the raster does not reach


class Weights:
    """The weights of all maps."""

    def __init__(self, engine: Engine):
        self._engine = engine

    def find(self, situation: str) -> StoredWeights | None:
        c = weights.c
        query = select(c.name, c.created, c.layout, c.total).where(c.situation == situation)
        with self._engine.connect() as connection:
            row = connection.execute(query).first()
        return None if row is None else StoredWeights(*row)

    def created(self, situation: str) -> float | None:
        """When the current weights were stored, which distinguishes them from earlier ones; None without weights."""
        found = self.find(situation)
        return None if found is None else found.created

    def load(self, situation: Situation) -> CellWeights | None:
        """The weights of a map, if there are any for its current cells."""
        c = weights.c
        query = select(c.name, c.content).where(c.situation == situation.id, c.layout.in_(_tags(situation)))
        with self._engine.connect() as connection:
            row = connection.execute(query).first()
        if row is None:
            return None
        return CellWeights(row.name, np.frombuffer(gzip.decompress(row.content), dtype=KEPT_AS))

    def store(self, situation: Situation, name: str, amounts: NDArray[np.float64]) -> StoredWeights:
        """Store weights; they replace earlier ones of the map."""
        found = StoredWeights(name, time.time(), situation.cells_tag, float(np.nansum(amounts)))
        row = {"situation": situation.id, "name": name, "created": found.created, "layout": found.layout}
        row |= {"total": found.total, "content": gzip.compress(amounts.astype(KEPT_AS).tobytes(), 6)}
        with writing(self._engine) as connection:
            connection.execute(delete(weights).where(weights.c.situation == situation.id))
            connection.execute(insert(weights).values(row))
        return found

    def remove(self, situation: str) -> None:
        with writing(self._engine) as connection:
            if not connection.execute(delete(weights).where(weights.c.situation == situation)).rowcount:
                raise Unknown(NO_WEIGHTS)
