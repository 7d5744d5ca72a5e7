"""The bodies of requests and answers about imports: how to read a file, what it contains, and what choices it needs."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from crowdfield.service.schemas import ACCESS, MOVING, PLACES, Access, Name, Places, RegionIn, Rejected, Silence, Strict

Column = Annotated[str, Field(min_length=1, max_length=300)]


class ImportPlan(Strict):
    """How to read a file, and which map to make of it. Fields that are not given are recognised from the file."""

    title: Name | None = None
    columns: dict[Literal["lat", "lon", "label", "source", "time", "id", "accuracy", "count"], Column] = Field(
        default_factory=dict, description="the column of the file that contains each of these"
    )
    layer: str | None = Field(
        None, min_length=1, max_length=300, description="the layer of a file with several: its name, or a part of it"
    )
    format: Literal["mapswipe"] | None = Field(
        None, description="if it is ambiguous: `mapswipe` reads the counts of a MapSwipe file as votes"
    )
    polygons: Literal["area", "inner-point"] | None = Field(
        None, description="whether a polygon is a report about all of its area, or about a point inside it"
    )
    labels: dict[Name, Name | None] = Field(
        default_factory=dict,
        max_length=1000,
        description="what a label of the file means on the map; null leaves such reports out",
    )
    states: list[Name] | None = Field(None, min_length=2, max_length=12, description="of a new map")
    positive: Name | None = Field(None, description="of a new map: the state that is shown first")
    region: RegionIn | None = Field(None, description="of a new map; around the bulk of the reports by default")
    cells: int | None = Field(None, ge=4, le=1024, description="of a new map: along its longer side, about")
    silence: Silence | None = None
    access: Access = Field("trusted", description=f"of a new map: {ACCESS}")
    places: Places = Field("auto", description=f"of a new map: {PLACES}")
    moving: bool = Field(False, description=f"of a new map: {MOVING}")


class LabelFound(BaseModel):
    label: str
    reports: int
    state: str | None = Field(description="what it means on the map; null if the map has no such label")


class SilenceOffer(BaseModel):
    """All reports say the same. Cells without reports can then count as weak reports of the opposite."""

    label: str
    opposite: str
    suggested: float = Field(description="the number of reports to expect from a cell where the label is true")


class Reason(BaseModel):
    """Why rows are not used. What differs between them, such as a value, is left out."""

    reason: str
    rows: int


class ImportPreview(BaseModel):
    """What a file contains, and which map it would become. Nothing has been stored."""

    title: str
    layout: str
    statement: str
    columns: dict[str, str] = Field(description="for each role (such as `lat`) the column that it was taken from")
    header: list[str] = Field(description="all columns of a table; empty for other files")
    read: int = Field(description="rows of the file")
    usable: int = Field(description="reports that would be stored")
    people: int = Field(description="how many people these reports stand for: the sum of their counts")
    duplicate: int
    rejected: int
    outside: int = Field(description="how many of the rejected reports lie outside the region")
    rejects: list[Rejected] = Field(description="the first thousand")
    reasons: list[Reason] = Field(description="why these rows are not used, the most frequent reason first")
    labels: list[LabelFound]
    states: list[str]
    positive: str = Field(description="the state that is shown first")
    access: str = Field(description=ACCESS)
    moving: bool = Field(False, description=MOVING)
    sources: int
    time: list[str] | None = Field(description="the times of the first and the last report")
    notes: list[str]
    region: tuple[float, float, float, float] = Field(description="west, south, east, north in degrees")
    cell: float = Field(description="the side of a cell in metres")
    points: list[tuple[float, float, int, bool]] = Field(
        description="some of the reports: longitude, latitude, index into `labels`, whether inside the region"
    )
    silence: SilenceOffer | None = None
    undecided: list[Literal["region"]] = Field(
        default_factory=list, description="fields that the plan must contain before a map can be started"
    )


class UnreadableFile(BaseModel):
    """Why a file cannot be read as it is, and which fields of the plan would help."""

    problem: str
    choices: dict[str, list[str]] = Field(
        description="for each field of the plan that would help (`layer`, `format`, `polygons`, a role of `columns`), "
        "its possible values"
    )
