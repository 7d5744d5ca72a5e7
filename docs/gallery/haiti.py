"""Ushahidi's reports after the Haiti earthquake of 2010, and one first responder.

Every report says that something is wrong; nobody writes in to say that all is well. So neither the length-scale nor
the negative state can be learned here: the length-scale is the paper's (16 cells of about 650 m), and one trusted
responder who found a place unharmed turns the map around it, as in the paper's figure: what was thought an emergency
is open again. The inference is the paper's too: the default also learns how common emergencies are everywhere, and from
messages that all say the same it can only learn "everywhere".

The data are fetched from the paper's repository, or read from the folder that CROWDFIELD_DATA names.
"""

import warnings
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from crowdfield import datasets, geography, pipeline, plot
from crowdfield.data import Reports
from crowdfield.errors import DataWarning

REGION = (-72.6, 18.2, -72.0, 18.8)
RESPONDER = (-72.18, 18.345)  # an invented visit, to the mountains south-east of the city
STATES = ("no emergency", "emergency")


def main(output: Path = Path(__file__).parent) -> tuple[pipeline.Fused, pipeline.Fused]:
    found = datasets.haiti()
    inside = geography.within(REGION, *found.lonlat.T)
    said = np.full(int(inside.sum()), "emergency", dtype=object)
    who = np.asarray(found.reports.sources, dtype=object)[found.reports.source[inside]]
    settings = pipeline.Settings(
        region=REGION, cell="650m", lengthscale="10.4km", snap=True, states=STATES, seed=0,
        sources={"first responder": "certain"}, inference="vb",
    )  # fmt: skip
    crowd = Reports.from_arrays(found.lonlat[inside], said, who, labels=STATES, crs="EPSG:4326")
    visited = Reports.from_arrays(
        np.vstack([found.lonlat[inside], RESPONDER]),
        [*said, "no emergency"],
        [*who, "first responder"],
        labels=STATES,
        crs="EPSG:4326",
    )
    with warnings.catch_warnings():
        # One label only: true of these data, and said above.
        warnings.simplefilter("ignore", DataWarning)
        before, after = pipeline.fuse(crowd, settings), pipeline.fuse(visited, settings)
    figure = Figure(figsize=(12.5, 5.0), layout="constrained", dpi=100)
    left, right, beside = figure.subplots(1, 3, width_ratios=(1, 1, 0.27))
    plot.draw_map(left, before.heatmap, title="Emergency, from 2,700 messages")
    plot.draw_map(right, after.heatmap, title="... and after one trusted visit that found nothing")
    plot.draw_looks(right, geography.transform([RESPONDER], "EPSG:4326", after.heatmap.grid.crs or ""))
    plot.draw_legend(beside, after.heatmap)
    figure.savefig(output / "haiti.png")
    return before, after


if __name__ == "__main__":
    main()
