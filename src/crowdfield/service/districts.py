"""Districts of a map: polygons that are stored with it, for figures and alerts."""

import gzip
import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import Engine, delete, insert, select

from crowdfield.service.database import writing
from crowdfield.service.store import InUse, Unknown
from crowdfield.service.tables import alert, district_set

if TYPE_CHECKING:
    from crowdfield.io.areas import NamedAreas

# The most areas in one set, and the most corners of all its areas together: enough for the simplified districts of a
# large country.
MOST_AREAS, MOST_CORNERS = 1000, 200_000
# The most sets of districts of one map.
MOST_SETS = 20


@dataclass(frozen=True)
class DistrictSet:
    """A stored set of districts without its polygons."""

    name: str
    created: float
    areas: int


class Districts:
    """The sets of districts of all maps."""

    def __init__(self, engine: Engine):
        self._engine = engine

    def all(self, situation: str) -> list[DistrictSet]:
        c = district_set.c
        query = select(c.name, c.created, c.areas).where(c.situation == situation).order_by(c.name)
        with self._engine.connect() as connection:
            return [DistrictSet(*row) for row in connection.execute(query)]

    def find(self, situation: str, name: str) -> DistrictSet:
        for one in self.all(situation):
            if one.name == name:
                return one
        raise Unknown(f"this map has no districts '{name}'; GET districts lists those there are")

    def load(self, situation: str, name: str) -> "NamedAreas":
        c = district_set.c
        with self._engine.connect() as connection:
            content = connection.execute(select(c.content).where(c.situation == situation, c.name == name)).scalar()
        if content is None:
            raise Unknown(f"this map has no districts '{name}'; GET districts lists those there are")
        return areas_of(json.loads(gzip.decompress(content)))

    def store(self, situation: str, name: str, content: dict[str, Any]) -> DistrictSet:
        """Store a set; it replaces one of the same name."""
        c, found = district_set.c, DistrictSet(name, time.time(), len(content["names"]))
        packed = gzip.compress(json.dumps(content).encode(), 6)
        with writing(self._engine) as connection:
            connection.execute(delete(district_set).where(c.situation == situation, c.name == name))
            if len(connection.execute(select(c.name).where(c.situation == situation)).all()) >= MOST_SETS:
                raise InUse(f"a map may have {MOST_SETS} sets of districts; remove one first")
            row = {"situation": situation, "name": name, "created": found.created, "areas": found.areas}
            connection.execute(insert(district_set).values(row | {"content": packed}))
        return found

    def remove(self, situation: str, name: str) -> None:
        c = district_set.c
        with writing(self._engine) as connection:
            used = select(alert.c.id).where(alert.c.situation == situation, alert.c.districts == name)
            if connection.execute(used).first() is not None:
                raise InUse("an alert is about these districts; remove the alert first")
            if not connection.execute(delete(district_set).where(c.situation == situation, c.name == name)).rowcount:
                raise Unknown(f"this map has no districts '{name}'")


def areas_of(content: dict[str, Any]) -> "NamedAreas":
    """Areas from the JSON that the box and the database contain. They are checked: the file may be hostile."""
    # Imported here: a server without districts does not need these libraries.
    import shapely

    from crowdfield.io.areas import NamedAreas
    from crowdfield.io.features.shapes import from_wkb

    names, texts = [str(name) for name in content["names"]], content["shapes"]
    shapes, kinds = from_wkb([bytes.fromhex(str(text)) for text in texts])
    if len(shapes) != len(names) or not set(kinds) <= {"Polygon", "MultiPolygon"} or shapely.is_missing(shapes).any():
        raise ValueError("some areas are not polygons")
    return NamedAreas(tuple(names), shapes, notes=tuple(str(note) for note in content["notes"]))
