"""What goes over the wire when files are imported: how to read one, what was found in it, and what would help."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from crowdfield.service.schemas import Name, RegionIn, Rejected, Silence, Strict

Column = Annotated[str, Field(min_length=1, max_length=300)]


class ImportPlan(Strict):
    """How a file is to be read and what map is to be made of it; what is left out is recognised."""

    title: Name | None = None
    columns: dict[Literal["lat", "lon", "label", "source", "time", "id", "accuracy", "count"], Column] = Field(
        default_factory=dict, description="the column of the file that holds each of these"
    )
    layer: str | None = Field(
        None, min_length=1, max_length=300, description="of a file that holds several: its name, or a part of it"
    )
    format: Literal["mapswipe"] | None = Field(
        None, description="where it is in doubt: `mapswipe` reads the counts of a MapSwipe file as votes"
    )
    polygons: Literal["area", "inner-point"] | None = Field(
        None, description="what a polygon stands for: one report about all of it, or about a point inside it"
    )
    labels: dict[Name, Name | None] = Field(
        default_factory=dict,
        max_length=1000,
        description="what a label of the file means on the map; null leaves such reports out",
    )
    states: list[Name] | None = Field(None, min_length=2, max_length=12, description="of a new map")
    region: RegionIn | None = Field(None, description="of a new map; around the bulk of the reports by default")
    cells: int | None = Field(None, ge=4, le=1024, description="of a new map: along its longer side, about")
    silence: Silence | None = None
    places: Literal["cell", "exact"] = "cell"


class LabelFound(BaseModel):
    label: str
    reports: int
    state: str | None = Field(description="what it means on the map; null where it means nothing there")


class SilenceOffer(BaseModel):
    """All reports say the same; where nobody reported may count as a weak report of the opposite."""

    label: str
    opposite: str
    suggested: float = Field(description="reports to expect of a cell where something is the matter")


class ImportPreview(BaseModel):
    """What was found in a file, and what would be made of it. Nothing has been stored."""

    title: str
    layout: str
    statement: str
    columns: dict[str, str] = Field(description="role: the column it was taken from")
    header: list[str] = Field(description="all columns of a table; empty for other files")
    read: int = Field(description="rows of the file")
    usable: int = Field(description="reports that would be stored")
    duplicate: int
    rejected: int
    outside: int = Field(description="of the rejected: reports that lie outside the region")
    rejects: list[Rejected] = Field(description="the first thousand")
    labels: list[LabelFound]
    states: list[str]
    sources: int
    time: list[str] | None = Field(description="of the first and the last report")
    notes: list[str]
    region: tuple[float, float, float, float] = Field(description="west, south, east, north in degrees")
    cell: float = Field(description="the side of a cell in metres")
    points: list[tuple[float, float, int, bool]] = Field(
        description="some of the reports: longitude, latitude, which of `labels`, whether inside the region"
    )
    silence: SilenceOffer | None = None
    undecided: list[Literal["region"]] = Field(
        default_factory=list, description="what the plan has to say before a map can be started"
    )


class UnreadableFile(BaseModel):
    """Why a file cannot be read as it is, and what in the plan would help."""

    problem: str
    choices: dict[str, list[str]] = Field(
        description="by option (`layer`, `format`, `polygons`, a role of `columns`): the values that it could have"
    )
