"""Why a map that others may see is fitted to cells: the exact place of a report can be computed from a map that was
fitted to exact places, even if its probabilities are rounded to whole percents."""

import numpy as np
import pytest
from tests.service.workspace import REGION

from crowdfield import geography
from crowdfield.service import fit
from crowdfield.service.journal import Entry, Ledger
from crowdfield.service.layouts import build
from crowdfield.service.maps import unpack
from crowdfield.service.schemas import NewSituation

CROWD = 40
# Fits of the attacker: steps of Gauss-Newton, and how far a place is moved to see its effect, in cells.
STEPS, MOVED = 3, 0.2


class World:
    """A crowd in the west of a map, and one report by Zoe alone in the east."""

    def __init__(self, seed, places):
        rng = np.random.default_rng(seed)
        model = {"places": places, "lengthscale": 8000.0}
        self.situation = build(
            NewSituation(id="x", title="x", states=["dry", "flooded"], region=REGION, columns=32, model=model)
        )
        grid = self.situation.grid
        size = np.array([grid.east - grid.west, grid.north - grid.south])
        self.corner, self.side = np.array([grid.west, grid.south]), np.array([grid.cell_width, grid.cell_height])
        share = rng.uniform((0.05, 0.05), (0.5, 0.95), (CROWD, 2))
        self.crowd = self.corner + share * size
        wet = np.sin(6 * share[:, 0]) + np.cos(7 * share[:, 1]) > 0
        self.labels = np.where(wet ^ (rng.random(CROWD) < 0.1), "flooded", "dry").tolist()
        self.centre = grid.centres()[grid.index(self.corner + np.array([[0.78, 0.5]]) * size)[0]]
        self.zoe = self.centre + rng.uniform(-0.45, 0.45, 2) * self.side

    def probability(self, zoe):
        """The map of the crowd and of a report by Zoe at this place.   [cells]"""
        ledger = Ledger("x")
        places = geography.unproject([*self.crowd, zoe], self.situation.crs).tolist()
        sources = [*(f"s{i % 8}" for i in range(CROWD)), "Zoe"]
        said = zip(places, [*self.labels, "flooded"], sources, strict=True)
        for i, ((longitude, latitude), label, source) in enumerate(said):
            ledger.apply(i + 1, Entry("report", f"r{i}", longitude, latitude, label, source))
        published, _ = fit.fit_map(self.situation, ledger, None)
        return unpack(published.arrays)["probability"][..., 1].astype(np.float64).ravel()

    def attacked(self, published):
        """Where an attacker finds Zoe who knows all other reports, and her cell: the place for which a fit of their own
        is closest to the published map."""
        found = self.centre
        for _ in range(STEPS):
            here = self.probability(found)
            moves = [found + move for move in np.diag(MOVED * self.side)]
            slope = np.stack([(self.probability(place) - here) / MOVED for place in moves], axis=1)
            step, *_ = np.linalg.lstsq(slope, published - here, rcond=None)
            found = np.clip(found + step * self.side, self.centre - self.side / 2, self.centre + self.side / 2)
        return found

    def missed_by(self, found):
        """How far the attacker is from the truth, in cells."""
        return float(np.hypot(*((found - self.zoe) / self.side)))


@pytest.mark.parametrize("seed", [1, 2])
def test_a_map_of_exact_places_tells_where_in_its_cell_a_lone_report_was_made(seed):
    world = World(seed, "exact")
    published = world.probability(world.zoe)
    assert world.missed_by(world.centre) > 0.25  # what the cell alone tells
    assert world.missed_by(world.attacked(published)) < 0.001
    # Rounding to whole percents leaves too much: hundreds of cells tell of the same place, to a fifth of a cell.
    assert world.missed_by(world.attacked(np.round(published, 2))) < 0.2


def test_a_map_of_cells_tells_nothing_of_places_within_them():
    world = World(1, "cell")
    published = world.probability(world.zoe)
    for corner in ((-0.49, -0.49), (0.49, 0.1)):
        assert (world.probability(world.centre + corner * world.side) == published).all()


def test_no_map_agrees_with_fuse_to_a_percent_and_hides_places_within_cells():
    """A map that hides them is the same for two crowds that differ within cells only. It cannot agree to 0.01 with the
    exact maps of both, for these differ by more than 0.02."""
    world = World(1, "exact")
    grid = world.situation.grid
    centres = grid.centres()[grid.index(world.crowd)]
    maps = []
    for seed in (0, 1):
        world.crowd = centres + np.random.default_rng(seed).uniform(-0.49, 0.49, centres.shape) * world.side
        maps.append(world.probability(world.zoe))
    assert np.abs(maps[0] - maps[1]).max() > 0.02
