"""More than two states: three grades of damage after an earthquake (simulated), graded by assessors good and bad.

Each grade has a latent field of its own; probabilities add up to one, and a cell that nobody can grade stays grey.
Assessors who confuse "damaged" with "destroyed" still say something: their confusion matrix tells what.
"""

from pathlib import Path

import numpy as np

from crowdfield import pipeline, plot
from crowdfield.data import Grid, Reports
from crowdfield.simulate import simulate

GRADES = ("intact", "damaged", "destroyed")
GRID = Grid(500_000.0, 512_000.0, 4_170_000.0, 4_180_000.0, 48, 40, "EPSG:32635")


def shaking(places: np.ndarray) -> np.ndarray:
    """Stronger in the south-west: what a seismologist knows before any report comes in."""
    distance = np.linalg.norm(places - (503_000.0, 4_172_500.0), axis=1) / 1000.0
    return np.column_stack([distance - 5.0, np.full(len(places), 0.5), 3.5 - distance])


def main(output: Path = Path(__file__).parent) -> pipeline.Fused:
    rng = np.random.default_rng(5)
    world = simulate(
        500, places=GRID, states=GRADES, reliable=8, noisy=4, lengthscale=3_000.0, prior_mean=shaking, rng=rng
    )
    said = world.reports
    reports = Reports.from_arrays(
        said.places,
        np.asarray(said.labels)[said.label],
        [f"assessor {source + 1}" for source in said.source],
        labels=GRADES,
        crs=GRID.crs,
    )
    settings = pipeline.Settings(lengthscale=3_000.0, states=GRADES, seed=0)
    fused = pipeline.fuse_on(reports, GRID, settings)
    plot.states(fused.heatmap, title="Most probable grade, from 500 assessments").savefig(output / "damage_classes.png")
    return fused


if __name__ == "__main__":
    main()
