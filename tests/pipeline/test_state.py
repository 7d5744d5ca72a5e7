"""A saved run continues as if it had never stopped."""

import copy
import pickle
import zipfile

import numpy as np
import pytest
from tests.pipeline.test_fusing import SETTINGS, crowd

from crowdfield import pipeline
from crowdfield.errors import InputError
from crowdfield.pipeline import tables


@pytest.fixture(scope="module")
def halves():
    reports = crowd()
    first = np.arange(len(reports)) < 160
    return reports.take(first), reports.take(~first)


@pytest.fixture(scope="module")
def whole():
    return pipeline.fuse(crowd(), SETTINGS, tol=1e-6, max_iter=500, cell="500m")


@pytest.fixture
def kept(halves, tmp_path):
    """The first half, fused on the grid of the whole, kept and read again."""
    grid = pipeline.fuse(crowd(), SETTINGS).heatmap.grid
    from crowdfield import geography

    settings = pipeline.Settings(cell="500m", lengthscale="3km", seed=0, tol=1e-6, max_iter=500)
    fused = pipeline.fuse_on(geography.project(halves[0], grid.crs), grid, settings)
    pipeline.save_run(fused, tmp_path / "run.cf")
    return fused, pipeline.load_run(tmp_path / "run.cf")


def _pickled(thing):
    return pickle.loads(pickle.dumps(thing))  # noqa: S301 (our own bytes)


@pytest.mark.parametrize("there_and_back", [_pickled, copy.deepcopy, copy.copy])
def test_a_run_survives_being_copied_and_pickled(kept, there_and_back):
    before, _ = kept
    after = there_and_back(before)
    assert after.settings == before.settings and repr(after) == repr(before)
    np.testing.assert_array_equal(after.heatmap.probability, before.heatmap.probability)
    again = pipeline.make_map(after.model, after.heatmap.grid, after.heatmap.reports)
    np.testing.assert_allclose(again.probability, before.heatmap.probability, atol=1e-12)
    trusted = there_and_back(pipeline.Settings(sources={"a": "high"}, region=(1.0, 2.0, 3.0, 4.0)))
    assert trusted.sources == {"a": "high"} and trusted.region == pipeline.Settings(region=(1.0, 2.0, 3.0, 4.0)).region
    with pytest.raises(TypeError):
        trusted.sources["a"] = "low"


def test_a_saved_run_is_read_back_unchanged(kept):
    before, after = kept
    np.testing.assert_allclose(after.heatmap.probability, before.heatmap.probability, atol=1e-9)
    np.testing.assert_allclose(after.heatmap.sd, before.heatmap.sd, atol=1e-9)
    assert after.heatmap.grid == before.heatmap.grid and after.settings == before.settings
    np.testing.assert_array_equal(after.seen, before.seen)
    np.testing.assert_array_equal(after.heatmap.reports, before.heatmap.reports)
    assert after.table().equals(before.table())


def test_going_on_gives_the_map_of_all_reports(kept, halves, whole):
    both = pipeline.extend(kept[1], halves[1])
    assert both.about["new"] == 80 and len(both.seen) == 240 and both.heatmap.reports.sum() == 240
    # The state of a reported place turns faster than the field around it.
    np.testing.assert_allclose(both.heatmap.probability, whole.heatmap.probability, atol=5e-3)
    assert len(both.reports) == 240


def test_no_report_counts_twice(kept, whole):
    """The whole file again: only what is new is folded in, and once more changes nothing."""
    both = pipeline.extend(kept[1], crowd())
    assert both.about["already_fused"] == 160 and both.about["new"] == 80
    # The state of a reported place turns faster than the field around it.
    np.testing.assert_allclose(both.heatmap.probability, whole.heatmap.probability, atol=5e-3)
    again = pipeline.extend(both, crowd())
    assert again.about["new"] == 0 and again.heatmap is both.heatmap


def test_nothing_in_the_file_can_run(kept, tmp_path):
    with zipfile.ZipFile(tmp_path / "run.cf") as file:
        assert set(file.namelist()) == {"run.json", "model", "mask.npy", "reports.npy", "seen.npy"}
        for name in file.namelist():
            if name.endswith(".npy"):
                assert not np.load(file.open(name), allow_pickle=False).dtype.hasobject


@pytest.mark.parametrize("content", [b"", b"no zip", b"PK\x03\x04 broken"])
def test_the_error_names_a_file_that_is_not_a_run(tmp_path, content):
    path = tmp_path / "other.cf"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"other\.cf is not a run"):
        pipeline.load_run(path)


def test_a_run_of_another_format_is_refused(kept, tmp_path):
    old = tmp_path / "old.cf"
    with zipfile.ZipFile(tmp_path / "run.cf") as file, zipfile.ZipFile(old, "w") as copy:
        for name in file.namelist():
            content = file.read(name)
            copy.writestr(name, content.replace(b'"format": 1', b'"format": 99') if name == "run.json" else content)
    with pytest.raises(InputError, match="format 99"):
        pipeline.load_run(old)


def test_keys_are_those_of_the_reports(kept):
    assert kept[1].seen.dtype == np.uint64
    assert set(kept[1].seen) == set(tables.keys(kept[1].reports))
