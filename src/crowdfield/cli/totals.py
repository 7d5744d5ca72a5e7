"""`crowdfield totals`: how much of each district is in each state, with intervals."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from crowdfield.cli import options as opt
from crowdfield.cli.ask import Run
from crowdfield.counting import amount_with_interval, share_with_interval


@opt.grouped
def totals(
    run: Run,
    districts: Annotated[
        Path, typer.Argument(metavar="DISTRICTS", help="Polygons: GeoJSON, GeoPackage, GeoParquet, KML or Shapefile.")
    ],
    output: Annotated[
        list[Path] | None,
        opt.several_outputs(
            "Write the figures: .csv (with an HXL row), .xlsx, .geojson, .gpkg, or a coloured map (.png .svg .pdf)."
        ),
    ] = None,
    weights: Annotated[
        Path | None,
        typer.Option(metavar="FILE.tif", help="Weight of each place: a GeoTIFF of people or households."),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(metavar="PROPERTY", help="The property that names districts; equal names are one district."),
    ] = None,
    threshold: Annotated[
        list[float] | None,
        typer.Option(
            min=0.0, max=1.0, help="Give the probability that a state covers at least this share. May be repeated."
        ),
    ] = None,
    show: Annotated[
        str | None,
        typer.Option(
            metavar="STATE",
            help='What is printed and drawn: a state, or "at least STATE" of grades. [default: the state in question]',
        ),
    ] = None,
    title: Annotated[str | None, typer.Option(metavar="TEXT", help="Title of the coloured map.")] = None,
    level: Annotated[float, typer.Option(min=0.01, max=0.999, help="Coverage of the intervals.")] = 0.9,
    draws: Annotated[int, typer.Option(min=20, help="Draws of the whole map.")] = 200,
    seed: Annotated[int, typer.Option(help="Seed of the draws.")] = 0,
    *,
    beliefs: opt.Beliefs,
    voice: opt.Voice,
) -> None:
    """How much of each district is in each state, with intervals, and how much is unknown.

    Intervals come from joint draws of the whole map: adding up those of cells would be wrong.
    """
    from crowdfield.cli.console import Talk, share, table
    from crowdfield.cli.inputs import run_from, settings_from
    from crowdfield.errors import InputError
    from crowdfield.io.layers import plain
    from crowdfield.pipeline import totals as job

    talk = Talk.of(voice)
    for path in output or []:
        try:
            job.check_format(path)
        except InputError as problem:
            raise typer.BadParameter(str(problem), param_hint="--output") from problem
    fused = run_from(run, settings_from(beliefs), talk)
    with talk.progress("Adding up districts"):
        found = job.totals(
            fused,
            districts,
            by=by,
            weights=weights,
            level=level,
            thresholds=threshold if threshold else [0.5],
            draws=draws,
            seed=seed,
        )
    written: list[Path] = []
    with talk.warnings_as_remarks():
        for path in output or []:
            written.append(job.write_totals(found, path, state=show, title=title))
            if (style := job.write_totals_style(found, path, state=show)) is not None and style not in written:
                written.append(style)
    for note in found.notes:
        talk.remark(f"note: {note}.")
    state, unit = found.column(show), found.unit
    rows = []
    for row in found.table.to_dict("records"):
        if not row["cells"] or row["weight"] <= 0:
            rows.append([row["area"], "none", "", "", "", f"{row['reports']:,}"])
            continue
        above = [share(row[f"probability_above_{value:g}_{state}"]) for value in found.thresholds]
        shares = [row[f"share_{end}{state}"] for end in ("", "low_", "high_")]
        amounts = [row[f"amount_{end}{state}"] for end in ("", "low_", "high_")]
        rows.append(
            [
                row["area"],
                share_with_interval(*shares),
                amount_with_interval(*amounts),
                ", ".join(above),
                share(row["unknown_share"]),
                f"{row['reports']:,}",
            ]
        )
    cut = ", ".join(share(value) for value in found.thresholds)
    said = job.in_words(state)
    names = ["district", "share", f"amount ({unit})", f"P(≥ {cut})", "unknown", "reports"]
    title = f"Share and amount that is “{said}”, with {share(level)} intervals"
    text = [table(title, names, rows, right=(1, 2, 3, 4, 5)), *(f"wrote {path}" for path in written)]
    talk.result({"totals": plain(found.table.to_dict("records")), "notes": list(found.notes)}, text)
