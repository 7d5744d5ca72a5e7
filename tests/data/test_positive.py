"""The state in question is in front, in every output; the alphabet has no say."""

import csv
import json
import re
import zipfile

import h5py
import numpy as np
import pyogrio
import pytest
import rasterio
from tests.label_sets import LABELS_AND_POSITIVE

from crowdfield import io, plot
from crowdfield.data import Grid, Heatmap, Region, Reports
from crowdfield.data.positive import decide, display_order, scale_name, theme
from crowdfield.errors import InputError
from crowdfield.pipeline import Settings
from crowdfield.pipeline.looks import looks_of
from crowdfield.pipeline.question import doubts, in_question
from crowdfield.service.records import Situation

GRID = Grid(690_000, 702_000, 7_796_000, 7_806_000, 6, 5, "EPSG:32736")

MORE = [
    (("maybe", "no", "yes"), "yes"),
    ((0, 1), 1),
    (("0", "1"), "1"),
    ((1, 2, 3, 4, 5), 5),
    ((False, True), True),
    (("dry", "wet"), "wet"),
    (("damage", "no damage"), "damage"),
    (("Damaged", "None"), "Damaged"),
    (("collapsed", "unknown"), "collapsed"),
    (("destroyed", "major-damage", "minor-damage", "no-damage", "un-classified"), "destroyed"),
    (("green", "red", "yellow"), "red"),
    (("no water", "water"), "no water"),
    (("safe", "unsafe"), "unsafe"),
    (("passable", "impassable"), "impassable"),
    (("blocked", "open"), "blocked"),
    (("emergency", "no emergency"), "emergency"),
    (("non", "oui"), "oui"),
    (("inondé", "pas inondé"), "inondé"),
    (("en sécurité", "sans abri"), "sans abri"),
    (("alagado", "seco"), "alagado"),
    (("danificado", "não danificado"), "danificado"),
    (("kein Schaden", "Schaden"), "Schaden"),
    (("hasarlı", "hasarsız"), "hasarlı"),
    (("hasar var", "hasar yok"), "hasar var"),
    (("evet", "hayır"), "evet"),
    (("سليم", "متضرر"), "متضرر"),
    (("غير متضرر", "متضرر"), "متضرر"),
    (("لا", "نعم"), "نعم"),
    (("rusak", "tidak rusak"), "rusak"),
    (("да", "нет"), "да"),
    (("land", "water"), "water"),
    (("very high", "high", "low"), "very high"),
    (("partially collapsed", "collapsed", "intact"), "collapsed"),
]


def heatmap_of(states):
    shape = (*GRID.shape, len(states))
    even = np.full(shape, 1 / len(states))
    return Heatmap(GRID, states, even, np.full(shape, 0.1), np.zeros(GRID.shape, int))


@pytest.mark.parametrize(
    ("states", "wanted"), LABELS_AND_POSITIVE + MORE, ids=lambda value: "/".join(map(str, np.atleast_1d(value)))
)
def test_the_words_of_the_labels_decide_in_any_order(states, wanted):
    for given in (states, states[::-1]):
        found = decide(given)
        assert (found.state, found.sure) == (wanted, True)
        assert display_order(given, found.state)[0] == wanted


@pytest.mark.parametrize(
    ("states", "wanted"), LABELS_AND_POSITIVE, ids=lambda value: "/".join(value) if len(value) > 1 else value
)
@pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")
def test_every_output_shows_the_state_in_question_first(states, wanted, tmp_path):
    heatmap = heatmap_of(states)
    assert heatmap.positive == wanted
    with rasterio.open(io.write(heatmap, tmp_path / "m.tif")) as file:
        assert file.descriptions[0] == f"probability_{wanted}"
    with h5py.File(io.write(heatmap, tmp_path / "m.nc")) as file:
        assert b"".join(file["state_name"][0]).decode() == wanted
    first = json.loads(io.write(heatmap, tmp_path / "m.geojson").read_text())["features"][0]["properties"]
    assert next(iter(first)) == f"probability_{wanted}"
    assert pyogrio.read_info(io.write(heatmap, tmp_path / "m.gpkg"))["fields"][0] == f"probability_{wanted}"
    with io.write(heatmap, tmp_path / "m.csv").open(newline="", encoding="utf-8") as file:
        assert next(csv.reader(file))[4] == f"probability_{wanted}"
    data = re.search(r'id="data">(.*?)</script>', io.write(heatmap, tmp_path / "m.html").read_text(encoding="utf-8"))[1]
    assert json.loads(data)["states"][0] == wanted
    with zipfile.ZipFile(io.write(heatmap, tmp_path / "m.kmz")) as archive:
        assert f"Probability: {wanted}" in archive.read("doc.kml").decode()
    assert plot.heatmap(heatmap).axes[0].get_title(loc="left") == f"Probability: {wanted}"
    assert plot.sheet(heatmap).get_suptitle() == f"Probability: {wanted}"
    assert f"100% {wanted}" in io.write_style(heatmap, tmp_path / "m.tif").read_text()

    class Doubtful:
        lengthscale_ = 100.0

    assert {look.state for look in looks_of(Doubtful(), heatmap, 2)} == {wanted}
    live = Situation("s", "S", states, states, Region(0, 0, 1, 1), "EPSG:32736", (0, 1, 0, 1), 4, 4, {}, 0.0)
    assert live.positive == wanted and live.scales[states.index(wanted)] == theme(wanted)


@pytest.mark.parametrize("suffix", [".tif", ".nc"])
def test_the_order_in_a_file_is_not_the_order_of_the_states(suffix, tmp_path):
    states = ("dry", "flooded")
    shape = GRID.shape
    p = np.stack([np.full(shape, 0.3), np.full(shape, 0.7)], -1)
    back = io.read_map(io.write(Heatmap(GRID, states, p, p * 0.1, np.zeros(shape, int)), tmp_path / f"m{suffix}"))
    assert back.states == states and back.positive == "flooded"
    np.testing.assert_allclose(back.probability, p, atol=1e-6)


def test_words_that_say_nothing_leave_it_to_the_rarer_state_and_then_ask():
    reports = Reports.from_arrays(np.zeros((5, 2)), ["a", "a", "b", "a", "b"], [0, 1, 2, 3, 4])
    assert in_question(["a", "b"], reports, Settings()).state == "b"
    assert in_question(["a", "b"], reports, Settings(positive="a")).state == "a"
    equal = in_question(["a", "b"], reports.take(np.array([0, 2])), Settings())
    assert not equal.sure and "--show" in doubts(equal, ["a", "b"])[0]
    assert doubts(in_question(["a", "b"], reports, Settings()), ["a", "b"]) == []


def test_a_label_that_the_reader_set_against_all_others_is_in_front():
    reports = Reports.from_arrays(np.zeros((2, 2)), ["safe or fine", "not safe or fine"], [0, 1])
    chosen = in_question(reports.labels, reports, Settings(read={"positive": ["safe", "fine"]}))
    assert chosen.state == "safe or fine"


@pytest.mark.parametrize("name", ["wet", "", "dryy"])
def test_a_state_that_is_not_there_is_named(name):
    with pytest.raises(InputError, match="the map has: dry, flooded"):
        decide(("dry", "flooded"), given=name)


def test_colours_agree_with_intuition():
    assert [theme(state) for state in ("flooded", "inondé", "wet", "مغمور")] == ["water"] * 4
    assert [theme(state) for state in ("damaged", "dañado", "fire", "emergency", "no water")] == ["harm"] * 5
    assert theme("yes") == "plain"
    # Of two states the same place has the same colour whichever is shown.
    assert scale_name(("dry", "flooded"), "flooded", "dry") == "water-reversed"
