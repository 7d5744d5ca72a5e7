"""The examples run, and show what their words say."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from crowdfield import geography

GALLERY = Path(__file__).parent.parent / "docs" / "gallery"
EXAMPLES = sorted(path.stem for path in GALLERY.glob("*.py"))


def example(name):
    spec = importlib.util.spec_from_file_location(f"gallery_{name}", GALLERY / f"{name}.py")
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_example_has_its_picture_and_its_place_in_the_index(name):
    assert (GALLERY / f"{name}.png").stat().st_size < 200_000
    index = (GALLERY / "README.md").read_text()
    assert f"]({name}.py)" in index and f"]({name}.png)" in index


def test_plain_csv_tells_the_reliable_from_the_guessing(tmp_path):
    table = example("plain_csv").main(tmp_path).table()
    kind = table["source"].str.rsplit("-", n=1).str[0]
    accuracy = table.groupby(kind)["accuracy"].mean()
    assert accuracy["reliable"] > accuracy["noisy"] + 0.2
    assert (tmp_path / "plain_csv.png").stat().st_size > 10_000


def test_damage_grades_follow_the_shaking(tmp_path):
    module = example("damage_classes")
    heatmap = module.main(tmp_path).heatmap
    destroyed, damaged = heatmap.of("destroyed").ravel(), heatmap.of("damaged").ravel()
    centres = module.GRID.centres()
    near = np.linalg.norm(centres - (503_000.0, 4_172_500.0), axis=1) < 2_000
    assert destroyed[near].mean() > damaged[near].mean() > 0.2 > heatmap.of("intact").ravel()[near].mean()
    assert destroyed[centres[:, 0] > 510_000].mean() < 0.3 * destroyed[near].mean()


def test_the_flood_is_found_at_every_hour(tmp_path):
    assert example("flood_in_time").main(tmp_path) > 0.97


def test_one_trusted_visit_turns_only_its_surroundings(tmp_path, monkeypatch, data_folder):
    monkeypatch.setenv("CROWDFIELD_DATA", str(data_folder))
    module = example("haiti")
    before, after = module.main(tmp_path)
    grid = before.heatmap.grid
    here = geography.transform([module.RESPONDER], "EPSG:4326", grid.crs)
    change = (after.heatmap.of("emergency") - before.heatmap.of("emergency")).ravel()
    distance = np.linalg.norm(grid.centres() - here, axis=1)
    assert change[distance < 2_000].mean() < -0.15
    assert np.abs(change[distance > 40_000]).max() < 0.1


def test_tacloban_is_ranked_almost_without_mistakes(tmp_path, monkeypatch, data_folder):
    monkeypatch.setenv("CROWDFIELD_DATA", str(data_folder))
    assert example("tacloban").main(tmp_path) > 0.97
