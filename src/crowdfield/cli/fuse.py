"""`crowdfield fuse`: reports in, a map out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from crowdfield.cli import options as opt
from crowdfield.counting import crowd

PICTURES = (".png", ".pdf", ".svg", ".jpg", ".jpeg")


@opt.grouped
def fuse(
    reports: Annotated[list[Path], typer.Argument(metavar="REPORTS", help="Files of reports, in any known layout.")],
    output: Annotated[
        list[Path] | None,
        typer.Option(
            "--output",
            "-o",
            metavar="MAP",
            help="Where to write the map; the suffix gives the format: .tif .geojson .gpkg .parquet .kml .kmz .csv .nc "
            ".html, or a picture: .png .svg .pdf. May be repeated.",
            rich_help_panel=opt.OUTPUT,
        ),
    ] = None,
    figure: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.png", help="A page with map, uncertainty, reports and sources.", rich_help_panel=opt.OUTPUT
        ),
    ] = None,
    next_looks: Annotated[
        Path | None,
        typer.Option("--next", metavar="FILE.geojson", help="Areas to look at next.", rich_help_panel=opt.OUTPUT),
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN.cf",
            help="Save the run in this file; if it exists, continue from it with only the new reports.",
            rich_help_panel=opt.OUTPUT,
        ),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS", help="Fit over Dask: a scheduler's address, or local.", rich_help_panel=opt.MODEL
        ),
    ] = None,
    *,
    content: opt.Content,
    columns: opt.Columns,
    how: opt.Fusing,
    picture: opt.Picture,
    voice: opt.Voice,
) -> None:
    """Make a map from reports, and write it in the formats asked for."""
    from crowdfield import io
    from crowdfield.cli.console import Talk
    from crowdfield.cli.inputs import can_be_written, in_front, read_reports, settings_from, shown_first
    from crowdfield.errors import InputError
    from crowdfield.io.vector import LOOK_FORMATS

    talk = Talk.of(voice)
    settings = in_front(settings_from(content, columns, how), picture)
    outputs = output or []
    if not (outputs or figure or state or next_looks):
        raise typer.BadParameter("say where the map goes, for example: -o map.tif")
    if cluster is not None and state is not None:
        raise typer.BadParameter(
            "a run that was fitted over Dask cannot be continued, because what it learned about each place stays with "
            "the workers. Write the map with -o, or leave out --cluster to save the run."
        )
    if settings.moving and (state is not None or cluster is not None):
        raise typer.BadParameter(
            "a map that moves can neither be saved as a run nor fitted over Dask. Leave out --state and --cluster, or "
            "--moving."
        )
    # Check suffixes and folders before the fit, which may take minutes.
    for path in outputs:
        can_be_written({"--output": path}, list(io.FORMATS), inputs=reports)
    can_be_written({"--figure": figure}, PICTURES, inputs=reports)
    can_be_written({"--next": next_looks}, LOOK_FORMATS, inputs=reports)
    can_be_written({"--state": state}, inputs=reports)
    if picture.size is not None:
        from crowdfield.plot import parse_size

        try:
            parse_size(picture.size)
        except InputError as problem:
            raise typer.BadParameter(str(problem), param_hint="--size") from problem
    first = next(path for path in (*outputs, figure, next_looks, state) if path is not None)
    table, settings, about = read_reports(reports, settings, talk, first)
    fused = _fused(table, about, settings, state, cluster, talk)
    fused = replace(fused, heatmap=shown_first(fused.heatmap, picture))
    for warning in fused.about.get("warnings", []):
        talk.remark(f"note: {warning}")
    written = _write(fused, outputs, figure, next_looks, picture, talk)
    if state is not None:
        from crowdfield.pipeline import save_run

        save_run(fused, state)
        written.append(state)
    talk.result(*_result(fused, about, written))


def _fused(table: Any, about: dict[str, Any], settings: Any, state: Path | None, cluster: str | None, talk: Any) -> Any:
    """The run: continued from a saved one if there is one, else fitted here or on a cluster."""
    from crowdfield import pipeline

    with talk.warnings_as_remarks(), talk.progress("Fusing") as say:
        if state is not None and state.exists():
            say(f"Continuing from {state}")
            return pipeline.extend(pipeline.load_run(state, settings.covariates), table, about=about, progress=say)
        if cluster is None:
            return pipeline.fuse(table, settings, about=about, progress=say)
        return pipeline.fuse(table, settings, about=about, progress=say, fit=pipeline.on_cluster(cluster))


def _write(
    fused: Any, outputs: list[Path], figure: Path | None, next_looks: Path | None, picture: opt.Picture, talk: Any
) -> list[Path]:
    """Write all outputs; returns their paths."""
    from crowdfield import io, pipeline
    from crowdfield.cli.inputs import picture_options

    written = []
    wants_looks = next_looks is not None or figure is not None or any(path.suffix == ".html" for path in outputs)
    looks = pipeline.next_looks(fused, 10) if wants_looks else []
    places = [(look.easting, look.northing) for look in looks]
    for path in outputs:
        with talk.warnings_as_remarks(), talk.progress(f"Writing {path}"):
            if path.suffix == ".html":
                extras = {"reports": fused.reports, "table": fused.table(), "looks": places, "title": picture.title}
                io.write(fused.heatmap, path, **extras)
            else:
                io.write(fused.heatmap, path, **picture_options(path, picture))
        written.append(path)
        if (style := io.write_style(fused.heatmap, path)) is not None and style not in written:
            written.append(style)
    if figure is not None:
        from crowdfield import plot
        from crowdfield.io.picture import write_figure

        drawing = plot.summary(fused.heatmap, fused.reports, fused.table(), places, title=picture.title)
        with talk.warnings_as_remarks():
            write_figure(drawing, figure)
        written.append(figure)
    if next_looks is not None:
        pipeline.write_looks(fused, looks, next_looks)
        written.append(next_looks)
    return written


def _result(fused: Any, about: dict[str, Any], written: list[Path]) -> tuple[dict[str, Any], list[str]]:
    """The result of the command, as data for JSON and as lines of text."""
    import numpy as np

    from crowdfield.geography.lengths import length_in_words
    from crowdfield.geography.projection import crs_in_words
    from crowdfield.io.layers import plain
    from crowdfield.pipeline.layers import sentences

    heatmap = fused.heatmap
    grid = heatmap.grid
    reach = " and ".join(length_in_words(value) for value in sorted(set(np.ravel(fused.model.lengthscale_).tolist())))
    learned = fused.heatmap.metadata.get("lengthscale_interval")
    covariates = fused.heatmap.metadata.get("covariates", [])
    data = {
        **_counted(fused),
        "already_fused": fused.about.get("already_fused", 0),
        "outside": fused.about.get("outside", 0),
        "sources": heatmap.metadata["sources"],
        "states": [str(state) for state in heatmap.states],
        "positive": str(heatmap.positive),
        "positive_because": heatmap.metadata.get("positive_because"),
        "grid": {
            "columns": grid.columns,
            "rows": grid.rows,
            "cell": grid.cell_width,
            "crs": grid.crs,
            "bounds": grid.bounds,
        },
        "lengthscale": np.ravel(fused.model.lengthscale_).tolist(),
        "lengthscale_interval": learned,
        "moment": heatmap.metadata.get("moment"),
        "lengthscale_hours": heatmap.metadata.get("lengthscale_hours"),
        "covariates": plain(covariates),
        "engine": fused.model.engine_,
        "iterations": int(fused.model.n_iter_),
        "mean_probability": {
            str(state): float(np.nanmean(heatmap.probability[..., j])) for j, state in enumerate(heatmap.states)
        },
        "warnings": fused.about.get("warnings", []),
        "read": about["read"],
        "written": [str(path) for path in written],
    }
    lines = [
        crowd(data["reports"], data["sources"])
        + (f", {data['new']:,} of them new" if data["new"] != data["reports"] else "")
        + (f"; {data['outside']:,} outside the map" if data["outside"] else "")
        + (f"; {data['already_fused']:,} were in the run already" if data["already_fused"] else ""),
        f"{grid.columns:,} × {grid.rows:,} cells of {length_in_words(grid.cell_width)} ({crs_in_words(grid.crs)}), "
        f"length-scale {reach}" + (f" (learned; 95 % interval: {_intervals(learned)})" if learned else ""),
        *_when(heatmap.metadata),
        f"the map is about '{heatmap.positive}'"
        + (f": {why}" if (why := heatmap.metadata.get("positive_because")) else ""),
        *sentences(covariates, heatmap),
        *(f"wrote {path}" for path in written),
    ]
    return data, lines


def _when(metadata: Any) -> list[str]:
    """Of a map that moves: the moment that it shows, and how fast what was seen loses its weight."""
    if "moment" not in metadata:
        return []
    return [f"shown at {metadata['moment']}; length-scale of time {metadata['lengthscale_hours']:.3g} h"]


def _counted(fused: Any) -> dict[str, int]:
    """How many reports were fused, and how many of them are new; a row that counts several people is as many."""
    reports, new = int(fused.heatmap.metadata["reports"]), fused.about.get("new", 0)
    return {"reports": reports, "new": reports if new == len(fused.seen) else new}


def _intervals(ends: list[list[float]]) -> str:
    from crowdfield.geography.lengths import length_in_words

    return ", ".join(f"{length_in_words(low)} to {length_in_words(high)}" for low, high in ends)
