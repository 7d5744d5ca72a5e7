"""Covariates through the whole path: a raster beside the reports, its weight beside the map, both in the run's file."""

import json

import numpy as np
import pytest
from tests.io.test_covariates import write

from crowdfield import geography, pipeline
from crowdfield.data import Reports
from crowdfield.errors import InputError

pytest.importorskip("rasterio")
WEST, NORTH, SIDE = 34.72, -19.74, 0.18


def relief(lon, lat):
    """Valleys that are narrower than the length-scale."""
    return 20.0 + 8.0 * np.sin((lon - WEST) * 300.0) * np.cos((lat - NORTH) * 260.0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """reports.csv (half of them later.csv), elevation.tif with a hole in it."""
    folder, rng = tmp_path_factory.mktemp("valley"), np.random.default_rng(3)
    step = SIDE / 180
    lon, lat = WEST + step * (np.arange(180) + 0.5), NORTH - step * (np.arange(180) + 0.5)
    heights = relief(lon[None, :], lat[:, None]).astype(np.float32)
    heights[:20, :20] = -9999.0
    write(folder / "elevation.tif", heights, (step, 0, WEST, 0, -step, NORTH), nodata=-9999.0)
    where = np.column_stack([rng.uniform(WEST, WEST + SIDE, 240), rng.uniform(NORTH - SIDE, NORTH, 240)])
    where[0] = WEST + 0.005, NORTH - 0.005  # in the hole
    g = -1.4 * (relief(*where.T) - 20.0) / 4.0
    rows = ["source,lat,lon,label"]
    for (x, y), value in zip(where, g, strict=True):
        for who in rng.choice(8, 3, replace=False):
            said = "flooded" if rng.random() < 1 / (1 + np.exp(-value)) else "dry"
            rows.append(f"s{who},{y:.6f},{x:.6f},{said}")
    (folder / "reports.csv").write_text("\n".join(rows[:541]))
    (folder / "later.csv").write_text("\n".join([rows[0], *rows[541:]]))
    return folder


def test_from_the_command_line_and_back(folder, run, tmp_path):
    options = ["--cell", "1km", "--lengthscale", "10km", "--covariate", folder / "elevation.tif"]
    state = tmp_path / "run.cf"
    code, out, err = run("fuse", folder / "reports.csv", *options, "--state", state, "-o", tmp_path / "map.tif")
    assert code == 0, err
    assert "elevation: " in out and "means less flooded" in out and "no value at" in out
    assert "note: elevation is missing at" in err
    # The run holds what it was made with: it can be asked again without the raster ...
    code, out, err = run("next", state, "-n", 2, "--json", "--quiet")
    assert code == 0 and len(json.loads(out)) == 2, err
    # ... but not for reports at new places.
    code, _, err = run("fuse", folder / "later.csv", "--state", state, "-o", tmp_path / "map.tif", "--quiet")
    assert code == 1 and "elevation is not known at" in err and "--covariate" in err
    code, out, err = run("fuse", folder / "later.csv", *options[-2:], "--state", state, "--json", "--quiet")
    told = json.loads(out)
    assert code == 0 and told["reports"] == 720, err
    (row,) = told["covariates"]
    assert row["covariate"] == "elevation" and row["weight_high"] < 0 and row["missing_cells"] > 0
    code, out, err = run("score", state, folder / "later.csv", *options[-2:], "--json", "--quiet")
    assert code == 0 and json.loads(out)["places"] > 0, err


def test_a_kept_run_has_the_same_map(folder, tmp_path):
    from crowdfield import io

    reports = io.read(folder / "reports.csv").reports
    settings = pipeline.Settings(cell="2km", lengthscale="10km", covariates=[str(folder / "elevation.tif")])
    with pytest.warns(UserWarning, match="elevation is missing"):
        fused = pipeline.fuse(reports, settings)
    assert fused.heatmap.metadata["covariates"][0]["covariate"] == "elevation"
    pipeline.save_run(fused, tmp_path / "run.cf")
    again = pipeline.load_run(tmp_path / "run.cf")  # no second warning about the gaps
    np.testing.assert_allclose(again.heatmap.probability, fused.heatmap.probability, atol=1e-9)
    assert again.settings == fused.settings


def test_covariates_are_settings_and_are_refused_over_a_cluster(folder):
    with pytest.raises(InputError, match="covariates is a list of files"):
        pipeline.Settings(covariates="elevation.tif")
    X = geography.transform([[WEST + 0.1, NORTH - 0.1], [WEST + 0.05, NORTH - 0.1]], "EPSG:4326", "EPSG:32736")
    reports = Reports.from_arrays(X, ["dry", "flooded"], crs="EPSG:32736")
    settings = pipeline.Settings(cell="1km", covariates=[str(folder / "elevation.tif")])
    with pytest.raises(InputError, match="cannot be fitted over a cluster"):
        pipeline.fuse(reports, settings, fit=lambda model, reports: model)
