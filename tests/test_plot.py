"""Pictures must not lie: what is unknown does not look safe, and the same number has the same colour on every map."""

import io
import subprocess
import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image
from shapely import box

from crowdfield import outlines, plot
from crowdfield.data import Grid, Heatmap, Reports
from crowdfield.errors import DataWarning, InputError
from crowdfield.io.picture import write_picture
from crowdfield.plot import letters, palette
from crowdfield.plot.coast import coast_lines
from crowdfield.plot.furniture import NORTH, SCALE_BAR, furnish_grid, hatch, in_degrees, in_lines
from crowdfield.plot.sheet import at_least

GRID = Grid(500_000, 510_000, 4_000_000, 4_008_000, 50, 40, "EPSG:32633")


def make(probability, sd, grid=GRID, **metadata):
    p = np.broadcast_to(np.asarray(probability, float), grid.shape)
    s = np.broadcast_to(np.asarray(sd, float), grid.shape)
    both, spread = np.stack([1 - p, p], -1), np.stack([s, s], -1)
    return Heatmap(grid, ("dry", "flooded"), both, spread, np.zeros(grid.shape, int), metadata)


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


SCALES = ("water", "harm", "plain")
# Machado, Oliveira and Fernandes (2009): what people without red, green or blue cones see, in linear light.
BLINDNESS = {
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}


def seen(colours, blindness):
    linear = np.where(colours <= 0.04045, colours / 12.92, ((colours + 0.055) / 1.055) ** 2.4)
    changed = np.clip(linear @ np.array(BLINDNESS[blindness]).T, 0, 1)
    return np.where(changed <= 0.0031308, 12.92 * changed, 1.055 * changed ** (1 / 2.4) - 0.055)


@pytest.mark.parametrize("name", SCALES)
def test_equal_steps_of_probability_are_equal_steps_to_the_eye(name):
    lab = palette._to_oklab(plot.scale(name)(np.linspace(0, 1, 256))[:, :3])
    steps = np.linalg.norm(np.diff(lab, axis=0), axis=1)
    # cividis is uniform in another space (CAM02-UCS), and nearly so in this one
    assert steps.max() / steps.min() < (2.3 if name == "plain" else 1.1)
    assert len(set(np.sign(np.diff(lab[:, 0])))) == 1  # lightness only falls or only rises: the order survives in print


@pytest.mark.parametrize("blindness", BLINDNESS)
@pytest.mark.parametrize("name", SCALES)
def test_the_scales_keep_their_order_in_any_colour_vision(name, blindness):
    lightness = palette._to_oklab(seen(plot.scale(name)(np.linspace(0, 1, 64))[:, :3], blindness))[:, 0]
    assert (np.diff(lightness) < 0).all() or (np.diff(lightness) > 0).all()


@pytest.mark.parametrize("name", [*SCALES, *(f"{name}-reversed" for name in SCALES)])
def test_nothing_that_is_known_looks_like_the_grey_of_unknown(name):
    said = plot.suppressed(np.linspace(0, 1, 101), np.ones(101), plot.scale(name))
    assert np.linalg.norm(said - plot.UNKNOWN, axis=1).min() > 0.29
    assert np.allclose(plot.suppressed(np.linspace(0, 1, 101), np.zeros(101), plot.scale(name)), plot.UNKNOWN)


def test_water_is_blue_and_damage_is_warm():
    wet, harm = plot.scale("water")(0.9)[:3], plot.scale("harm")(0.7)[:3]
    assert wet[2] > 1.8 * wet[0] and harm[0] > 2 * harm[2]


def test_grades_take_steps_of_one_scale_and_kinds_do_not():
    lightness = palette._to_oklab(plot.state_colours(("destroyed", "intact", "major", "minor"), "destroyed"))[:, 0]
    assert lightness[0] < lightness[2] < lightness[3] < lightness[1]


def test_colours_of_kinds_agree_with_intuition_and_are_all_different():
    states = ("burning", "flooded", "looted", "safe", "damaged", "closed")
    for positive in (None, *states):
        kinds = dict(zip(states, plot.state_colours(states, positive), strict=True))
        assert len({tuple(shade) for shade in kinds.values()}) == len(states)
        assert kinds["flooded"][2] > 1.5 * kinds["flooded"][0]  # blue
        assert kinds["safe"][1] > 1.2 * max(kinds["safe"][0], kinds["safe"][2])  # green
        assert all(kinds[name][0] > 2 * kinds[name][2] for name in ("burning", "damaged"))  # warm
    assert len({tuple(shade) for shade in plot.state_colours(tuple("abcdefgh"), "c")}) == 8


def test_guessing_among_three_states_is_right_once_in_three():
    table = pd.DataFrame(
        {"source": ["a"], "reports": [9], "accuracy": [0.6], "accuracy_low": [0.4], "accuracy_high": [0.8]}
    )
    assert not any(line.get_linestyle() == "--" for line in plot.sources(table).axes[0].lines)
    table.attrs["chance"] = 1 / 3
    axes = plot.sources(table).axes[0]
    assert axes.lines[0].get_xdata()[0] == pytest.approx(1 / 3) and "guessing (0.33)" in axes.get_xlabel()


def test_a_sheet_has_all_that_a_map_needs():
    p = np.full(GRID.shape, 0.7)
    p[:5, :5] = np.nan
    sd = np.where(np.isnan(p), np.nan, 0.05)
    sd[20:, :] = 0.28
    made = {"created": "2026-11-17T04:05:00+00:00", "reports": 1234, "sources": 56}
    figure = plot.sheet(make(p, sd, **made), title="Flood", size="900x600")
    axes, beside = figure.axes[:2]
    assert figure.get_suptitle() == "Flood"
    assert FigureCanvasAgg(figure).get_width_height() == (900, 600)
    assert axes.get_title(loc="left") == "from 1,234 reports by 56 sources, 17 November 2026, 04:05 UTC"
    assert {"N", "2 km"} <= {text.get_text() for text in axes.texts}
    assert axes.get_xticklabels()[0].get_text().endswith("° E") and axes.get_yticklabels()[0].get_text().endswith("° N")
    assert [text.get_text() for text in beside.get_legend().get_texts()] == ["nobody knows", "outside"]


@pytest.mark.parametrize("show", ["most-probable", "c"])
def test_a_sheet_shows_many_states(show):
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(5), GRID.shape)
    heatmap = Heatmap(GRID, tuple("abcde"), p, np.full(p.shape, 0.05), np.zeros(GRID.shape, int))
    figure = plot.sheet(heatmap, show)
    words = [text.get_text() for text in figure.axes[1].get_legend().get_texts()]
    assert set("abcde") <= set(words) if show == "most-probable" else figure.get_suptitle() == "Probability: c"


LONG_TITLE = "Buildings that are probably flooded in Beira and the districts around it, at 06:00 on 18 March (draft)"


@pytest.mark.parametrize("size", [None, "a4", "a4-portrait", "600x400", "451x301", "2400x900", "700x2000", "3001x2003"])
@pytest.mark.parametrize("show", [None, "most-probable", "grade"])
def test_the_parts_of_a_sheet_do_not_overlap_at_any_size(size, show):
    p = np.random.default_rng(0).dirichlet(np.ones(4), GRID.shape)
    made = {"created": "2026-11-17T04:05:00+00:00", "reports": 1234, "sources": 56, "ordered": True}
    states = ("no damage", "minor", "major", "destroyed")
    heatmap = Heatmap(GRID, states, p, np.full(p.shape, 0.05), np.zeros(GRID.shape, int), made)
    figure = plot.sheet(heatmap, show, title=LONG_TITLE, size=size)
    renderer = FigureCanvasAgg(figure).get_renderer()
    figure.draw(renderer)
    axes, beside = figure.axes[:2]
    legends: list[Any] = [beside.get_legend(), *beside.child_axes]
    texts = [figure._suptitle, axes._left_title, figure._supxlabel]  # type: ignore[attr-defined]
    parts = [*texts, axes.xaxis, axes.yaxis, axes.patch, *legends]
    boxes = [box(*part.get_tightbbox(renderer).extents) for part in parts]
    page = box(*figure.bbox.extents)
    for number, one in enumerate(boxes):
        assert page.buffer(1).contains(one), parts[number]
        # Ticks end at the frame of the map, so parts may share a few pixels.
        assert not any(one.buffer(-3).intersects(other.buffer(-3)) for other in boxes[:number]), parts[number]
    assert axes.get_window_extent().height > 0.3 * min(figure.bbox.height, figure.bbox.width)
    if size is not None and "x" in size:
        assert renderer.get_canvas_width_height() == tuple(float(part) for part in size.split("x"))


@pytest.mark.parametrize("size", [None, "600x400", "a4-portrait"])
@pytest.mark.parametrize("count", [9, 20, 60])
def test_a_legend_of_many_states_stays_on_the_sheet(size, count):
    p = np.random.default_rng(0).dirichlet(np.ones(count), GRID.shape)
    states = tuple(f"kind of thing number {number:02}" for number in range(count))
    figure = plot.sheet(Heatmap(GRID, states, p, p / 10, np.zeros(GRID.shape, int)), "most-probable", size=size)
    renderer = FigureCanvasAgg(figure).get_renderer()
    figure.draw(renderer)
    legend: Any = figure.axes[1].get_legend()
    assert box(*figure.bbox.extents).contains(box(*legend.get_tightbbox(renderer).extents))
    words = [text.get_text() for text in legend.get_texts()]
    shown = sum(word in states for word in words)
    assert shown == count or f"… {count - shown} more" in words


@pytest.mark.parametrize(("columns", "rows"), [(100, 8), (8, 100)])
def test_labels_of_degrees_do_not_overlap_on_narrow_maps(columns, rows):
    grid = Grid(500_000, 500_000 + 1000 * columns, 4_000_000, 4_000_000 + 1000 * rows, columns, rows, "EPSG:32633")
    figure = plot.sheet(make(0.5, 0.1, grid))
    renderer = FigureCanvasAgg(figure).get_renderer()
    figure.draw(renderer)
    for axis in (figure.axes[0].xaxis, figure.axes[0].yaxis):
        boxes = [box(*label.get_window_extent(renderer).extents) for label in axis.get_ticklabels()]
        assert not any(one.intersects(two) for at, one in enumerate(boxes) for two in boxes[:at])


def test_degrees_along_an_edge_have_the_same_decimals():
    assert in_degrees(np.array([-20.0, -19.5]), ("S", "N")) == ["20.0° S", "19.5° S"]
    assert in_degrees(np.array([179.0, 181.0]), ("W", "E")) == ["179° E", "179° W"]


@pytest.mark.parametrize("size", ["", "10x10", "1600", "a5", "99999x100", "axb"])
def test_a_size_that_is_none_is_named(size):
    with pytest.raises(InputError, match=r"1600x1200|pixels along each side"):
        plot.parse_size(size)


def test_the_coast_is_drawn_where_it_is_and_left_out_where_outlines_are_too_coarse():
    if not outlines.OUTLINES.is_file():
        pytest.skip("the outlines are not installed: make setup fetches them")
    beira = Grid(660_000, 720_000, 7_770_000, 7_830_000, 60, 60, "EPSG:32736")
    lines = coast_lines(beira)
    assert lines and all((line[:, 0] >= beira.west).all() and (line[:, 0] <= beira.east).all() for line in lines)
    assert coast_lines(Grid(690_000, 692_000, 7_800_000, 7_802_000, 10, 10, "EPSG:32736")) == []
    assert coast_lines(Grid(0, 1, 0, 1, 2, 2, None)) == []
    fiji = Grid(179.0, 181.0, -19.0, -16.0, 20, 30, "EPSG:4326")  # across the antimeridian
    assert coast_lines(fiji)


def test_names_in_legends_go_on_in_a_second_line_before_they_are_cut():
    assert in_lines("probability of flooded", 27) == "probability of flooded"
    assert in_lines("probability of intensity 4: light shaking", 27) == "probability of intensity 4:\nlight shaking"
    assert in_lines("probability of a state that has far too long a name to be read", 27).endswith("…")
    assert in_lines("intensity 4: light shaking", 22, 1) == "intensity 4: light…"


def test_drawing_leaves_no_global_state_behind():
    code = "import sys, crowdfield.plot; sys.exit('matplotlib.pyplot' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.parametrize(
    ("marks", "moves"), [([[0.1, 0.05]], True), ([[0.5, 0.5]], False), ([[0.1, 0.05], [0.9, 0.05]], False)]
)
def test_the_scale_bar_makes_way_for_marks(marks, moves):
    axes = Figure().subplots()
    furnish_grid(axes, Grid(0, 1000, 0, 1000, 10, 10, "EPSG:32736"))
    bar: list[Any] = [part for part in axes.get_children() if part.get_gid() == SCALE_BAR]
    before = bar[0].get_x()
    plot.draw_looks(axes, 1000.0 * np.array(marks))
    assert (bar[0].get_x() > 0.5) == moves
    assert bar[3].get_position()[0] - bar[0].get_x() == pytest.approx(bar[0].get_width() / 2, abs=1e-9)
    assert moves or bar[0].get_x() == before


@pytest.mark.parametrize(("mark", "moves"), [([0.96, 0.93], True), ([0.96, 0.5], False), ([0.5, 0.93], False)])
def test_the_north_arrow_makes_way_for_marks(mark, moves):
    axes = Figure().subplots()
    furnish_grid(axes, Grid(0, 1000, 0, 1000, 10, 10, "EPSG:32736"))
    arrow: Any = next(text for text in axes.texts if text.get_gid() == NORTH)
    plot.draw_looks(axes, 1000.0 * np.array([mark]))
    assert (arrow.xy[0] < 0.5) == moves


@pytest.mark.parametrize("size", [(4, 3), (5, 12)])
def test_the_scale_bar_is_as_high_on_every_map(size):
    figure = Figure(figsize=size)
    axes = figure.subplots()
    furnish_grid(axes, Grid(0, 1000 * size[0], 0, 1000 * size[1], 10, 10, "EPSG:32736"))
    ground = next(part for part in axes.get_children() if part.get_gid() == SCALE_BAR)
    assert ground.get_window_extent().height * 72 / figure.dpi == pytest.approx(24.0)


def test_a_map_of_one_label_says_what_it_cannot_tell(tmp_path):
    grid = Grid(west=0.0, east=1.0, south=0.0, north=1.0, columns=1, rows=1)
    p = np.full((1, 1, 2), 0.5)
    heatmap = Heatmap(grid, ("not reported", "reported"), p, p, np.ones((1, 1), int), {"only_label": "reported"})
    assert "All reports say “reported”" in plot.sheet(heatmap).axes[0].get_title(loc="left")


def test_a_map_of_one_label_shows_how_many_reports_there_are():
    reports = np.zeros(GRID.shape, int)
    reports[0, 0], reports[1, 2] = 1, 300
    p = np.full((*GRID.shape, 2), 0.5)
    heatmap = Heatmap(GRID, ("not reported", "reported"), p, p, reports, {"only_label": "reported"})
    drawn = plot.sheet(heatmap)
    assert drawn.get_suptitle() == "Reports: reported"
    shades = np.asarray(drawn.axes[0].images[0].get_array())
    one, many, none = shades[0, 0, :3], shades[1, 2, :3], shades[1, 1, :3]
    assert none.mean() > one.mean() > many.mean()
    key = next(part for part in drawn.axes[1].child_axes)
    assert [tick.get_text() for tick in key.get_yticklabels()] == ["1", "10", "100", "300"]
    # Who asks for the probability gets it.
    assert plot.sheet(heatmap, "reported").get_suptitle() == "Probability: reported"


def test_reports_of_cells_that_stay_unknown_are_marked():
    reports, sd = np.zeros(GRID.shape, int), np.full((*GRID.shape, 2), 0.1)
    reports[0, 0], reports[0, 1] = 1, 2
    sd[0, 0] = 0.5
    heatmap = Heatmap(GRID, ("dry", "wet"), np.full((*GRID.shape, 2), 0.5), sd, reports)
    drawn = plot.sheet(heatmap)
    (marks,) = [line for line in drawn.axes[0].lines if line.get_marker() == "o"]
    np.testing.assert_allclose(np.column_stack(marks.get_data()), [[GRID.eastings()[0], GRID.northings()[0]]])
    assert "reports that tell\ntoo little" in [t.get_text() for t in drawn.axes[1].get_legend().get_texts()]
    known = plot.sheet(Heatmap(GRID, ("dry", "wet"), heatmap.probability, 0.2 * sd, reports))
    assert not [line for line in known.axes[0].lines if line.get_marker() == "o"]


def test_hatching_covers_unknown_cells_and_no_others():
    where = np.zeros(GRID.shape, bool)
    where[:, 0] = where[2, 2] = True
    axes = Figure().subplots()
    hatch(axes, GRID, where)
    (paths,) = [collection.get_paths() for collection in axes.collections]
    east, north = (
        GRID.west + GRID.cell_width * np.arange(GRID.columns),
        GRID.north - GRID.cell_height * np.arange(GRID.rows),
    )
    for inset in (0.01, 0.5, 0.99):  # of a cell: near its edges too
        for row, column in np.ndindex(GRID.shape):
            at = float(east[column] + inset * GRID.cell_width), float(north[row] - inset * GRID.cell_height)
            assert any(path.contains_point(at) for path in paths) == where[row, column]


@pytest.mark.parametrize(
    ("states", "ordered", "title"),
    [((1, 2, 3), True, "grade 3"), ((1, 2, 3), False, "3"), (("a", "b", "c"), True, "c")],
)
def test_titles_say_that_a_number_is_a_grade(states, ordered, title):
    grid = Grid(west=0.0, east=1.0, south=0.0, north=1.0, columns=1, rows=1)
    p = np.full((1, 1, 3), 1 / 3)
    heatmap = Heatmap(grid, states, p, p, np.ones((1, 1), int), {"ordered": True} if ordered else {})
    assert palette.state_title(heatmap, 2) == title


def test_at_least_a_grade_has_the_colours_of_the_worst():
    p = np.full((*GRID.shape, 3), 1 / 3)
    heatmap = Heatmap(GRID, ("none", "minor", "destroyed"), p, p, np.ones(GRID.shape, int), {"ordered": True})
    assert plot.scale_of(heatmap).name == plot.scale_of(heatmap.at_least("minor")).name == "harm"


def test_nobody_knows_means_the_same_on_all_pictures_of_a_map():
    rng = np.random.default_rng(0)
    p, sd = rng.dirichlet(np.ones(4), GRID.shape), rng.uniform(0.1, 0.4, (*GRID.shape, 4))
    about = {"ordered": True, "prior_sd": [0.38, 0.25, 0.3, 0.38]}
    heatmap = Heatmap(GRID, ("no damage", "minor", "major", "destroyed"), p, sd, np.zeros(GRID.shape, int), about)
    assert 0.1 < plot.unknown(heatmap).mean() < 0.9
    for grade in ("minor", "major", "destroyed"):
        np.testing.assert_array_equal(plot.unknown(at_least(heatmap, grade)), plot.unknown(heatmap))


def test_letters_that_no_font_has_are_told_once_and_the_picture_is_drawn(tmp_path):
    nowhere = "\u0378\u0379"  # belongs to no script: no font has them
    with pytest.warns(DataWarning, match="no font on this computer has the letters") as caught:
        write_picture(make(0.5, 0.1), tmp_path / "map.png", title=f"Flood {nowhere}")
    assert len(caught) == 1 and (tmp_path / "map.png").stat().st_size > 10_000


def test_letters_that_the_default_font_lacks_come_from_one_that_has_them(monkeypatch):
    monkeypatch.setattr(letters, "_font_with", lambda missing: "DejaVu Serif" if missing == {"\u0378"} else None)
    figure = plot.sheet(make(0.5, 0.1), title="Crue à Léogâne \u0378")
    letters.find_letters(figure)
    title = figure._suptitle  # type: ignore[attr-defined]
    assert title.get_fontfamily() == ["sans-serif", "DejaVu Serif"]
    assert all(text.get_fontfamily() == ["sans-serif"] for text in figure.axes[0].texts)
