"""Options that several commands share, each with its words in one place."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

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
    typer.Option(metavar="LABEL", help="Map this label against all others. May be repeated.", rich_help_panel=READ),
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
Dates = Annotated[
    str | None,
    typer.Option(metavar="dmy|mdy", help="Order of day and month, where it is unclear.", rich_help_panel=READ),
]

Region = Annotated[
    str | None,
    typer.Option(metavar="W,E,S,N", help="Region in degrees: west,east,south,north.", rich_help_panel=MAP),
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
Seed = Annotated[int | None, typer.Option(help="Seed of everything random.", rich_help_panel=MODEL)]
