"""Commands that make files: `simulate`, `convert` and `reproduce`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from crowdfield.cli import options as opt


@opt.grouped
def simulate(
    output: Annotated[Path, typer.Argument(metavar="REPORTS.csv", help="Where to write the reports.")],
    truth: Annotated[
        Path | None, typer.Option(metavar="TRUTH.csv", help="Also write the true state of every cell, for score.")
    ] = None,
    reports: Annotated[int, typer.Option("--reports", "-n", min=1, help="How many reports.")] = 1000,
    reliable: Annotated[int, typer.Option(min=0, help="Sources that are mostly right.")] = 10,
    noisy: Annotated[int, typer.Option(min=0, help="Sources that guess.")] = 10,
    biased: Annotated[int, typer.Option(min=0, help="Sources that always report the first state.")] = 0,
    states: Annotated[str, typer.Option(metavar="A,B,..", help="The states.")] = "dry,flooded",
    lengthscale: Annotated[str, typer.Option(metavar="LENGTH", help="Distance over which places are similar.")] = "2km",
    contrast: Annotated[
        float, typer.Option(min=0.01, help="Standard deviation of the log odds; near 1, states are mostly chance.")
    ] = 4.0,
    region: Annotated[
        str, typer.Option(metavar="W,S,E,N", help="Region in degrees: west,south,east,north.")
    ] = "34.72,-19.92,34.95,-19.74",
    cell: Annotated[str, typer.Option(metavar="LENGTH", help="Side of a cell.")] = "500m",
    seed: Annotated[int, typer.Option(min=0, help="Random seed.")] = 0,
    *,
    voice: opt.Voice,
) -> None:
    """Simulate a field, good and bad sources, and their reports, to try things where the truth is known."""
    import numpy as np

    from crowdfield.cli.console import Talk
    from crowdfield.geography import make_grid, parse_length, unproject
    from crowdfield.io.table import write_rows
    from crowdfield.simulate import simulate as draw

    talk = Talk.of(voice)
    grid = make_grid(region=region, cell=cell)
    names = [state.strip() for state in states.split(",")]
    with talk.progress("Simulating"):
        world = draw(
            reports, places=grid, states=names, reliable=reliable, noisy=noisy, biased=biased,
            lengthscale=parse_length(lengthscale), inverse_scale=contrast**-2, rng=np.random.default_rng(seed),
        )  # fmt: skip
    said = world.reports
    kinds = dict(zip(world.crowd.sources, world.crowd.kinds, strict=True))
    who = [f"{kinds[source]}-{int(source) + 1:02d}" for source in said.sources]
    lonlat = unproject(said.places, grid.crs or "")
    rows = (
        (number, who[source], round(float(lat), 6), round(float(lon), 6), said.labels[label])
        for number, (source, (lon, lat), label) in enumerate(zip(said.source, lonlat, said.label, strict=True), 1)
    )
    write_rows(["id", "source", "lat", "lon", "label"], rows, output)
    written = [output]
    if truth is not None:
        centres = unproject(grid.centres(), grid.crs or "")
        known = (
            (round(float(lat), 6), round(float(lon), 6), names[t])
            for (lon, lat), t in zip(centres, world.truth.t, strict=True)
        )
        write_rows(["lat", "lon", "label"], known, truth)
        written.append(truth)
    data = {"reports": len(said), "sources": len(who), "cells": grid.size, "written": [str(path) for path in written]}
    talk.result(data, [f"wrote {path}" for path in written])


@opt.grouped
def convert(
    file: Annotated[Path, typer.Argument(metavar="FROM", help="A map (.tif, .nc), or a file of reports.")],
    output: Annotated[Path, typer.Argument(metavar="TO", help="Where to write it; the suffix gives the format.")],
    *,
    content: opt.Content,
    columns: opt.Columns,
    picture: opt.Picture,
    voice: opt.Voice,
) -> None:
    """Convert a map to another map format, or reports of any layout to a plain table or points."""
    from crowdfield import io
    from crowdfield.cli.console import Talk
    from crowdfield.cli.inputs import can_be_written, picture_options, read_file, remark_on, settings_from, shown_first
    from crowdfield.errors import InputError

    talk = Talk.of(voice)
    is_map = file.suffix.lower() in (".tif", ".tiff", ".nc")
    try:
        kind = io.check_format(output) if is_map else io.check_report_format(output)
    except InputError as problem:
        raise typer.BadParameter(str(problem)) from problem
    can_be_written({"TO": output}, inputs=[file])
    data: dict[str, Any]
    if is_map:
        heatmap = shown_first(io.read_map(file), picture)
        with talk.warnings_as_remarks():
            io.write(heatmap, output, **picture_options(output, picture))
        io.write_style(heatmap, output)
        data = {"map": {"columns": heatmap.grid.columns, "rows": heatmap.grid.rows, "crs": heatmap.grid.crs}}
    else:
        settings = settings_from(content, columns)
        read = read_file(file, settings, talk)
        remark_on(read, talk, output)
        io.write_reports(read.reports, output)
        data = {"read": read.read, "used": read.used, "duplicate": read.duplicate, "rejected": read.rejected}
    talk.result({**data, "written": str(output), "format": kind}, f"wrote {output} ({kind})")


@opt.grouped
def reproduce(
    names: Annotated[
        list[str], typer.Argument(metavar="EXPERIMENT", help="all, or some of: synthetic, tacloban, haiti; or real.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="Folder for the results.")] = Path(
        "reproduce"
    ),
    quick: Annotated[bool, typer.Option("--quick", help="A smaller version, in minutes.")] = False,
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes; one per core if not given.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Random seed.")] = 0,
    data: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder of the data; default: CROWDFIELD_DATA, else downloaded once."),
    ] = None,
    *,
    voice: opt.Voice,
) -> None:
    """Rerun the paper's experiments and compare with its results; or evaluate on real crowds (real).

    An interrupted run resumes when it is started again with the same folder.
    """
    from crowdfield.cli.console import Talk
    from crowdfield.experiments import EXPERIMENTS, REAL
    from crowdfield.experiments import reproduce as run

    talk = Talk.of(voice)
    unknown = [name for name in names if name not in (*EXPERIMENTS, REAL, "all")]
    if unknown:
        raise typer.BadParameter(
            f"there is no experiment {unknown[0]!r}; choose all, {', '.join(EXPERIMENTS)}, or {REAL}."
        )
    if data is not None:
        os.environ["CROWDFIELD_DATA"] = str(data.resolve())  # of processes that this one starts as well
    with talk.warnings_as_remarks(), talk.counted(f"Reproducing {', '.join(names)}") as report:
        page = run(names, output, quick=quick, seed=seed, jobs=jobs, progress=report)
    talk.result({"written": str(page)}, f"wrote {page}")
