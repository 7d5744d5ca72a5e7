"""A map as a value: it says what it is in one line, shows itself in a notebook, and survives being sent elsewhere."""

import copy
import pickle

import numpy as np
import pytest
from tests.browser import needs_chromium, page

from crowdfield.data import Grid, Heatmap

GRID = Grid(690_000, 702_000, 7_796_000, 7_806_000, 6, 5, "EPSG:32736")


def _pickled(heatmap):
    return pickle.loads(pickle.dumps(heatmap))  # noqa: S301 (our own bytes)


@pytest.fixture
def heatmap():
    p = np.full(GRID.shape, 0.2)
    p[0, 0] = np.nan
    two = np.stack([p, 1 - p], -1)
    return Heatmap(GRID, ("damaged", "undamaged"), two, two * 0.1, np.ones(GRID.shape, int), {"title": "<b>A</b>"})


def test_a_map_says_what_it_is_in_one_line(heatmap):
    assert repr(heatmap) == (
        "<Heatmap of 'damaged': 6 × 5 cells of 2000 (EPSG:32736), states damaged, undamaged, 30 reports>"
    )


@pytest.mark.parametrize("there_and_back", [_pickled, copy.deepcopy, copy.copy])
def test_a_map_survives_being_copied_and_pickled(heatmap, there_and_back):
    again = there_and_back(heatmap)
    np.testing.assert_array_equal(again.probability, heatmap.probability)
    assert (again.grid, again.states, dict(again.metadata)) == (heatmap.grid, heatmap.states, dict(heatmap.metadata))
    assert not again.probability.flags.writeable
    with pytest.raises(TypeError):
        again.metadata["title"] = "other"


def test_a_notebook_shows_the_page_in_a_frame_that_can_reach_nothing(heatmap):
    text = heatmap._repr_html_()
    assert text.startswith("<iframe srcdoc=") and 'sandbox="allow-scripts"' in text
    inside = text.split('srcdoc="')[1].split('" sandbox')[0]
    assert '"' not in inside and "<" not in inside and "http" not in inside.replace("http-equiv", "")


@needs_chromium
def test_the_frame_of_a_notebook_draws_the_map(heatmap, tmp_path):
    around = tmp_path / "notebook.html"
    around.write_text(f'<!doctype html><meta charset="utf-8">{heatmap._repr_html_()}', encoding="utf-8")
    with page() as opened:
        opened.goto(around.as_uri())
        inside = opened.frames[1]
        inside.wait_for_selector("body[data-ready=yes]")
        assert inside.locator("select option").first.inner_text() == f"Probability: {heatmap.positive}"
