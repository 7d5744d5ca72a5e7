"""Options that several commands share, each with its words in one place, and groups of those that go together."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

READ, MAP, MODEL, OUTPUT = "How to read", "Where to map", "What to believe", "Output"

Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no remarks.")]
Config = Annotated[
    Path | None,
    typer.Option("--config", "-c", metavar="FILE.toml", help="Settings for repeatable runs; options here win over it."),
]

Format = Annotated[
    str | None,
    typer.Option("--format", help="Layout of the file; found out by itself if not given.", rich_help_panel=READ),
]
Lat = Annotated[str | None, typer.Option(metavar="COLUMN", help="Column of the latitude.", rich_help_panel=READ)]
Lon = Annotated[str | None, typer.Option(metavar="COLUMN", help="Column of the longitude.", rich_help_panel=READ)]
Label = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="Column that says what was seen.", rich_help_panel=READ)
]
Source = Annotated[str | None, typer.Option(metavar="COLUMN", help="Column that says by whom.", rich_help_panel=READ)]
Time = Annotated[str | None, typer.Option(metavar="COLUMN", help="Column that says when.", rich_help_panel=READ)]
Crs = Annotated[
    str | None,
    typer.Option(
        help="Reference system of the coordinates in the file, like EPSG:32736; degrees if not given.",
        rich_help_panel=READ,
    ),
]
Positive = Annotated[
    list[str] | None,
    typer.Option(
        metavar="LABEL",
        help="Map this label against all others, and show it first. May be repeated.",
        rich_help_panel=READ,
    ),
]
Show = Annotated[
    str | None,
    typer.Option(
        metavar="STATE|most-probable",
        help="The state that every output shows first, if not the one that the labels suggest; or, in pictures, the "
        "most probable state of each place.",
        rich_help_panel=OUTPUT,
    ),
]
Title = Annotated[str | None, typer.Option(metavar="TEXT", help="Title of pictures and pages.", rich_help_panel=OUTPUT)]
Size = Annotated[
    str | None,
    typer.Option(
        metavar="WxH|PAPER",
        help="Size of pictures: 1600x1200 in pixels, or a4, a4-portrait, a3, a3-portrait.",
        rich_help_panel=OUTPUT,
    ),
]
Bare = Annotated[
    bool,
    typer.Option(
        "--bare", help="A .png of the map alone, georeferenced, to lay on other maps.", rich_help_panel=OUTPUT
    ),
]
MapLabels = Annotated[
    Path | None,
    typer.Option(metavar="FILE.toml", help='Rename labels: lines of "old" = "new".', rich_help_panel=READ),
]
Duplicates = Annotated[
    str | None,
    typer.Option(
        metavar="once|keep|events",
        help="Use a repeated report once (default), every time, or once together with copied messages.",
        rich_help_panel=READ,
    ),
]
Place = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help='Column of whole places: "lat lon", "lat,lon", a geopoint, WKT, degrees with minutes and seconds.',
        rich_help_panel=READ,
    ),
]
Accuracy = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN|LENGTH",
        help="Column that says how exact a place is, in metres; or one length for all, like 50m; or none.",
        rich_help_panel=READ,
    ),
]
Count = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN|none",
        help="Column that says how many people a row stands for; none: every row is one report.",
        rich_help_panel=READ,
    ),
]
Layer = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Which of several layers, sheets, or files in a zip file; a part of its name is enough.",
        rich_help_panel=READ,
    ),
]
Encoding = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Encoding of a text file, like cp1252; found out.", rich_help_panel=READ),
]
Polygons = Annotated[
    str | None,
    typer.Option(metavar="inner-point", help="Read each polygon as a point inside it.", rich_help_panel=READ),
]
Missing = Annotated[
    str | None,
    typer.Option(
        metavar="WORDS",
        help="Words that stand for an empty cell, with commas between them; none: only empty cells are. "
        "Default: NA, N/A, -, null and the like.",
        rich_help_panel=READ,
    ),
]
Dates = Annotated[
    str | None,
    typer.Option(metavar="dmy|mdy", help="Order of day and month, where it is unclear.", rich_help_panel=READ),
]

Region = Annotated[
    str | None,
    typer.Option(metavar="W,S,E,N", help="Region in degrees: west,south,east,north.", rich_help_panel=MAP),
]
Cell = Annotated[str | None, typer.Option(metavar="LENGTH", help="Side of a cell, like 250m.", rich_help_panel=MAP)]
Mask = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Polygons outside which nothing is mapped.", rich_help_panel=MAP)
]
Projection = Annotated[
    str | None, typer.Option(metavar="CRS", help="Reference system of the map; chosen by itself.", rich_help_panel=MAP)
]

Lengthscale = Annotated[
    str | None,
    typer.Option(metavar="LENGTH", help="Distance over which places are alike: 2km, or learn.", rich_help_panel=MODEL),
]
States = Annotated[
    str | None,
    typer.Option(metavar="A,B,..", help="The states there can be; default: the labels seen.", rich_help_panel=MODEL),
]
Trust = Annotated[
    list[str] | None,
    typer.Option(
        metavar="SOURCE=LEVEL",
        help="Trust a source: certain, high, medium or low. May be repeated.",
        rich_help_panel=MODEL,
    ),
]
Inference = Annotated[str | None, typer.Option(help="auto, vb, collapsed or gibbs.", rich_help_panel=MODEL)]
Engine = Annotated[str | None, typer.Option(help="auto, exact, spectral or inducing.", rich_help_panel=MODEL)]
Communities = Annotated[
    str | None,
    typer.Option(metavar="N|learn", help="Let sources with few reports borrow from others.", rich_help_panel=MODEL),
]
Covariate = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="FILE.tif",
        help="What else is known of places: a GeoTIFF of heights, distances, people. May be repeated.",
        rich_help_panel=MODEL,
    ),
]
Silence = Annotated[
    float | None,
    typer.Option(
        metavar="N",
        help="Where all reports say the same: take silence as evidence, with N reports to expect of a cell where "
        "something is the matter.",
        rich_help_panel=MODEL,
    ),
]
Seed = Annotated[int | None, typer.Option(help="Seed of everything random.", rich_help_panel=MODEL)]


@dataclass(frozen=True)
class Said:
    """Some options of a command, as they were given."""

    def given(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}


@dataclass(frozen=True)
class Columns(Said):
    """Which column of the file is which."""

    lat: Lat = None
    lon: Lon = None
    label: Label = None
    source: Source = None
    time: Time = None
    place: Place = None
    accuracy: Accuracy = None
    count: Count = None
    crs: Crs = None
    dates: Dates = None
    layer: Layer = None
    encoding: Encoding = None
    polygons: Polygons = None
    missing: Missing = None


@dataclass(frozen=True)
class Content(Said):
    """What of a file to read, and as what."""

    format: Format = None
    positive: Positive = None
    map_labels: MapLabels = None
    duplicates: Duplicates = None
    region: Region = None
    config: Config = None


@dataclass(frozen=True)
class Renamed(Said):
    """Other names for labels."""

    map_labels: MapLabels = None


@dataclass(frozen=True)
class Beliefs(Said):
    """What to believe when a file of reports is fused on the way to an answer."""

    lengthscale: Lengthscale = None
    trust: Trust = None
    covariate: Covariate = None
    config: Config = None


@dataclass(frozen=True)
class Fusing(Said):
    """Where to map, and what to believe."""

    cell: Cell = None
    mask: Mask = None
    projection: Projection = None
    lengthscale: Lengthscale = None
    states: States = None
    trust: Trust = None
    inference: Inference = None
    engine: Engine = None
    communities: Communities = None
    covariate: Covariate = None
    silence: Silence = None
    seed: Seed = None


@dataclass(frozen=True)
class Picture(Said):
    """How pictures look."""

    show: Show = None
    title: Title = None
    size: Size = None
    bare: Bare = False


@dataclass(frozen=True)
class Voice(Said):
    """How a command speaks."""

    json: Json = False
    quiet: Quiet = False


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """A command that takes groups of options as one argument each: typer sees every option, the command the groups."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: kind for name, kind in hints.items() if is_dataclass(kind)}
    shown: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        if name not in groups:
            shown.append(parameter.replace(annotation=hints[name]))
            continue
        types = get_type_hints(groups[name], include_extras=True)
        shown += [
            inspect.Parameter(field.name, parameter.kind, default=field.default, annotation=types[field.name])
            for field in fields(groups[name])
        ]

    @wraps(command)
    def flat(**values: Any) -> None:
        taken = {name: kind(**{f.name: values.pop(f.name) for f in fields(kind)}) for name, kind in groups.items()}
        command(**values, **taken)

    # typer asks both; neither may lead back to the groups.
    flat.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
    flat.__annotations__ = {parameter.name: parameter.annotation for parameter in shown}
    del flat.__wrapped__
    return flat
