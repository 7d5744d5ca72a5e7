"""The bodies of requests and answers. Bounds are part of the types, so that validated values are safe to use."""

import math
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    field_validator,
    model_validator,
)

from crowdfield.data.columns import SUM_TOLERANCE
from crowdfield.data.region import ORDER, Region, parse_region
from crowdfield.errors import InputError

MOST_STATES = 12
Number = Annotated[float, Field(allow_inf_nan=False)]
Longitude = Annotated[float, Field(ge=-180, le=180, allow_inf_nan=False)]
Latitude = Annotated[float, Field(ge=-90, le=90, allow_inf_nan=False)]
Slug = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$", description="lowercase letters, digits and hyphens")]


def _printable(value: str) -> str:
    # Control characters make no sense in a name, and PostgreSQL refuses the null character.
    if any(ord(c) < 32 or ord(c) == 127 for c in value):
        raise ValueError("must not contain control characters")
    return value


def _clean(value: str) -> str:
    return "".join(c for c in value if c in "\n\t" or ord(c) >= 32)


Name = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_printable)]
Prose = Annotated[str, Field(max_length=5000), AfterValidator(_clean)]


def parse_time(text: str) -> float:
    """Seconds since 1970 of an ISO 8601 time; a time without a zone is in UTC."""
    try:
        moment = datetime.fromisoformat(text.strip())
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise ValueError("must be an ISO 8601 time such as 2026-11-15T21:30:00Z, or seconds since 1970") from None


def _seconds(value: Any) -> Any:
    return parse_time(value) if isinstance(value, str) else value


Time = Annotated[
    Annotated[float, Field(ge=-62_135_596_800, le=253_402_300_799, allow_inf_nan=False)],
    BeforeValidator(_seconds, json_schema_input_type=str | float),
]


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Edges(Strict):
    """A region as an object with named bounds, instead of a list."""

    west: Longitude
    south: Latitude
    east: Longitude
    north: Latitude


# The smallest extent of a region, about a metre.
SMALLEST_DEGREES = 1e-5


def _region(value: Any) -> Region:
    edges = list(value.values()) if isinstance(value, dict) else value
    if not isinstance(edges, list | tuple) or any(type(edge) not in (int, float) for edge in edges):
        raise ValueError(f"a region must be a list of four numbers, {ORDER} in degrees, or an object that names them")
    try:
        region = parse_region(value)
    except InputError as error:
        raise ValueError(str(error)) from None
    if max(edges) > 180:
        raise ValueError(f"longitudes must be between -180 and 180 degrees. The order is {ORDER}.")
    if region.width < SMALLEST_DEGREES or region.north - region.south < SMALLEST_DEGREES:
        raise ValueError("the region is too small for a map")
    return region


RegionIn = Annotated[
    Region,
    PlainValidator(_region, json_schema_input_type=tuple[Longitude, Latitude, Longitude, Latitude] | Edges),
    Field(
        description="west, south, east, north in degrees (the order of GeoJSON), or an object that names the four; "
        "a region with west greater than east crosses the antimeridian"
    ),
]


# The most observations that one report may stand for.
MOST_OBSERVATIONS_PER_REPORT = 100_000
# In metres: no two places on Earth are farther apart.
FARTHEST = 2.1e7


class ReportIn(BaseModel):
    """One report. All other fields, such as contacts, are dropped and never stored."""

    model_config = ConfigDict(extra="ignore")
    longitude: Longitude = Field(validation_alias=AliasChoices("longitude", "lon", "lng"))
    latitude: Latitude = Field(validation_alias=AliasChoices("latitude", "lat"))
    label: Name
    source: Name | None = None
    time: Time | None = None
    text: Prose | None = None
    id: Name | None = None
    accuracy: Annotated[float, Field(ge=0, le=FARTHEST, allow_inf_nan=False)] | None = Field(
        None,
        description="the accuracy of the place: the radius in metres that contains the true place with a probability "
        "of 68 %, as phones report it",
    )
    count: Annotated[int, Field(ge=1, le=MOST_OBSERVATIONS_PER_REPORT)] | None = Field(
        None,
        description="how many observations the report stands for, as in 'seen by 12'; more than one needs a key that "
        "may report as others",
    )
    scores: dict[Name, Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]] | None = Field(
        None,
        description="the probability of every state of the map, as a classifier gives them; their sum is 1. How much "
        "they count depends on how reliable the source is (docs/scores.md)",
        max_length=MOST_STATES,
    )
    trusted: bool = False
    """Count the report as certain; only for trusted keys."""

    @field_validator("scores")
    @classmethod
    def _probabilities(cls, scores: dict[str, float] | None) -> dict[str, float] | None:
        if scores is not None and abs(sum(scores.values()) - 1.0) > SUM_TOLERANCE:
            raise ValueError(f"the sum of the probabilities must be 1, not {sum(scores.values()):.3g}")
        return scores


class Rejected(BaseModel):
    row: int = Field(
        description="its position, counted from 1: the line of a table (the header is line 1), the number of a feature "
        "in other files, or the position in a list"
    )
    reason: str


class Receipt(BaseModel):
    """The outcome of sending reports. Reports that count as stored are durable."""

    stored: int = 0
    duplicate: int = 0
    conflict: int = Field(0, description="another report is stored under the same id")
    retracted: int = Field(0, description="a report with this id was retracted, so the id cannot be used again")
    rejected: int = 0
    ids: list[str] = Field(default_factory=list, description="the ids of the reports; empty if there are many")
    rejects: list[Rejected] = Field(default_factory=list, description="the first hundred")
    outside: int = Field(0, description="how many of the rejected reports lie outside the region of the map")
    note: str | None = None


def _live(inference: Any) -> Any:
    if inference == "gibbs":
        raise ValueError(
            "gibbs is too slow for a live map: it draws thousands of samples, and cannot be updated with new reports; "
            "use auto, collapsed or vb"
        )
    return inference


Silence = Annotated[
    float,
    Field(
        gt=0,
        le=1000,
        description="if all reports say the same, each cell without reports counts as a weak report of the opposite; "
        "this is the number of reports to expect from a cell where the label is true",
    ),
]


Places = Literal["auto", "cell", "exact"]
PLACES = (
    "what a fit uses of the place of a report: `cell` only its cell, so that no map reveals where in the cell it was "
    "made; `exact` the place itself, as `crowdfield fuse` does; `auto` means `exact` if `access` is `trusted`, so "
    "that only those who may see the reports may see the map, else `cell`"
)


MOVING = (
    "whether the state of a place changes over time, as in a flood that moves: the map then uses the times of events, "
    "shows the newest moment, and can be asked about earlier ones (`moment`)"
)
GRADES_WITHOUT_ORDER = "On a map that moves, grades are read as states without an order."
NO_SILENCE_IN_TIME = "silence cannot count on a map that moves: nobody knows at which time a place was silent"


class ModelOptions(Strict):
    """How the map is computed; every field has a sensible default."""

    lengthscale: Annotated[float, Field(gt=0, le=2e7, allow_inf_nan=False)] | Literal["learn"] | None = Field(
        None, description="the distance in metres over which the map varies; learned by default"
    )
    kernel: Literal["matern12", "matern32", "matern52", "rbf"] = "matern32"
    inference: Annotated[Literal["auto", "vb", "collapsed"], BeforeValidator(_live)] = "auto"
    communities: Annotated[int, Field(ge=1, le=20)] | Literal["learn"] | None = None
    confusion_prior: list[list[Annotated[float, Field(gt=0, le=1e6)]]] | None = Field(
        None, description="the prior confusion matrix of every source, as counts [states][labels]"
    )
    silence: Silence | None = None
    grades: list[Name] | None = Field(
        None, max_length=MOST_STATES, description="all states from the least to the worst; by their words if not given"
    )
    places: Places = Field("auto", description=PLACES)
    moving: bool = Field(False, description=MOVING)

    @model_validator(mode="after")
    def _silence_of_space(self) -> "ModelOptions":
        if self.moving and self.silence is not None:
            raise ValueError(NO_SILENCE_IN_TIME)
        return self


Scale = Literal["plain", "water", "harm", "plain-reversed", "water-reversed", "harm-reversed"]
Access = Literal["public", "keys", "trusted"]
ACCESS = (
    "who may see the map: `public` means everybody who may read, `keys` only those who have a key for it, `trusted` "
    "only those who may also see its reports (keys for it with the role trusted or admin)"
)
COLOURS = "the colour scale of each state; by default it is chosen by the words of the states"


class NewSituation(Strict):
    id: Slug
    title: Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_printable)]
    states: list[Name] = Field(
        min_length=2,
        max_length=MOST_STATES,
        description="the possible states of a place; the map is about the last one if their words do not tell",
    )
    positive: Name | None = Field(
        None,
        description="the state that the map is about, shown first; chosen by the words of the states by default",
    )
    labels: list[Name] | None = Field(
        None, min_length=2, max_length=24, description="what reports can say; the states by default"
    )
    access: Access = Field("public", description=ACCESS)
    colours: dict[Name, Scale] = Field(default_factory=dict, max_length=MOST_STATES, description=COLOURS)
    region: RegionIn
    columns: int = Field(128, ge=4, le=1024)
    rows: int | None = Field(None, ge=4, le=1024, description="chosen so that cells are square by default")
    model: ModelOptions = ModelOptions()

    @model_validator(mode="after")
    def _consistent(self) -> "NewSituation":
        for name, values in (("states", self.states), ("labels", self.labels or [])):
            if len(set(values)) != len(values):
                raise ValueError(f"{name} must differ from each other")
        if self.positive is not None and self.positive not in self.states:
            raise ValueError(f"positive must be one of the states: {', '.join(self.states)}")
        if not set(self.colours) <= set(self.states):
            raise ValueError(f"colours are of states: {', '.join(self.states)}")
        if self.model.grades is not None and sorted(self.model.grades) != sorted(self.states):
            raise ValueError(f"grades are all of the states, each once: {', '.join(self.states)}")
        prior = self.model.confusion_prior
        if prior is not None:
            width = len(self.labels or self.states)
            if len(prior) != len(self.states) or any(len(row) != width for row in prior):
                raise ValueError(
                    f"confusion_prior must be [{len(self.states)}][{width}]: one row per state, one column per label"
                )
        elif len(self.labels or self.states) < len(self.states):
            raise ValueError("with fewer labels than states, a confusion_prior must say what each label means")
        return self

    @property
    def options(self) -> dict[str, Any]:
        """The options that are stored with the settings of the model, without defaults."""
        said = {"positive": self.positive, "colours": self.colours or None}
        said["access"] = self.access if self.access != "public" else None
        return {name: value for name, value in said.items() if value is not None}


class SituationOut(BaseModel):
    id: str
    title: str
    states: list[str]
    labels: list[str]
    positive: str = Field(description="the state that the map is about")
    scales: list[str] = Field(description="the colour scale of each state")
    access: str = Field("public", description=ACCESS)
    moving: bool = Field(False, description=MOVING)
    exact_places: bool = Field(description="whether fits use the exact places of reports, or only their cells")
    region: tuple[float, float, float, float] = Field(description="west, south, east, north in degrees")
    crs: str
    columns: int
    rows: int
    layout_tag: str = Field(description="a hash of the region and the grid")
    model: dict[str, Any]
    archived: bool = False
    created: float
    version: int | None = Field(None, description="the number of the newest version; null until there is one")
    reports: int = Field(0, description="the number of reports in the newest version")
    waiting: bool = Field(False, description="whether the log has entries that the newest version does not include")
    failure: str | None = None
    failed: float | None = None
    failures: int = Field(0, description="how many fits of this map have failed so far")
    minimum_count: int = Field(3, description="readers see only cells with at least this many reports")


class StartedFromFile(SituationOut):
    receipt: Receipt = Field(description="the outcome for the rows of the file")


TrustLevel = Literal["low", "medium", "high", "certain"]


class SituationChange(Strict):
    """What to change in a map; fields that are not given stay as they are."""

    title: Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_printable)] | None = None
    positive: Name | None = Field(None, description="the state that the map shows first")
    archived: bool | None = Field(None, description="an archived map is kept and can be read, but is listed last")
    access: Access | None = Field(None, description=ACCESS)
    moving: bool | None = Field(None, description=MOVING)
    colours: dict[Name, Scale | None] | None = Field(None, max_length=12, description=COLOURS + "; null restores it")
    trust: dict[Name, TrustLevel] | None = Field(
        None,
        min_length=1,
        max_length=1000,
        description="the prior trust in each source",
    )
    states: list[Name] | None = Field(
        None,
        min_length=2,
        max_length=12,
        description="all states, old and new; the versions so far are removed",
    )
    labels: list[Name] | None = Field(
        None,
        min_length=2,
        max_length=24,
        description="what reports can say; by default the states if they were the states before, else unchanged",
    )
    region: RegionIn | None = None
    columns: int | None = Field(None, ge=4, le=1024, description="unchanged by default")
    rows: int | None = Field(None, ge=4, le=1024, description="chosen so that cells are square by default")

    @model_validator(mode="after")
    def _says_something(self) -> "SituationChange":
        if all(getattr(self, name) is None for name in type(self).model_fields):
            raise ValueError("give at least one field to change: " + ", ".join(type(self).model_fields))
        return self


class SituationChanged(SituationOut):
    outside: int = Field(description="reports that now lie outside the region; a larger region would include them")


class VersionOut(BaseModel):
    number: int
    reports: int
    created: float
    seconds: float
    info: dict[str, Any]


class EventTimes(BaseModel):
    """The number of reports about events in each time step."""

    exact: bool = Field(description="true if reports were counted, false if published counts of cells were added")
    start: float | None = Field(description="start of the first step in seconds since 1970; null if there are no times")
    step: float = Field(description="the length of a step in seconds")
    counts: list[int]


class DistrictsOut(BaseModel):
    """A stored set of districts."""

    name: str
    areas: int
    created: float


class DistrictsStored(DistrictsOut):
    names: list[str]
    notes: list[str] = Field(description="remarks on the file, for example areas that were left out")


class WeightsOut(BaseModel):
    """The weights of a map: what its cells count for in figures of its districts."""

    name: str = Field(description="what amounts are counted in, for example people")
    created: float
    total: float = Field(description="the total amount on the map")
    current: bool = Field(description="false if the region of the map was changed since: upload the raster again")


class Trust(Strict):
    level: TrustLevel | None = None
    matrix: list[list[Annotated[float, Field(gt=0, le=1e6)]]] | None = Field(
        None, description="instead of a level: the prior confusion matrix as counts [states][labels]"
    )

    @model_validator(mode="after")
    def _one(self) -> "Trust":
        if (self.level is None) == (self.matrix is None):
            raise ValueError("give either a level or a matrix")
        return self


class NewKey(Strict):
    name: Annotated[str, Field(min_length=1, max_length=100), AfterValidator(_printable)]
    role: Literal["reader", "reporter", "trusted", "admin"]
    expires: Time | None = Field(None, description="when the key stops being valid; never by default")
    maps: list[Slug] | None = Field(
        None, max_length=1000, description="the situations that the key is for; all by default"
    )
    any_source: bool = Field(False, description="whether its reports may name any source; those of admins always may")


class Rotation(Strict):
    expires: Time | None = Field(None, description="when the new key stops being valid; like the old one by default")


class KeyOut(BaseModel):
    id: str
    name: str
    role: str
    created: float
    revoked: bool
    expires: float | None
    maps: list[str] | None
    any_source: bool
    state: Literal["valid", "expired", "revoked"]


class KeyMade(BaseModel):
    key: str = Field(description="shown once; store it now")


class Whoami(BaseModel):
    role: str
    name: str
    maps: list[str] | None = Field(None, description="the situations that your key is for; null means all")
    any_source: bool = Field(False, description="whether your reports may name any source")
    expires: float | None = None
    anonymous_reading: bool
    version: str


class ProblemOut(BaseModel):
    """RFC 9457."""

    type: str
    title: str
    status: int
    detail: str


def finite(value: Any) -> Any:
    """The value with None in place of NaN and infinite numbers, which JSON does not have."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {str(k): finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [finite(v) for v in value]
    return value
