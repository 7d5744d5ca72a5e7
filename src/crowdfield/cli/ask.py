"""Commands that query a run or a file: `sources`, `next`, `score` and `inspect`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from crowdfield.cli import options as opt
from crowdfield.cli.console import Talk, share
from crowdfield.counting import counted, crowd

Run = Annotated[
    Path, typer.Argument(metavar="RUN", help="A run saved with fuse --state (.cf), or a file of reports to fuse first.")
]


@opt.grouped
def sources(
    run: Run,
    output: Annotated[list[Path] | None, opt.several_outputs("Write the table (.csv) or draw it (.png).")] = None,
    most: Annotated[int, typer.Option(min=2, help="How many sources to show at most.")] = 40,
    *,
    beliefs: opt.Beliefs,
    voice: opt.Voice,
) -> None:
    """Who can be trusted: how often each source is right, with an interval."""
    from crowdfield import io
    from crowdfield.cli.console import sources_table
    from crowdfield.cli.inputs import can_be_written, run_from, settings_from
    from crowdfield.io.layers import plain

    talk = Talk.of(voice)
    for path in output or []:
        if path.suffix.lower() not in (".csv", ".png"):
            raise typer.BadParameter("write the source table as .csv or .png.", param_hint="--output")
        can_be_written({"--output": path}, inputs=[run])
    table = run_from(run, settings_from(beliefs), talk).table()
    for path in output or []:
        if path.suffix.lower() == ".png":
            from crowdfield import plot

            with io.replacing(path) as temporary:
                plot.sources(table, most=most).savefig(temporary)
        else:
            from crowdfield.io.table import write_rows

            write_rows(list(table.columns), table.itertuples(index=False), path)
    talk.result(plain(table.to_dict("records")), sources_table(table, most))


@opt.grouped
def next_(
    run: Run,
    n: Annotated[int, typer.Option("-n", min=1, help="How many places.")] = 10,
    output: Annotated[
        list[Path] | None, opt.several_outputs("Write them as areas for a tasking tool (.geojson).")
    ] = None,
    by: Annotated[
        str | None, typer.Option(metavar="SOURCE", help="The source that would report; default: a reliable one.")
    ] = None,
    size: Annotated[str | None, typer.Option(metavar="LENGTH", help="Side of an area, like 500m.")] = None,
    *,
    beliefs: opt.Beliefs,
    voice: opt.Voice,
) -> None:
    """Where to look next: the places where one more report would improve the map most."""
    from crowdfield import pipeline
    from crowdfield.cli.console import looks_table
    from crowdfield.cli.inputs import can_be_written, run_from, settings_from
    from crowdfield.errors import InputError
    from crowdfield.geography import parse_length
    from crowdfield.io.layers import plain
    from crowdfield.io.vector import LOOK_FORMATS

    talk = Talk.of(voice)
    try:
        wide = None if size is None else parse_length(size)
    except InputError as problem:
        raise typer.BadParameter(str(problem), param_hint="--size") from problem
    for path in output or []:
        can_be_written({"--output": path}, LOOK_FORMATS, inputs=[run])
    fused = run_from(run, settings_from(beliefs), talk)
    with talk.progress("Asking where to look next"):
        looks = pipeline.next_looks(fused, n, by=by)
    for path in output or []:
        pipeline.write_looks(fused, looks, path, size=wide)
    talk.result([plain(look.plain()) for look in looks], looks_table(looks))


@opt.grouped
def score(
    run: Run,
    gold: Annotated[Path, typer.Argument(metavar="GOLD", help="Places with their true state, in any known layout.")],
    *,
    columns: opt.Columns,
    map_labels: opt.MapLabels = None,
    beliefs: opt.Beliefs,
    voice: opt.Voice,
) -> None:
    """How good the map is, against places where the truth is known.

    Column options apply to GOLD; if RUN is a file of reports, its own columns are recognised.
    """
    from crowdfield import pipeline
    from crowdfield.cli.console import table
    from crowdfield.cli.inputs import read_file, run_from, settings_from

    talk = Talk.of(voice)
    # GOLD is read first, so that a mistake in it shows before the fit, which takes longer.
    truth = read_file(gold, settings_from(beliefs, columns, opt.Renamed(map_labels)), talk, whole=True).reports
    fused = run_from(run, settings_from(beliefs), talk)
    result = pipeline.score(fused, truth)
    names = {
        "auc": "AUC: a place with the state is ranked above one without",
        "cross_entropy_bits": "cross entropy, bits per place (lower is better)",
        "calibration_error": "calibration error (lower is better)",
        "accuracy": "most probable state is the true one",
    }
    rows = [[words, "none" if result[name] is None else f"{result[name]:.3f}"] for name, words in names.items()]
    text = [table(f"Against {result['places']:,} known places", ["", ""], rows, right=(1,))]
    talk.result(result, [*text, *(f"note: {note}." for note in result["notes"])])


@opt.grouped
def inspect(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file of reports, a map (.tif, .nc) or a run (.cf).")],
    *,
    content: opt.Content,
    columns: opt.Columns,
    voice: opt.Voice,
) -> None:
    """What is in this file, and how it would be read. Nothing is written."""
    from crowdfield.cli.console import table
    from crowdfield.cli.inputs import loss_notes, read_file, settings_from

    talk = Talk.of(voice)
    if file.suffix.lower() in (".tif", ".tiff", ".nc", ".cf"):
        return _inspect_map(file, talk)
    settings = settings_from(content, columns)
    read = read_file(file, settings, talk)
    found = read.summary()
    labels = sorted(found["labels"].items(), key=lambda item: -item[1])
    shown = [[name, f"{count:,}"] for name, count in labels[:20]]
    if len(labels) > 20:
        shown.append([f"… and {len(labels) - 20:,} more", ""])
    west, south, east, north = found["region"]
    lines = [
        found["statement"],
        counted(found["read"], "row")
        + ": {used:,} used, {duplicate:,} duplicate, {rejected:,} rejected".format(**found),
        crowd(found["reports"], found["sources"]),
        f"longitude {west:.5g} to {east:.5g}, latitude {south:.5g} to {north:.5g}",
        *([f"from {found['time'][0]} to {found['time'][1]}"] if found["time"] else []),
        table(None, ["label", "reports"], shown, right=(1,)),
        *(f"note: {note}." for note in (*found["notes"], *loss_notes(read.read, read.duplicate, read.rejected))),
        *(f"rejected: line {r['line']}: {r['reason']}" for r in found["rejects"][:5]),
    ]
    talk.result(found, lines)


def _inspect_map(file: Path, talk: Talk) -> None:
    """Show what a map or a saved run contains."""
    from crowdfield import io, pipeline
    from crowdfield.cli.console import table
    from crowdfield.data.positive import display_order
    from crowdfield.geography.lengths import length_in_words
    from crowdfield.geography.projection import crs_in_words
    from crowdfield.io.layers import description

    heatmap = pipeline.load_run(file).heatmap if file.suffix.lower() == ".cf" else io.read_map(file)
    grid = heatmap.grid
    data = {
        **description(heatmap),
        "grid": {"columns": grid.columns, "rows": grid.rows, "cell": grid.cell_width, "bounds": list(grid.bounds)},
        "mean_probability": {
            str(state): float(heatmap.of(state)[heatmap.mask].mean()) for state in heatmap.states if heatmap.mask.any()
        },
    }
    ordered = [str(state) for state in display_order(heatmap.states, heatmap.positive)]
    states = [[name, share(data["mean_probability"][name])] for name in ordered if name in data["mean_probability"]]
    lines = [
        f"{file.name}: a map of {grid.columns:,} × {grid.rows:,} cells of "
        f"{length_in_words(grid.cell_width) if grid.crs else f'{grid.cell_width:,.5g}'} ({crs_in_words(grid.crs)})",
        *(f"{name}: {data[name]}" for name in ("created", "software") if name in data),
        *(f"{name}: {data[name]:,}" for name in ("reports", "sources") if name in data),
        table(None, ["state", "on average"], states, right=(1,)),
    ]
    talk.result(data, lines)
