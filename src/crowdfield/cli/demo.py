"""`crowdfield demo`: every kind of output, for a simulated flood."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the files.")] = Path("demo"),
    seed: Annotated[int, typer.Option(min=0, help="Random seed of the simulated flood.")] = 7,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:
    """Map a simulated flood from good and bad reports; show who can be trusted and where to look next."""
    import numpy as np

    from crowdfield import io, metrics, pipeline, plot
    from crowdfield.cli.console import Talk, looks_table, sources_table
    from crowdfield.pipeline import flood

    talk = Talk(quiet=quiet)
    output.mkdir(parents=True, exist_ok=True)
    with talk.warnings_as_remarks(), talk.progress("Simulating a flood and those who report it") as say:
        scene = flood.draw_flood(np.random.default_rng(seed))
        settings = pipeline.Settings(
            lengthscale=flood.LENGTHSCALE, states=flood.STATES, sources=flood.TRUSTED, seed=seed
        )
        fused = pipeline.fuse_on(
            scene.reports, scene.grid, settings, about={"title": flood.TITLE, "simulated": True}, progress=say
        )
        say("Asking where to look next")
        looks = pipeline.next_looks(fused, 8)
        places = np.array([(look.easting, look.northing) for look in looks])
        table = fused.table()
        say("Drawing")
        figure = plot.summary(fused.heatmap, scene.reports, table, places, title=flood.TITLE)
        with io.replacing(output / "flood.png") as temporary:
            figure.savefig(temporary)
        say("Writing files")
        for suffix in (".csv", ".geojson"):
            io.write(fused.heatmap, output / f"flood{suffix}")
        io.write(fused.heatmap, output / "flood.html", reports=scene.reports, table=table, looks=places)
        pipeline.write_looks(fused, looks, output / "next.geojson")
    truth = scene.truth.t
    ranking = metrics.auc(truth, fused.model.predict_proba(scene.grid.centres())[:, 1])
    files = {
        "flood.png": "the map, how sure it is, the reports and the sources: look at this first",
        "flood.html": "the same map to move about in, in any browser, offline",
        "flood.geojson": "the map for a GIS",
        "flood.csv": "the map for a spreadsheet, with HXL tags",
        "next.geojson": "the areas to look at next",
    }
    talk.result(
        None,
        [
            f"{len(scene.reports):,} reports by {len(scene.reports.sources)} sources. The flood is invented, so the "
            f"truth is known:\nthe map ranks a flooded cell above a dry one {100 * ranking:.0f} times in 100 "
            f"({100 * _share_of_true_reports(scene):.0f} % of the reports are right).\n",
            sources_table(table),
            "* trusted beforehand\n",
            looks_table(looks),
            "\nWritten:",
            *(f"  {output / name}  {words}" for name, words in files.items()),
        ],
    )


def _share_of_true_reports(scene) -> float:  # type: ignore[no-untyped-def]
    cell = scene.grid.index(scene.reports.places)
    return float((scene.truth.t[cell] == scene.reports.label).mean())
