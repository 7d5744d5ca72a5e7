"""Options that several commands share, each defined once, and groups of options that belong together."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from functools import partial, wraps
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

# The panels of `--help`, and a shorthand for the options in each.
READ, MAP, MODEL, OUTPUT = "Reading", "Map", "Model", "Output"
_reading = partial(typer.Option, rich_help_panel=READ)
_column = partial(_reading, metavar="COLUMN")
_mapping = partial(typer.Option, rich_help_panel=MAP)
_modelling = partial(typer.Option, rich_help_panel=MODEL)
_output = partial(typer.Option, rich_help_panel=OUTPUT)


def several_outputs(help: str) -> Any:
    """The option ``--output FILE``, which may be repeated."""
    return typer.Option("--output", "-o", metavar="FILE", help=f"{help} May be repeated.")


Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print no progress and no notes.")]
Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        "-c",
        metavar="FILE.toml",
        help="Settings for repeatable runs; command-line options override them.",
    ),
]

Format = Annotated[str | None, _reading("--format", help="Layout of the file; recognised if not given.")]
Lat = Annotated[str | None, _column(help="Column of the latitude.")]
Lon = Annotated[str | None, _column(help="Column of the longitude.")]
Label = Annotated[str | None, _column(help="Column of the label: what was seen.")]
Source = Annotated[str | None, _column(help="Column of the source: who reported it.")]
Time = Annotated[str | None, _column(help="Column of the time.")]
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
    _column(
        help='Column with both coordinates: "lat lon", "lat,lon", geopoint, WKT, degrees with minutes and seconds.'
    ),
]
Accuracy = Annotated[
    str | None,
    _reading(
        metavar="COLUMN|LENGTH",
        help="Column of the accuracy of each place in metres; or one length for all, like 50m; none: places are exact.",
    ),
]
Count = Annotated[
    str | None,
    _reading(metavar="COLUMN|none", help="Column of how many people made each report; none: every row counts once."),
]
ScoreColumns = Annotated[
    str | None,
    _reading(
        metavar="COLUMNS",
        help="Columns with the probability of each state, separated by commas (p_dry,p_wet); none: use none.",
    ),
]
Score = Annotated[
    str | None,
    _reading(
        metavar="COLUMN",
        help="Column of the probability that each label is right, like a classifier's score.",
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
        help="With --polygons area: whether a label is true of some, most (default) or all of its area; or the column "
        "that says so.",
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
Swap = Annotated[
    bool | None,
    _reading("--swap", help="Exchange latitude and longitude, for files that have them in the wrong order."),
]
Dates = Annotated[str | None, _reading(metavar="dmy|mdy", help="Order of day and month, where it is unclear.")]

Region = Annotated[str | None, _mapping(metavar="W,S,E,N", help="Region in degrees: west,south,east,north.")]
Cell = Annotated[str | None, _mapping(metavar="LENGTH", help="Side of a cell, like 250m.")]
Mask = Annotated[Path | None, _mapping(metavar="FILE", help="Polygons; nothing is mapped outside them.")]
Projection = Annotated[
    str | None, _mapping(metavar="CRS", help="Reference system of the map; chosen to suit the region if not given.")
]

Lengthscale = Annotated[
    str | None, _modelling(metavar="LENGTH", help="Distance over which places are similar, like 2km; or learn.")
]
States = Annotated[
    str | None,
    _modelling(
        metavar="A,B,..",
        help="The possible states; default: the labels seen. Of two, the one in question is expected to be the rarer.",
    ),
]
Grades = Annotated[
    str | None,
    _modelling(
        metavar="A,B,..|none",
        help="For ordered states: all of them, from the least to the worst; none: they have no order. Recognised if "
        "not given.",
    ),
]
Trust = Annotated[
    list[str] | None,
    _modelling(metavar="SOURCE=LEVEL", help="Trust in a source: certain, high, medium or low. May be repeated."),
]
Inference = Annotated[str | None, _modelling(help="Method of inference: auto, vb, collapsed or gibbs.")]
Engine = Annotated[str | None, _modelling(help="Representation of the field: auto, exact, spectral or inducing.")]
Communities = Annotated[
    str | None,
    _modelling(
        metavar="N|learn",
        help="Number of groups of sources that learn from each other, above all those with few reports. Default: 1, "
        "all sources.",
    ),
]
Covariate = Annotated[
    list[Path] | None,
    _modelling(
        metavar="FILE.tif",
        help="A GeoTIFF of something that helps to predict the state, such as elevation. May be repeated.",
    ),
]
Silence = Annotated[
    float | None,
    _modelling(
        metavar="N",
        help="If all reports have the same label: count cells without reports as weak evidence against it. N is the "
        "number of reports expected from a cell in the reported state.",
    ),
]
Moving = Annotated[
    bool | None,
    _modelling(
        "--moving",
        help="The state of a place changes over time, as in a flood that moves: use the times of events, and show the "
        "moment of the newest report.",
    ),
]
Moment = Annotated[
    str | None,
    _mapping(metavar="TIME", help="With --moving: the moment to show, for example 2010-01-14T18:00 (UTC)."),
]
Seed = Annotated[int | None, _modelling(min=0, help="Random seed.")]


@dataclass(frozen=True)
class OptionGroup:
    """Options that several commands share, as the user gave them."""

    def given(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}


@dataclass(frozen=True)
class Columns(OptionGroup):
    """Which columns of the file to use, and how to read them."""

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
    swap: Swap = None
    missing: Missing = None


@dataclass(frozen=True)
class Content(OptionGroup):
    """What to read from a file, and in which layout."""

    format: Format = None
    positive: Positive = None
    map_labels: MapLabels = None
    duplicates: Duplicates = None
    region: Region = None
    config: Config = None


@dataclass(frozen=True)
class Renamed(OptionGroup):
    """Other names for labels."""

    map_labels: MapLabels = None


@dataclass(frozen=True)
class Beliefs(OptionGroup):
    """Options of the model, for commands that fuse a file of reports before they answer."""

    lengthscale: Lengthscale = None
    trust: Trust = None
    covariate: Covariate = None
    config: Config = None


@dataclass(frozen=True)
class Fusing(OptionGroup):
    """Options of the map and of the model."""

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
    moving: Moving = None
    moment: Moment = None
    seed: Seed = None


@dataclass(frozen=True)
class Picture(OptionGroup):
    """How pictures look."""

    show: Show = None
    title: Title = None
    size: Size = None
    bare: Bare = False


@dataclass(frozen=True)
class Voice(OptionGroup):
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
