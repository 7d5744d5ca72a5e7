"""Options that several commands share, each defined once, and groups of options that belong together."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from functools import partial, wraps
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

# The panels of `--help`, and options that stand in each.
READ, MAP, MODEL, OUTPUT = "How to read", "Where to map", "What to believe", "Output"
_reading = partial(typer.Option, rich_help_panel=READ)
_column = partial(_reading, metavar="COLUMN")
_mapping = partial(typer.Option, rich_help_panel=MAP)
_believing = partial(typer.Option, rich_help_panel=MODEL)
_output = partial(typer.Option, rich_help_panel=OUTPUT)

Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no remarks.")]
Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        "-c",
        metavar="FILE.toml",
        help="Settings for repeatable runs; other options win over them.",
    ),
]

Format = Annotated[str | None, _reading("--format", help="Layout of the file; recognised if not given.")]
Lat = Annotated[str | None, _column(help="Column of the latitude.")]
Lon = Annotated[str | None, _column(help="Column of the longitude.")]
Label = Annotated[str | None, _column(help="Column that says what was seen.")]
Source = Annotated[str | None, _column(help="Column that says by whom.")]
Time = Annotated[str | None, _column(help="Column that says when.")]
Crs = Annotated[
    str | None, _reading(help="Reference system of the coordinates in the file, like EPSG:32736; degrees if not given.")
]
Positive = Annotated[
    list[str] | None,
    _reading(metavar="LABEL", help="Map this label against all others, and show it first. May be repeated."),
]
Show = Annotated[
    str | None,
    _output(
        metavar="STATE|most-probable|grade|'at least STATE'",
        help="The state that every output shows first, if not the one that the labels suggest; or, in pictures, the "
        "most probable state of each place, the expected grade, or the probability of a grade and those above it.",
    ),
]
Title = Annotated[str | None, _output(metavar="TEXT", help="Title of pictures and pages.")]
Size = Annotated[
    str | None,
    _output(metavar="WxH|PAPER", help="Size of pictures: 1600x1200 in pixels, or a4, a4-portrait, a3, a3-portrait."),
]
Bare = Annotated[bool, _output("--bare", help="A .png of the map alone, georeferenced, to lay on other maps.")]
MapLabels = Annotated[Path | None, _reading(metavar="FILE.toml", help='Rename labels: lines of "old" = "new".')]
Duplicates = Annotated[
    str | None,
    _reading(
        metavar="once|keep|events",
        help="Use a repeated report once (default), every time, or once together with copied messages.",
    ),
]
Place = Annotated[
    str | None,
    _column(help='Column of whole places: "lat lon", "lat,lon", a geopoint, WKT, degrees with minutes and seconds.'),
]
Accuracy = Annotated[
    str | None,
    _reading(
        metavar="COLUMN|LENGTH",
        help="Column that says how exact a place is, in metres; or one length for all, like 50m; or none.",
    ),
]
Count = Annotated[
    str | None,
    _reading(
        metavar="COLUMN|none", help="Column that says how many people a row stands for; none: every row is one report."
    ),
]
ScoreColumns = Annotated[
    str | None,
    _reading(
        metavar="COLUMNS",
        help="Columns with the probability of every state, with commas between (p_dry,p_wet; 'none' for none).",
    ),
]
Score = Annotated[
    str | None,
    _reading(
        metavar="COLUMN",
        help="Column that says how sure each report is of its label: a probability, like a classifier's.",
    ),
]
Layer = Annotated[
    str | None,
    _reading(
        metavar="NAME", help="Which of several layers, sheets, or files in a zip file; a part of its name is enough."
    ),
]
Encoding = Annotated[
    str | None, _reading(metavar="NAME", help="Encoding of a text file, like cp1252; recognised if not given.")
]
Polygons = Annotated[
    str | None,
    _reading(
        metavar="area|inner-point", help="Read each polygon as one report about all of it, or as a point inside it."
    ),
]
Reading = Annotated[
    str | None,
    _reading(
        metavar="some|most|all|COLUMN",
        help="With --polygons area: what reports say of their areas, or the column that says it; most if not given.",
    ),
]
Missing = Annotated[
    str | None,
    _reading(
        metavar="WORDS",
        help="Words that mean an empty cell, separated by commas; none: only cells without text are empty. "
        "Default: NA, N/A, -, null and the like.",
    ),
]
Dates = Annotated[str | None, _reading(metavar="dmy|mdy", help="Order of day and month, where it is unclear.")]

Region = Annotated[str | None, _mapping(metavar="W,S,E,N", help="Region in degrees: west,south,east,north.")]
Cell = Annotated[str | None, _mapping(metavar="LENGTH", help="Side of a cell, like 250m.")]
Mask = Annotated[Path | None, _mapping(metavar="FILE", help="Polygons outside which nothing is mapped.")]
Projection = Annotated[
    str | None, _mapping(metavar="CRS", help="Reference system of the map; chosen to suit the region if not given.")
]

Lengthscale = Annotated[
    str | None, _believing(metavar="LENGTH", help="Distance over which places are alike: 2km, or learn.")
]
States = Annotated[str | None, _believing(metavar="A,B,..", help="The states there can be; default: the labels seen.")]
Grades = Annotated[
    str | None,
    _believing(
        metavar="A,B,..|none",
        help="The states from the least to the worst, where they are grades; none: they have no order. Recognised if "
        "not given.",
    ),
]
Trust = Annotated[
    list[str] | None,
    _believing(metavar="SOURCE=LEVEL", help="Trust a source: certain, high, medium or low. May be repeated."),
]
Inference = Annotated[str | None, _believing(help="auto, vb, collapsed or gibbs.")]
Engine = Annotated[str | None, _believing(help="auto, exact, spectral or inducing.")]
Communities = Annotated[
    str | None, _believing(metavar="N|learn", help="Let sources with few reports borrow from others.")
]
Covariate = Annotated[
    list[Path] | None,
    _believing(
        metavar="FILE.tif",
        help="What else is known of places: a GeoTIFF of heights, distances, people. May be repeated.",
    ),
]
Silence = Annotated[
    float | None,
    _believing(
        metavar="N",
        help="Where all reports say the same: count cells without reports as weak evidence of the opposite. N is the "
        "number of reports to expect from a cell that is in the reported state.",
    ),
]
Seed = Annotated[int | None, _believing(help="Seed of everything random.")]


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
    score: Score = None
    score_columns: ScoreColumns = None
    crs: Crs = None
    dates: Dates = None
    layer: Layer = None
    encoding: Encoding = None
    polygons: Polygons = None
    reading: Reading = None
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
    grades: Grades = None
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
    """How much a command prints, and in which form."""

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

    # typer looks at both; neither may mention the groups.
    flat.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
    flat.__annotations__ = {parameter.name: parameter.annotation for parameter in shown}
    del flat.__wrapped__
    return flat
