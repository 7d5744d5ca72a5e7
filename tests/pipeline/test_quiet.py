"""Reports that all say the same: what cannot be learned is said, and silence counts only where it was asked for."""

import json
from dataclasses import replace

import numpy as np
import pytest

from crowdfield import geography, pipeline
from crowdfield.cli import main
from crowdfield.data import Reports
from crowdfield.errors import DataWarning, InputError
from crowdfield.pipeline import quiet

CENTRE = (34.4, -19.3)  # inland: silence is not counted at sea
SETTINGS = pipeline.Settings(cell="1km", lengthscale="3km", seed=0, states=("dry", "flooded"))
pytestmark = pytest.mark.filterwarnings("ignore:All reports say:crowdfield.errors.DataWarning")


def calls(seed=0, size=60):
    """All from the east, all of the same word."""
    rng = np.random.default_rng(seed)
    places = np.array(CENTRE) + np.column_stack([rng.uniform(0.0, 0.05, size), rng.uniform(-0.05, 0.05, size)])
    corner = np.array(CENTRE)[None] - 0.05  # one from the far west, so that the map reaches there
    return Reports.from_arrays(
        np.vstack([places, corner]), ["flooded"] * (size + 1), rng.integers(0, 5, size + 1), crs="EPSG:4326"
    )


def east_and_west(fused):
    shown = fused.heatmap.of("flooded")
    half = shown.shape[1] // 2
    return np.nanmean(shown[:, half + 1 :]), np.nanmean(shown[:, : half - 1])


def test_a_note_says_what_reports_of_one_label_cannot_tell():
    with pytest.warns(DataWarning, match="All reports say"):
        fused = pipeline.fuse(calls(), SETTINGS)
    (said,) = fused.about["warnings"]
    assert "nothing can be learned about where all is well" in said and "--silence" in said
    assert fused.heatmap.metadata["warnings"] == [said]
    assert "silence" not in fused.model.sources_seen_.tolist()


def test_silence_tells_where_nobody_called():
    fused = pipeline.fuse(calls(), SETTINGS, silence=3.0)
    east, west = east_and_west(fused)
    assert east > 0.6 and west < 0.3
    assert not any("nothing can be learned" in warning for warning in fused.about["warnings"])
    # Only people are counted and shown; what silence said is in the table of sources.
    assert fused.heatmap.reports.sum() == 61 == len(fused.reports) == len(fused.seen)
    assert "silence" in fused.table()["source"].tolist()


def test_the_same_reports_give_the_same_map_without_a_seed():
    settings = replace(SETTINGS, seed=None)
    first, second = (pipeline.fuse(calls(), settings, silence=1.0).heatmap.probability for _ in range(2))
    assert (first == second).all()


def test_silence_of_one_label_is_counted_beside_a_few_reports_of_the_other():
    reports = calls()
    word = reports.labels[0]
    here = Reports.from_arrays(np.array([CENTRE]), ["dry"], ["checker"], crs="EPSG:4326")
    both = reports.join(here)
    grid = pipeline.fuse(reports, SETTINGS, silence=3.0).heatmap.grid
    both = geography.project(both, grid.crs)
    assert quiet.only_label(both) is None and quiet.prevailing_label(both) == word
    told, _ = quiet.with_silence(both, grid, None, replace(SETTINGS, silence=3.0), positive=word)
    assert told.take(np.arange(62)).places.tolist() == both.places.tolist()  # what people said comes first, unchanged
    silent = told.take(np.arange(62, len(told)))
    assert {silent.sources[code] for code in silent.source} == {"silence"}
    spoke = np.isin(grid.index(silent.places), grid.index(both.places[:61]))
    assert [silent.labels[code] == "flooded" for code in silent.label] == spoke.tolist()
    # With as many reports of either kind there is no label whose absence would tell anything.
    assert quiet.prevailing_label(both.take([0, 61])) is None


def test_a_run_with_silence_can_be_continued(tmp_path):
    whole = calls()
    early = np.arange(61) % 2 == 0
    early[60] = True
    first = pipeline.fuse(whole.take(early), SETTINGS, silence=3.0)
    pipeline.save_run(first, tmp_path / "run.cf")
    again = pipeline.load_run(tmp_path / "run.cf")
    assert len(again.reports) == early.sum()
    both = pipeline.extend(again, whole)
    assert both.about["new"] == (~early).sum() and both.about["already_fused"] == early.sum()
    assert both.heatmap.reports.sum() == 61 == len(both.seen)
    east, west = east_and_west(both)
    assert east > 0.6 and west < 0.3


def test_outside_the_mask_nobody_is_silent():
    import shapely

    area = shapely.box(CENTRE[0], CENTRE[1] - 0.05, CENTRE[0] + 0.05, CENTRE[1] + 0.05)
    fused = pipeline.fuse(calls(), pipeline.Settings(cell="1km", lengthscale="3km", mask=area, seed=0), silence=3.0)
    told = fused.model.reports_
    silent = told.source == told.sources.index("silence")
    assert 0 < silent.sum() <= fused.heatmap.mask.sum()
    assert fused.heatmap.states == ("no flooded", "flooded")


@pytest.mark.parametrize(
    ("labels", "settings", "words"),
    [
        (["dry", "flooded"] * 30, {"silence": 1.0}, "these differ"),
        (["flooded"] * 60, {"silence": 1.0, "states": ("a", "b", "flooded")}, "silence needs two states"),
        (["flooded"] * 60, {"silence": -1.0}, "above 0"),
    ],
)
def test_silence_is_refused_where_it_has_no_meaning(labels, settings, words):
    places = np.array(CENTRE) + np.random.default_rng(0).uniform(-0.05, 0.05, (60, 2))
    reports = Reports.from_arrays(places, labels, crs="EPSG:4326")
    with pytest.raises(InputError, match=words):
        pipeline.fuse(reports, cell="1km", lengthscale="3km", **settings)


def test_silence_is_not_counted_as_somebody_who_reported():
    fused = pipeline.fuse(calls(), SETTINGS, silence=2.0)
    assert fused.heatmap.metadata["sources"] == 5 and "5 sources" in repr(fused)


def test_fuse_suggests_counting_silence_and_does_so_when_asked(tmp_path, capsys):
    rows = [f"{lat:.5f},{lon:.5f},flooded,s{i % 4}" for i, (lon, lat) in enumerate(calls().places)]
    (tmp_path / "calls.csv").write_text("\n".join(["lat,lon,label,source", *rows]))

    def run(*more):
        with pytest.raises(SystemExit) as stop:
            main(
                [
                    "fuse",
                    str(tmp_path / "calls.csv"),
                    "--cell",
                    "1km",
                    "--lengthscale",
                    "3km",
                    "--states",
                    "dry,flooded",
                    *more,
                ]
            )
        assert stop.value.code == 0
        return capsys.readouterr()

    out, err = run("-o", str(tmp_path / "map.html"))
    assert "nothing can be learned about where all is well" in err and "--silence N" in err
    assert "What to doubt about this map" in (tmp_path / "map.html").read_text()
    out, err = run("-o", str(tmp_path / "map.tif"), "--silence", "3", "--json")
    assert json.loads(out)["reports"] == 61 and "nothing can be learned" not in err


def test_a_note_says_that_a_single_source_cannot_be_judged():
    rng = np.random.default_rng(3)
    places = np.array(CENTRE) + rng.uniform(-0.05, 0.05, (80, 2))
    labels = np.where(places[:, 0] > CENTRE[0], "flooded", "dry")
    survey = Reports.from_arrays(places, labels, ["the survey"] * 80, crs="EPSG:4326")
    note = "All reports come from one source"
    (said,) = [text for text in pipeline.fuse(survey, SETTINGS).about["warnings"] if note in text]
    assert "--trust 'the survey=high'" in said
    trusted = pipeline.fuse(survey, SETTINGS, sources={"the survey": "high"})
    assert not any(note in text for text in trusted.about["warnings"])
