"""Rasters as covariates: the right value at the right place, and nothing that a file could do to us."""

import numpy as np
import pytest

from crowdfield import geography, io
from crowdfield.data import Grid, Raster
from crowdfield.errors import CrowdfieldError, InputError, ReportFormatError
from crowdfield.io.amounts import read_amounts

rasterio = pytest.importorskip("rasterio")
UTM = "EPSG:32618"


def write(path, values, transform, crs="EPSG:4326", **more):
    from rasterio.transform import Affine

    values = np.atleast_3d(np.asarray(values)).transpose(2, 0, 1) if np.ndim(values) == 2 else np.asarray(values)
    profile = {"driver": "GTiff", "height": values.shape[1], "width": values.shape[2], "count": values.shape[0]}
    with rasterio.open(path, "w", **profile, dtype=values.dtype, crs=crs, transform=Affine(*transform), **more) as file:
        file.write(values)
    return path


def slope(lon, lat):
    """A plane: interpolation gives it back exactly."""
    return 100.0 + 30.0 * (lon + 72.0) - 12.0 * (lat - 18.0)


@pytest.fixture(scope="module")
def degrees(tmp_path_factory):
    """A plane in degrees around Port-au-Prince, 0.01° a pixel."""
    lon, lat = -73.0 + 0.01 * (np.arange(150) + 0.5), 19.0 - 0.01 * (np.arange(120) + 0.5)
    values = slope(lon[None, :], lat[:, None]).astype(np.float32)
    return write(tmp_path_factory.mktemp("rasters") / "height.tif", values, (0.01, 0, -73.0, 0, -0.01, 19.0))


def test_values_are_found_through_the_reprojection(degrees):
    rng = np.random.default_rng(0)
    lonlat = np.column_stack([rng.uniform(-72.6, -72.0, 200), rng.uniform(18.2, 18.8, 200)])
    layer = io.read_covariates([degrees], UTM)
    assert layer.names == ("height",)
    got = layer(geography.transform(lonlat, "EPSG:4326", UTM))[:, 0]
    np.testing.assert_allclose(got, slope(*lonlat.T), atol=1e-3)


def test_only_what_lies_under_the_map_is_read(degrees):
    grid = geography.make_grid(region=(-72.4, 18.4, -72.3, 18.5), cell="1km")
    layer = io.read_covariates([degrees], str(grid.crs), grid)
    assert layer.rasters[0].values.size < 600
    whole = io.read_covariates([degrees], str(grid.crs))
    np.testing.assert_allclose(layer(grid.centres()), whole(grid.centres()), rtol=1e-5)


def test_a_raster_of_another_region_is_an_error(degrees):
    grid = geography.make_grid(region=(10.0, 50.0, 10.1, 50.1), cell="1km")
    with pytest.raises(InputError, match="this raster does not overlap the map"):
        io.read_covariates([degrees], str(grid.crs), grid)


def test_nodata_and_the_outside_are_missing(tmp_path):
    values = np.arange(12, dtype=np.int16).reshape(3, 4)
    values[1, 1] = -9999
    path = write(tmp_path / "gaps.tif", values, (10, 0, 0, 0, -10, 30), UTM, nodata=-9999)
    places = np.array([[5.0, 25.0], [15.0, 15.0], [-1.0, 15.0], [39.9, 0.1], [10.5, 20.0]])
    got = io.read_covariates([path], UTM)(places)[:, 0]
    assert got[0] == 0.0 and np.isnan(got[[1, 2]]).all() and got[3] == 11.0
    assert np.isfinite(got[4])  # beside the gap: its neighbours stand for themselves


def test_scale_and_offset_of_every_band_are_applied(tmp_path):
    path = write(tmp_path / "two.tif", np.ones((2, 3, 3), dtype=np.uint8), (1, 0, 0, 0, -1, 3), UTM)
    with rasterio.open(path, "r+") as file:
        file.scales, file.offsets = (0.5, 1.0), (10.0, 0.0)
        file.set_band_description(2, "people")
    layer = io.read_covariates([path], UTM)
    assert layer.names == ("two 1", "people")
    np.testing.assert_allclose(layer(np.array([[1.5, 1.5, 7.0]])), [[10.5, 1.0]])


def test_a_turn_of_longitude_changes_nothing():
    values = np.arange(360, dtype=np.float32)[None, :].repeat(4, axis=0)
    world = Raster("world", values, (1, 0, 0, 0, -1, 2), "EPSG:4326", turns=True)  # from 0 to 360
    np.testing.assert_allclose(world.at(np.array([[-90.0, 0.0], [270.0, 0.0]])), [269.5, 269.5])


def test_a_rotated_raster_is_sampled_at_the_right_places(tmp_path):
    """Rows and columns need not run along the axes."""
    path = write(tmp_path / "turned.tif", np.array([[1.0, 2.0], [3.0, 4.0]]), (0, 1, 0, 1, 0, 0), UTM)
    np.testing.assert_allclose(io.read_covariates([path], UTM)(np.array([[0.5, 1.5], [1.5, 0.5]]))[:, 0], [2.0, 3.0])


def test_large_rasters_are_averaged_down(tmp_path, degrees):
    from crowdfield.io import covariates

    path = tmp_path / "large.tif"
    with rasterio.open(
        path, "w", driver="GTiff", width=6000, height=6000, count=1, dtype="uint8", crs=UTM, compress="deflate",
        transform=rasterio.transform.Affine(1, 0, 0, 0, -1, 6000), tiled=True,
    ) as file:  # fmt: skip
        file.write(np.broadcast_to((np.arange(6000) // 100).astype(np.uint8), (6000, 6000)), 1)
    layer = io.read_covariates([path], UTM)
    assert layer.rasters[0].values.size <= covariates.MOST_PIXELS * 1.01
    np.testing.assert_allclose(layer(np.array([[3050.0, 10.0], [5950.0, 5990.0]]))[:, 0], [30.0, 59.0])


def test_people_of_a_large_raster_are_not_spread_over_pixels_without_a_value(tmp_path):
    """A coast of many inlets: where pixels are merged, as many people are there as before."""
    people = np.random.default_rng(0).integers(1, 9, (4200, 4200), dtype=np.uint8)
    sea = np.arange(4200) % 7 < 3
    people[:, sea] = 255
    path = tmp_path / "people.tif"
    with rasterio.open(
        path, "w", driver="GTiff", width=4200, height=4200, count=1, dtype="uint8", crs=UTM, nodata=255,
        transform=rasterio.transform.Affine(1, 0, 0, 0, -1, 4200), tiled=True,
    ) as file:  # fmt: skip
        file.write(people, 1)
    amounts = read_amounts(path, Grid(west=0.0, east=4200.0, south=0.0, north=4200.0, rows=4, columns=4, crs=UTM))
    assert amounts.sum() == pytest.approx(people[:, ~sea].sum(dtype=np.int64), rel=1e-6)


def test_bad_files_are_refused_in_our_words(tmp_path, degrees):
    plain = tmp_path / "plain.tif"
    plain.write_text("id,lat\n1,2\n")
    with pytest.raises(ReportFormatError, match="is not a GeoTIFF"):
        io.read_covariates([plain], UTM)
    cut = tmp_path / "cut.tif"
    cut.write_bytes(degrees.read_bytes()[:700])
    with pytest.raises(CrowdfieldError, match=r"cut\.tif"):
        io.read_covariates([cut], UTM)
    with pytest.raises(ReportFormatError, match="does not say its reference system"):
        io.read_covariates([write(tmp_path / "nowhere.tif", np.ones((2, 2)), (1, 0, 0, 0, -1, 2), None)], UTM)
    with pytest.raises(InputError, match="there is no file"):
        io.read_covariates([tmp_path / "none.tif"], UTM)
    with pytest.raises(InputError, match="two covariates are called 'height'"):
        io.read_covariates([degrees, degrees], UTM)


def test_a_file_that_names_another_is_not_followed(tmp_path, degrees):
    """A virtual raster is XML and would make GDAL open what it names; it never reaches GDAL."""
    virtual = tmp_path / "virtual.tif"
    named = f"<SourceFilename>{degrees}</SourceFilename>"
    virtual.write_text(f'<VRTDataset rasterXSize="1" rasterYSize="1">{named}</VRTDataset>')
    with pytest.raises(ReportFormatError, match="is not a GeoTIFF"):
        io.read_covariates([virtual], UTM)


def test_a_raster_of_one_pixel_has_that_value_everywhere():
    raster = Raster("one", np.array([[3.0]], dtype=np.float32), (2, 0, 0, 0, -2, 2), UTM)
    np.testing.assert_allclose(raster.at(np.array([[0.1, 0.1], [1.0, 1.0]])), [3.0, 3.0])
    with pytest.raises(InputError, match="no pixels"):
        Raster("none", np.empty((0, 3), dtype=np.float32), (2, 0, 0, 0, -2, 2), UTM)


def test_the_grid_of_a_window_at_the_edge_of_the_raster(degrees):
    west, north = geography.transform([[-73.0, 19.0]], "EPSG:4326", UTM)[0]
    grid = Grid(west=west - 3000, east=west + 3000, south=north - 3000, north=north + 3000, columns=6, rows=6, crs=UTM)
    got = io.read_covariates([degrees], UTM, grid)(grid.centres())[:, 0]
    assert np.isnan(got[:3]).all() and np.isfinite(got[-3:]).all()
