"""Pictures must not lie: what is unknown does not look safe, and the same number has the same colour on every map."""

import io
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from crowdfield import plot
from crowdfield.data import Grid, Heatmap, Reports
from crowdfield.errors import InputError

GRID = Grid(500_000, 510_000, 4_000_000, 4_008_000, 50, 40, "EPSG:32633")


def make(probability, sd, grid=GRID, **metadata):
    p = np.broadcast_to(np.asarray(probability, float), grid.shape)
    s = np.broadcast_to(np.asarray(sd, float), grid.shape)
    two = [np.stack([1 - p, p], -1), np.stack([s, s], -1)]
    return Heatmap(grid, ("dry", "flooded"), *two, np.zeros(grid.shape, int), metadata)


def pixels(figure):
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    return np.asarray(Image.open(buffer).convert("RGB")).astype(float) / 255


def count(image, colour):
    return (np.abs(image - np.asarray(colour)) < 0.02).all(axis=-1)


def test_a_place_without_reports_is_the_same_grey_whatever_its_probability():
    unknown = plot.suppressed(np.linspace(0, 1, 101), np.zeros(101))
    assert np.allclose(unknown, plot.UNKNOWN)
    # and that grey is far from every colour that says something
    said = plot.suppressed(np.linspace(0, 1, 101), np.ones(101))
    assert np.linalg.norm(said - plot.UNKNOWN, axis=1).min() > 0.3


def test_colours_do_not_depend_on_the_rest_of_the_map():
    low, mixed = make(0.2, 0.05), np.full(GRID.shape, 0.2)
    mixed[10:, :] = 0.95
    assert np.allclose(plot.colours(low)[0, 0], plot.colours(make(mixed, 0.05))[0, 0])


def test_less_knowledge_is_always_closer_to_grey():
    known = np.linspace(0, 1, 50)
    distance = np.linalg.norm(plot.suppressed(np.full(50, 0.9), known) - plot.UNKNOWN, axis=1)
    assert (np.diff(distance) >= -1e-12).all() and distance[0] == 0


def test_unknown_is_measured_against_what_the_model_knew_beforehand():
    """A deviation of 0.2 is much for a model that starts at 0.21 and little for one that starts at 0.45."""
    assert plot.knowledge(make(0.5, 0.2, prior_sd=[0.21, 0.21]))[0, 0] < 0.06
    assert plot.knowledge(make(0.5, 0.2, prior_sd=[0.45, 0.45]))[0, 0] > 0.5


def test_north_is_up_and_outside_is_empty():
    p = np.zeros(GRID.shape)
    p[:10] = 1.0  # the northern quarter
    p[20:] = np.nan
    sd = np.where(np.isnan(p), np.nan, 0.0)
    heatmap = make(p, sd)
    assert (plot.colours(heatmap)[20:] == 0).all()
    image = pixels(plot.heatmap(heatmap))
    wide = image[:, : int(image.shape[1] * 0.75)]  # without the legend
    blue, sand = count(wide, plot.scale("water")(1.0)[:3]), count(wide, plot.scale("water")(0.0)[:3])
    assert blue.sum() > 1000 and sand.sum() > 1000
    assert np.nonzero(blue)[0].max() <= np.nonzero(sand)[0].min() + 1


def test_degrees_keep_the_shape_of_the_land():
    square = Grid(10.0, 11.0, 59.5, 60.5, 10, 10, "EPSG:4326")
    figure = plot.uncertainty(make(0.5, 0.1, square))
    assert figure.axes[0].get_aspect() == pytest.approx(2.0, rel=1e-3)  # at 60° a degree of longitude is half as long
    assert "longitude" in figure.axes[0].get_xlabel()


def test_scale_bar_has_a_round_length():
    texts = {text.get_text() for text in plot.uncertainty(make(0.5, 0.1)).axes[0].texts}
    assert "2 km" in texts


def test_all_panels_draw_and_name_what_they_show():
    rng = np.random.default_rng(0)
    places = rng.uniform((GRID.west, GRID.south), (GRID.east, GRID.north), (60, 2))
    reports = Reports.from_arrays(places, rng.choice(["dry", "flooded"], 60), rng.integers(0, 3, 60), crs=GRID.crs)
    table = pd.DataFrame(
        {
            "source": ["b", "a", "c"],
            "reports": [4, 40, 400],
            "accuracy": [0.4, 0.9, 0.7],
            "accuracy_low": [0.2, 0.85, 0.66],
            "accuracy_high": [0.7, 0.95, 0.74],
            "trusted": [False, True, False],
        }
    )
    figure = plot.summary(make(0.7, 0.1), reports, table, places[:3], title="A flood")
    words = {axes.get_title(loc="left") for axes in figure.axes}
    assert {"Probability: flooded", "Uncertainty", "The 60 reports", "Who can be trusted"} <= words
    ranked = [label.get_text() for label in figure.axes[-1].get_yticklabels()] or []
    assert ranked == ["a", "c", "b"]
    assert pixels(figure).std() > 0.1
    assert "flooded" in plot.reports(reports, make(0.5, 0.1)).axes[0].get_legend().get_texts()[1].get_text()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: plot.heatmap(make(0.5, 0.1), "wet"), "no state 'wet'"),
        (lambda: plot.sources(pd.DataFrame({"accuracy": [1.0]})), "accuracy_high"),
    ],
)
def test_what_cannot_be_drawn_is_named(call, words):
    with pytest.raises(InputError, match=words):
        call()


def test_drawing_leaves_no_global_state_behind():
    code = "import sys, crowdfield.plot; sys.exit('matplotlib.pyplot' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
