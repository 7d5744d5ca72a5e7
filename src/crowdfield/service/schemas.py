"""The bodies of requests and answers. Bounds are part of the types, so that values that pass are safe to use."""

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
Slug = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$", description="small letters, digits and hyphens")]


def _printable(value: str) -> str:
    # Control characters have no place in a name, and PostgreSQL refuses the first of them.
    if any(ord(c) < 32 or ord(c) == 127 for c in value):
        raise ValueError("must not hold control characters")
    return value


def _clean(value: str) -> str:
    return "".join(c for c in value if c in "\n\t" or ord(c) >= 32)


Name = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_printable)]
Prose = Annotated[str, Field(max_length=5000), AfterValidator(_clean)]


def parse_time(text: str) -> float:
    """Seconds since 1970 of an ISO 8601 time; one without a zone is UTC."""
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
    """A region with named bounds, instead of a list in a fixed order."""

    west: Longitude
    south: Latitude
    east: Longitude
    north: Latitude


# About a metre: no grid of cells makes sense in less.
SMALLEST_DEGREES = 1e-5


def _region(value: Any) -> Region:
    edges = list(value.values()) if isinstance(value, dict) else value
    if not isinstance(edges, list | tuple) or any(type(edge) not in (int, float) for edge in edges):
        raise ValueError(f"a region is a list of four numbers, {ORDER} in degrees, or an object that names them")
    try:
        region = parse_region(value)
    except InputError as error:
        raise ValueError(str(error)) from None
    if max(edges) > 180:
        raise ValueError(f"longitudes are between -180 and 180 degrees. The order is {ORDER}.")
    if region.width < SMALLEST_DEGREES or region.north - region.south < SMALLEST_DEGREES:
        raise ValueError("the region is too small for a map")
    return region


RegionIn = Annotated[
    Region,
    PlainValidator(_region, json_schema_input_type=tuple[Longitude, Latitude, Longitude, Latitude] | Edges),
    Field(
        description="west, south, east, north in degrees (the order of GeoJSON), or an object that names the four; "
        "west greater than east crosses the antimeridian"
    ),
]


# That one message may say that it stands for.
MOST_LOOKS_OF_A_MESSAGE = 100_000
# Metres: no two places on Earth are farther apart.
FARTHEST = 2.1e7


class ReportIn(BaseModel):
    """One report. Fields that are not named here, contacts among them, are dropped and never stored."""

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
        description="how exactly the place is known: the radius in metres that holds the true place with a probability "
        "of 68 %, as phones report it",
    )
    count: Annotated[int, Field(ge=1, le=MOST_LOOKS_OF_A_MESSAGE)] | None = Field(
        None,
        description="how many looks the report stands for, as in 'seen by 12'; only keys that may report as others may "
        "send more than one",
    )
    scores: dict[Name, Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]] | None = Field(
        None,
        description="the probability of every state of the map, as a classifier gives it; they add up to 1. What the "
        "map makes of them depends on how often that source has been right (docs/scores.md)",
        max_length=MOST_STATES,
    )
    trusted: bool = False
    """Count it as the word of the trusted key that sends it."""

    @field_validator("scores")
    @classmethod
    def _probabilities(cls, scores: dict[str, float] | None) -> dict[str, float] | None:
        if scores is not None and abs(sum(scores.values()) - 1.0) > SUM_TOLERANCE:
            raise ValueError(f"the probabilities of all states add up to {sum(scores.values()):.3g}, not to 1")
        return scores


class Rejected(BaseModel):
    row: int = Field(
        description="where it is: the line of a table (its header is line 1), the number of a feature in other files, "
        "the position in a list; all counted from 1"
    )
    reason: str


class Receipt(BaseModel):
    """What became of the reports; all that counts as stored is durable."""

    stored: int = 0
    duplicate: int = 0
    conflict: int = Field(0, description="another report is stored under the same id")
    retracted: int = Field(0, description="a report of this id was taken back; nothing is stored under it again")
    rejected: int = 0
    ids: list[str] = Field(default_factory=list, description="of a few reports; left empty for many")
    rejects: list[Rejected] = Field(default_factory=list, description="the first hundred")
    outside: int = Field(0, description="of the rejected: how many lie outside the region of the map")
    note: str | None = None


def _live(inference: Any) -> Any:
    if inference == "gibbs":
        raise ValueError(
            "gibbs draws thousands of samples for one map and cannot go on from it when reports come in; a live map "
            "takes auto, collapsed or vb"
        )
    return inference


Silence = Annotated[
    float,
    Field(
        gt=0,
        le=1000,
        description="where all reports say the same, a cell that nobody reported from counts as a weak report of the "
        "opposite: the number of reports to expect of a cell where something is the matter",
    ),
]


class ModelOptions(Strict):
    """How the map is inferred; every field has a sound default."""

    lengthscale: Annotated[float, Field(gt=0, le=2e7, allow_inf_nan=False)] | Literal["learn"] | None = Field(
        None, description="metres over which neighbours agree; learned by default"
    )
    kernel: Literal["matern12", "matern32", "matern52", "rbf"] = "matern32"
    inference: Annotated[Literal["auto", "vb", "collapsed"], BeforeValidator(_live)] = "auto"
    communities: Annotated[int, Field(ge=1, le=20)] | Literal["learn"] | None = None
    confusion_prior: list[list[Annotated[float, Field(gt=0, le=1e6)]]] | None = Field(
        None, description="counts [states][labels] that every source starts from"
    )
    silence: Silence | None = None
    places: Literal["cell", "exact"] = Field(
        "cell",
        description="what a fit sees of a report: its cell, so that no map tells where in it it was made, or its place",
    )


Scale = Literal["plain", "water", "harm", "plain-reversed", "water-reversed", "harm-reversed"]
Access = Literal["public", "keys"]
ACCESS = "who may see the map: `public` is everybody who may read, `keys` is whoever has a key for it"
COLOURS = "the scale of colours of a state; by the words of the labels where none is given"


class NewSituation(Strict):
    id: Slug
    title: Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_printable)]
    states: list[Name] = Field(
        min_length=2,
        max_length=MOST_STATES,
        description="what a place can be; if nothing else tells, the last is shown first",
    )
    positive: Name | None = Field(
        None, description="the state that the map is about, shown first; by the words of the labels if not given"
    )
    labels: list[Name] | None = Field(
        None, min_length=2, max_length=24, description="what reports say; the states by default"
    )
    access: Access = Field("public", description=ACCESS)
    colours: dict[Name, Scale] = Field(default_factory=dict, max_length=MOST_STATES, description=COLOURS)
    region: RegionIn
    columns: int = Field(128, ge=4, le=1024)
    rows: int | None = Field(None, ge=4, le=1024, description="by default such that cells are square")
    model: ModelOptions = ModelOptions()

    @model_validator(mode="after")
    def _sound(self) -> "NewSituation":
        for name, values in (("states", self.states), ("labels", self.labels or [])):
            if len(set(values)) != len(values):
                raise ValueError(f"{name} must differ from each other")
        if self.positive is not None and self.positive not in self.states:
            raise ValueError(f"positive must be one of the states: {', '.join(self.states)}")
        if not set(self.colours) <= set(self.states):
            raise ValueError(f"colours are of states: {', '.join(self.states)}")
        prior = self.model.confusion_prior
        if prior is not None:
            width = len(self.labels or self.states)
            if len(prior) != len(self.states) or any(len(row) != width for row in prior):
                raise ValueError(
                    f"confusion_prior must be [{len(self.states)}][{width}]: one row per state, one column per label"
                )
        elif len(self.labels or self.states) < len(self.states):
            raise ValueError("fewer labels than states need a confusion_prior that says what each label means")
        return self

    @property
    def options(self) -> dict[str, Any]:
        """What is kept beside the settings of the model; nothing that says what holds anyway."""
        said = {"positive": self.positive, "colours": self.colours or None}
        said["access"] = self.access if self.access != "public" else None
        return {name: value for name, value in said.items() if value is not None}


class SituationOut(BaseModel):
    id: str
    title: str
    states: list[str]
    labels: list[str]
    positive: str = Field(description="the state that the map is about")
    scales: list[str] = Field(description="the scale of colours of each state")
    access: str = Field("public", description=ACCESS)
    region: tuple[float, float, float, float] = Field(description="west, south, east, north in degrees")
    crs: str
    columns: int
    rows: int
    layout_tag: str = Field(description="changes with the region and the grid")
    model: dict[str, Any]
    archived: bool = False
    created: float
    version: int | None = Field(None, description="the newest map; null until there is one")
    reports: int = Field(0, description="reports in the newest map")
    waiting: bool = Field(False, description="whether the log holds more than the newest map has seen")
    failure: str | None = None
    failed: float | None = None
    failures: int = Field(0, description="how many fits of this map have failed so far")
    minimum_count: int = Field(3, description="readers see reports only in cells that hold at least this many")


class StartedFromFile(SituationOut):
    receipt: Receipt = Field(description="what became of the rows of the file")


TrustLevel = Literal["low", "medium", "high", "certain"]


class SituationChange(Strict):
    """What is to change of a map; whatever is left out stays."""

    title: Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_printable)] | None = None
    positive: Name | None = Field(None, description="the state that the map shows first")
    archived: bool | None = Field(None, description="an archived map is kept and can be read, but is offered last")
    access: Access | None = Field(None, description=ACCESS)
    colours: dict[Name, Scale | None] | None = Field(None, max_length=12, description=COLOURS + "; null takes it back")
    trust: dict[Name, TrustLevel] | None = Field(
        None,
        min_length=1,
        max_length=1000,
        description="by source: how far it is believed before it has shown anything",
    )
    states: list[Name] | None = Field(
        None,
        min_length=2,
        max_length=12,
        description="all states, the new ones among them; versions so far are removed",
    )
    labels: list[Name] | None = Field(
        None,
        min_length=2,
        max_length=24,
        description="what reports say; with new states, the states where they were so",
    )
    region: RegionIn | None = None
    columns: int | None = Field(None, ge=4, le=1024, description="as before by default")
    rows: int | None = Field(None, ge=4, le=1024, description="by default such that cells are square")

    @model_validator(mode="after")
    def _says_something(self) -> "SituationChange":
        if all(getattr(self, name) is None for name in type(self).model_fields):
            raise ValueError("say what is to change: " + ", ".join(type(self).model_fields))
        return self


class SituationChanged(SituationOut):
    outside: int = Field(description="reports that stand but lie outside the region now; a larger one brings them back")


class VersionOut(BaseModel):
    number: int
    reports: int
    created: float
    seconds: float
    info: dict[str, Any]


class EventTimes(BaseModel):
    """How many reports tell of things that happened in each step of time."""

    exact: bool = Field(description="whether reports were counted, or published counts of cells were added up")
    start: float | None = Field(description="of the first step, in seconds since 1970; null where there are no times")
    step: float = Field(description="the length of a step in seconds")
    counts: list[int]


class DistrictsOut(BaseModel):
    """A stored set of districts."""

    name: str
    areas: int
    created: float


class DistrictsStored(DistrictsOut):
    names: list[str]
    notes: list[str] = Field(description="what was odd about the file")


class WeightsOut(BaseModel):
    """What the cells of a map count for in figures of its districts."""

    name: str = Field(description="what amounts are counted in, for example people")
    created: float
    total: float = Field(description="the amount under the whole map")
    current: bool = Field(description="false after the region of the map was changed: upload the raster again")


class Trust(Strict):
    level: TrustLevel | None = None
    matrix: list[list[Annotated[float, Field(gt=0, le=1e6)]]] | None = Field(
        None, description="counts [states][labels] to start from, instead of a level"
    )

    @model_validator(mode="after")
    def _one(self) -> "Trust":
        if (self.level is None) == (self.matrix is None):
            raise ValueError("give either a level or a matrix")
        return self


class NewKey(Strict):
    name: Annotated[str, Field(min_length=1, max_length=100), AfterValidator(_printable)]
    role: Literal["reader", "reporter", "trusted", "admin"]
    expires: Time | None = Field(None, description="when it stops being valid; never by default")
    maps: list[Slug] | None = Field(None, max_length=1000, description="the situations that it is for; all by default")
    any_source: bool = Field(False, description="whether it may report in the name of others; admins always may")


class Rotation(Strict):
    expires: Time | None = Field(None, description="when the new key stops being valid; as the old one by default")


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
    any_source: bool = Field(False, description="whether you may report in the name of others")
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
    """The same value with null for NaN and infinite numbers, which JSON does not have."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {str(k): finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [finite(v) for v in value]
    return value
