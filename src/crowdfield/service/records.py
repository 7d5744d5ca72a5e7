"""What is stored about a live map: its settings, its versions and its events."""

import hashlib
from dataclasses import dataclass
from typing import Any

from crowdfield.data import Grid, Region
from crowdfield.data.grade_order import order_of
from crowdfield.data.positive import decide, scale_name

# The key in the info of a version for the layout of the map that it belongs to.
LAYOUT = "layout"
# And the key that says whether its cells with reports show what was reported in them, or the field.
SHOWS_REPORTS = "shows_reports"


def _tag(layout: list[Any]) -> str:
    return hashlib.sha256(repr(layout).encode()).hexdigest()[:12]


@dataclass(frozen=True)
class Situation:
    """A map with its own states, labels, region, grid and priors."""

    id: str
    title: str
    states: tuple[str, ...]
    labels: tuple[str, ...]
    region: Region
    crs: str
    extent: tuple[float, float, float, float]
    columns: int
    rows: int
    model: dict[str, Any]
    created: float
    head: int = 0
    failure: str | None = None
    failed: float | None = None
    failures: int = 0
    numbered: int = 0

    @property
    def archived(self) -> bool:
        return bool(self.model.get("archived"))

    @property
    def access(self) -> str:
        """Who may see the map: `public` means everybody who may read, `keys` only those who have a key for it,
        `trusted` only those who may also see its reports."""
        return str(self.model.get("access", "public"))

    @property
    def private(self) -> bool:
        """Whether everybody who may see the map may see its reports, so that the map need hide nothing about them."""
        return self.access == "trusted"

    @property
    def exact_places(self) -> bool:
        """Whether a fit uses the exact places of reports, or only their cells. Exact places can be computed from a map
        that was fitted to them, so by default only private maps are."""
        # Situations that were started before this option existed use exact places.
        said = self.model.get("places", "exact")
        return self.private if said == "auto" else said == "exact"

    @property
    def moving(self) -> bool:
        """Whether the state of a place changes over time, so that fits use the times of events."""
        return bool(self.model.get("moving"))

    @property
    def grades(self) -> tuple[str, ...] | None:
        """The states if they are grades, from the least to the worst: by their words, or as it was said."""
        known = (self.model.get("grades"), order_of(self.states))
        return next((self.states for order in known if order and tuple(order) == self.states), None)

    @property
    def layout(self) -> list[Any]:
        """What the versions of a map belong to: its reference system, its grid, and whether it is private. No version
        that was made before a change of these may be shown after it."""
        return [*self._cells, *(["private"] if self.private else [])]

    @property
    def layout_tag(self) -> str:
        """A short hash of the layout, for URLs that may be cached forever."""
        return _tag(self.layout)

    @property
    def cells_tag(self) -> str:
        """A short hash of the reference system and the grid alone, for what does not depend on who may see the map."""
        return _tag(self._cells)

    @property
    def _cells(self) -> list[Any]:
        return [self.crs, *self.extent, self.columns, self.rows]

    @property
    def positive(self) -> str:
        """The state that the map is about: the one that was chosen, else by the rule of `crowdfield.data.positive`."""
        said = self.model.get("positive")
        return str(decide(self.states, given=said if said in self.states else None).state)

    @property
    def question(self) -> str:
        """The state that fits are about: of two states they expect it to be the rarer. It is the one that the map was
        about when it was started, so that another choice of what is shown first changes no probability."""
        said = self.model.get("question")
        return str(decide(self.states, given=said if said in self.states else None).state)

    @property
    def scales(self) -> list[str]:
        """The colour scale of each state: the one that was chosen, else by the state that the map is about. With two
        states a place has the same colour whichever state is shown, so a choice for one applies to both."""
        chosen = dict(self.model.get("colours", {}))
        if len(self.states) == 2 and len(chosen) == 1:
            ((state, scale),) = chosen.items()
            (other,) = set(self.states) - {state}
            end = "-reversed"
            chosen[other] = scale.removesuffix(end) if scale.endswith(end) else scale + end
        return [chosen.get(state) or scale_name(self.states, self.positive, state) for state in self.states]

    @property
    def grid(self) -> Grid:
        return Grid(*self.extent, self.columns, self.rows, self.crs)


@dataclass(frozen=True)
class VersionInfo:
    """The description of a map version, without its arrays."""

    situation: str
    number: int
    head: int
    reports: int
    created: float
    seconds: float
    info: dict[str, Any]


@dataclass(frozen=True)
class Published:
    """A fitted map, ready to be stored."""

    head: int
    reports: int
    seconds: float
    arrays: bytes
    sources: list[dict[str, Any]]
    suggestions: list[dict[str, Any]]
    info: dict[str, Any]
    model: bytes


@dataclass(frozen=True)
class Event:
    """An event of a map, as streams send it."""

    id: int
    situation: str
    kind: str
    data: dict[str, Any]
