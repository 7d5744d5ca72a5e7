"""The demonstration: an invented flood where a river meets the sea near Beira, Mozambique.

The place and its coordinates are real; the flood, the people and their reports are drawn at random, so that the map can
be compared with the truth. Two teams are known to be good, twelve volunteers are anything from careful to guessing, one
channel exaggerates and one repeats rumours; and nobody went to the south-west.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdfield.data import Grid, Reports
from crowdfield.simulate import Crowd, Field, draw_field, draw_reports

TITLE = "A simulated flood near Beira, Mozambique"
STATES = ("dry", "flooded")
# 24 × 20 km in 250 m cells, UTM zone 36 south.
GRID = Grid(680_000.0, 704_000.0, 7_796_000.0, 7_816_000.0, 96, 80, "EPSG:32736")
LENGTHSCALE = 2_500.0
TRUSTED = {"fire-brigade": "high", "drone-team": "high"}

# A simplified river, from the north-west to the sea in the south-east (km east and north of the grid's corner).
_RIVER = np.array([(-2, 17.5), (3, 15.5), (6, 12.2), (10, 11.6), (13, 9.4), (15.5, 5.8), (19.5, 4.6), (26, 1.5)])
# Where people are: (km east, km north, spread in km, share).
_SETTLEMENTS = ((16.5, 9.5, 3.6, 0.45), (8.5, 14.0, 2.8, 0.25), (19.5, 15.5, 2.6, 0.18), (21.0, 4.0, 2.0, 0.12))
# name: (chance to say "dry" when dry, chance to say "flooded" when flooded, reports)
_PEOPLE: dict[str, tuple[float, float, int]] = {
    "fire-brigade": (0.97, 0.97, 24),
    "drone-team": (0.96, 0.96, 30),
    **{f"volunteer-{i + 1:02d}": (0.86, 0.84, 36) for i in range(7)},
    **{f"volunteer-{i + 8:02d}": (0.5, 0.5, 36) for i in range(5)},
    "sms-line": (0.55, 0.95, 90),
    "rumours": (0.15, 0.85, 80),
}


@dataclass(frozen=True)
class Flood:
    """What was reported, and what is true in every cell."""

    reports: Reports
    truth: Field
    grid: Grid
    accuracy: dict[str, float]


def draw_flood(rng: np.random.Generator) -> Flood:
    """Reports on an invented flood, each by a source with its own habits."""
    truth = draw_field(
        GRID.centres(), lengthscale=LENGTHSCALE, inverse_scale=1.2, prior_mean=_flood_plain, states=STATES, rng=rng
    )
    weight = _settlement(truth.places)
    parts = []
    for name, (dry, flooded, count) in _PEOPLE.items():
        confusion = np.array([[[dry, 1 - dry], [1 - flooded, flooded]]])
        crowd = Crowd(confusion, ("source",), (name,), STATES)
        # Trusted teams go where they are sent, also outside the settlements; others report from where they live.
        share = weight if name not in TRUSTED else 0.6 * weight + 0.4 / len(weight) * (weight > 0)
        cells = rng.choice(len(weight), size=count, p=share / share.sum())
        parts.append(draw_reports(truth, crowd, cells, rng=rng))
    reports = Reports.from_arrays(
        np.vstack([part.places for part in parts]),
        np.concatenate([np.asarray(part.labels)[part.label] for part in parts]),
        np.concatenate([np.asarray(part.sources)[part.source] for part in parts]),
        labels=STATES,
        sources=tuple(_PEOPLE),
        crs=GRID.crs,
    )
    return Flood(reports, truth, GRID, {name: (dry + flooded) / 2 for name, (dry, flooded, _) in _PEOPLE.items()})


def _flood_plain(places: NDArray[np.float64]) -> NDArray[np.float64]:
    """Log odds of water: high along the river, wider towards the sea, low on the plateau."""
    at = _kilometres(places)
    distance = np.full(len(at), np.inf)
    for start, end in pairwise(_RIVER):
        along = np.clip((at - start) @ (end - start) / ((end - start) @ (end - start)), 0, 1)
        distance = np.minimum(distance, np.linalg.norm(at - start - along[:, None] * (end - start), axis=1))
    width = 1.6 + 0.07 * at[:, 0]
    return 6.0 * np.exp(-((distance / width) ** 2)) - 3.0


def _settlement(places: NDArray[np.float64]) -> NDArray[np.float64]:
    at = _kilometres(places)
    weight = np.zeros(len(at))
    for east, north, spread, share in _SETTLEMENTS:
        weight += share / spread**2 * np.exp(-((at - (east, north)) ** 2).sum(axis=1) / (2 * spread**2))
    # Nobody lives, or went, in the swamps of the south-west.
    weight[(at[:, 0] < 8.0) & (at[:, 1] < 9.0)] = 0.0
    return np.asarray(weight / weight.sum())


def _kilometres(places: NDArray[Any]) -> NDArray[np.float64]:
    return (np.asarray(places, dtype=np.float64)[:, :2] - (GRID.west, GRID.south)) / 1000.0
