"""What we write, other people's readers find: in the right place, with the right values, whole or not at all."""

import csv
import json
import zipfile
from importlib.resources import files
from xml.etree import ElementTree

import h5py
import numpy as np
import pyogrio
import pyproj
import pytest
import rasterio
import shapely
from lxml import etree
from rio_cogeo.cogeo import cog_validate

from crowdfield import io
from crowdfield.data import Grid, Heatmap
from crowdfield.errors import InputError, ReportFormatError
from crowdfield.io.layers import layers
from crowdfield.io.table import safe
from crowdfield.io.vector import to_lonlat

BEIRA = Grid(690_000, 702_000, 7_796_000, 7_806_000, 24, 20, "EPSG:32736")
FIJI = Grid(3_310_000, 3_370_000, -1_920_000, -1_880_000, 12, 8, "EPSG:3832")  # on both sides of 180°


def make(grid=BEIRA, states=("dry", "flooded"), **metadata):
    rng = np.random.default_rng(3)
    probability = rng.dirichlet(np.ones(len(states)), grid.shape)
    sd = rng.uniform(0, 0.3, probability.shape)
    probability[2:4, 1:3] = sd[2:4, 1:3] = np.nan
    about = {"title": "Beira & around", "model": {"lengthscale": 2000.0}, "input": "sha256:ab", "seed": 0, **metadata}
    return Heatmap(grid, states, probability, sd, rng.poisson(0.5, grid.shape), about)


def at_centres(heatmap, lon, lat):
    """The values the map has at given longitudes and latitudes."""
    back = pyproj.Transformer.from_crs("EPSG:4326", heatmap.grid.crs, always_xy=True)
    cell = heatmap.grid.index(np.column_stack(back.transform(lon, lat)))
    assert (cell >= 0).all()
    return heatmap.probability.reshape(-1, len(heatmap.states))[cell]


def test_cog_is_valid_and_gdal_finds_every_value_in_its_place(tmp_path):
    heatmap = make()
    path = io.write(heatmap, tmp_path / "map.tif")
    valid, errors, warnings = cog_validate(path, strict=True)
    assert valid and not errors and not warnings
    with rasterio.open(path) as file:
        assert file.crs.to_epsg() == 32736
        assert file.descriptions == tuple(layers(heatmap))
        assert set(file.dtypes) == {"float32"} and np.isnan(file.nodata)
        east, north = heatmap.grid.centres().T
        for number, (name, values) in enumerate(layers(heatmap).items(), 1):
            found = np.array([v[0] for v in file.sample(zip(east, north, strict=True), number)])
            np.testing.assert_array_equal(found, values.ravel(), err_msg=name)
        tags = file.tags()
    assert json.loads(tags["CROWDFIELD_MODEL"]) == {"lengthscale": 2000.0}
    assert tags["CROWDFIELD_SOFTWARE"].startswith("crowdfield ")


def test_a_large_cog_has_overviews_that_are_values_of_the_map(tmp_path):
    heatmap = make(Grid(0, 1100, 0, 1100, 1100, 1100, "EPSG:32633"))
    path = io.write(heatmap, tmp_path / "large.tif")
    assert cog_validate(path, strict=True)[0]
    with rasterio.open(path) as file:
        assert file.overviews(1)
        small = file.read(file.descriptions.index("most_probable") + 1, out_shape=(100, 100))
    assert set(np.unique(small[~np.isnan(small)])) <= {0.0, 1.0}


@pytest.mark.parametrize("suffix", [".tif", ".nc"])
@pytest.mark.parametrize("states", [("dry", "flooded"), (0, 1, 2)])
def test_maps_come_back_as_they_were(tmp_path, suffix, states):
    heatmap = make(states=states)
    back = io.read_map(io.write(heatmap, tmp_path / f"map{suffix}"))
    assert back.grid.crs == heatmap.grid.crs and back.states == heatmap.states and back.grid.shape == heatmap.grid.shape
    np.testing.assert_allclose(back.grid.bounds, heatmap.grid.bounds, rtol=1e-12)
    np.testing.assert_allclose(back.probability, heatmap.probability, atol=1e-7)
    np.testing.assert_allclose(back.sd, heatmap.sd, atol=1e-7)
    np.testing.assert_array_equal(back.reports[heatmap.mask], heatmap.reports[heatmap.mask])
    assert back.metadata["title"] == "Beira & around" and back.metadata["model"] == {"lengthscale": 2000.0}


def test_netcdf_tells_other_readers_where_it_is(tmp_path):
    import xarray

    path = io.write(make(), tmp_path / "map.nc")
    with xarray.open_dataset(path, engine="h5netcdf") as dataset:
        mapping = dataset["spatial_ref"].attrs
        assert pyproj.CRS.from_cf(mapping).to_epsg() == 32736
        names = dataset.set_index(state="state_name")
        assert names["probability"].sel(state="flooded").shape == BEIRA.shape


def test_netcdf_keeps_to_the_convention(tmp_path):
    """CF 1.8, 1.3: coordinate variables (named as their dimension) are numbers and monotonic; labels are auxiliary."""
    heatmap = make()
    accented = Heatmap(heatmap.grid, ("sec", "inondé"), heatmap.probability, heatmap.sd, heatmap.reports)
    path = io.write(accented, tmp_path / "map.nc")
    with h5py.File(path) as file:
        axes = {str(name): file[name] for name in file if "CLASS" in file[name].attrs}
        for name, axis in axes.items():
            if b"This is a netCDF dimension but not a netCDF variable" not in axis.attrs["NAME"]:
                assert (
                    axis.dtype.kind in "fi" and axis.dtype.itemsize <= 8 and len(set(np.sign(np.diff(axis[:])))) == 1
                ), name
        assert {"x", "y"} <= set(axes)
        assert file["state_name"].dtype == "S1" and file["reports"].dtype == np.int32
        assert b"state_name" in np.atleast_1d(file["probability"].attrs["coordinates"])[0].encode().split()
    assert io.read_map(path).states == ("sec", "inondé")


@pytest.mark.parametrize("suffix", [".geojson", ".gpkg", ".parquet", ".kml"])
def test_polygons_are_read_back_in_place_with_their_values(tmp_path, suffix):
    heatmap = make()
    path = io.write(heatmap, tmp_path / f"map{suffix}")
    if suffix == ".parquet":
        import geopandas

        frame = geopandas.read_parquet(path)
    else:
        frame = pyogrio.read_dataframe(path)
    assert len(frame) == heatmap.mask.sum()
    assert frame.geometry.is_valid.all()
    native = frame.to_crs(heatmap.grid.crs)
    centre = np.column_stack([native.geometry.centroid.x, native.geometry.centroid.y])
    expected = heatmap.grid.centres()[heatmap.mask.ravel()]
    assert np.abs(centre - expected).max() < 0.01 * heatmap.grid.cell_width
    for j, state in enumerate(heatmap.states):
        found = frame[f"probability_{state}"].to_numpy(float)
        np.testing.assert_allclose(found, heatmap.probability[..., j][heatmap.mask], atol=2e-7)
    assert frame["reports"].astype(int).tolist() == heatmap.reports[heatmap.mask].tolist()
    assert set(frame["most_probable"]) == {"dry", "flooded"}


def test_vector_files_carry_how_they_were_made(tmp_path):
    import pyarrow.parquet

    heatmap = make()
    about = json.loads(io.write(heatmap, tmp_path / "m.geojson").read_text())["metadata"]
    assert about["crs"] == "EPSG:32736" and about["input"] == "sha256:ab" and about["seed"] == 0
    kept = pyarrow.parquet.read_schema(io.write(heatmap, tmp_path / "m.parquet")).metadata
    assert json.loads(kept[b"crowdfield"])["title"] == "Beira & around"
    info = pyogrio.read_info(io.write(heatmap, tmp_path / "m.gpkg"))
    assert info["dataset_metadata"]["input"] == "sha256:ab"


def rfc_7946(document):
    """What RFC 7946 asks of a collection of polygons, section by section."""
    assert document["type"] == "FeatureCollection" and isinstance(document["features"], list)  # 3.3
    assert not {"crs", "coordinates", "geometry", "properties"} & set(document)  # 4, 7.1
    names = [feature.get("id") for feature in document["features"]]
    assert all(name is None or isinstance(name, str | int | float) for name in names)  # 3.2
    for feature in document["features"]:
        assert feature["type"] == "Feature" and isinstance(feature["properties"], dict)  # 3.2
        assert not {"coordinates", "geometries", "features"} & set(feature)  # 7.1
        shape = feature["geometry"]
        assert set(shape) == {"type", "coordinates"}
        parts = {"Polygon": lambda c: [c], "MultiPolygon": list}[shape["type"]](shape["coordinates"])
        for polygon in parts:
            for number, ring in enumerate(polygon):
                assert len(ring) >= 4 and ring[0] == ring[-1]  # 3.1.6: closed
                assert all(len(place) == 2 and abs(place[0]) <= 180 and abs(place[1]) <= 90 for place in ring)  # 4
                assert shapely.LinearRing(ring).is_ccw == (number == 0)  # 3.1.6: outer rings anticlockwise
                assert np.ptp(np.array(ring)[:, 0]) < 180  # 3.1.9: nothing crosses the antimeridian


@pytest.mark.parametrize("grid", [BEIRA, FIJI])
def test_geojson_follows_the_standard(tmp_path, grid):
    document = json.loads(io.write(make(grid), tmp_path / "m.geojson").read_text())
    rfc_7946(document)
    assert len(document["features"]) == grid.size - 4
    io.write_looks(grid.centres()[:5], tmp_path / "next.geojson", crs=grid.crs, size=9_000.0)
    rfc_7946(json.loads((tmp_path / "next.geojson").read_text()))


def test_csv_says_beside_it_how_it_was_made(tmp_path):
    """In the form and under the name of the W3C's CSV on the Web, as comments would break HXL."""
    path = io.write(make(), tmp_path / "m.csv")
    about = json.loads((tmp_path / "m.csv-metadata.json").read_text())
    assert about["@context"] == "http://www.w3.org/ns/csvw" and about["url"] == "m.csv"
    with path.open(newline="") as file:
        top = list(csv.reader(file))[: about["dialect"]["headerRowCount"]]
    assert [tuple(column["titles"]) for column in about["tableSchema"]["columns"]] == list(zip(*top, strict=True))
    (note,) = about["notes"]
    assert note["crs"] == BEIRA.crs and note["input"] == "sha256:ab" and note["software"].startswith("crowdfield ")


def test_cells_on_the_antimeridian_are_split(tmp_path):
    """A strip across Taveuni, Fiji: no polygon may run around the Earth."""
    east, north = pyproj.Transformer.from_crs("EPSG:4326", "EPSG:32760", always_xy=True).transform(180.0, -16.8)
    grid = Grid(east - 5_200, east + 4_800, north - 4_000, north + 4_000, 10, 8, "EPSG:32760")
    heatmap = make(grid)
    document = json.loads(io.write(heatmap, tmp_path / "m.geojson").read_text())
    shapes = [shapely.geometry.shape(feature["geometry"]) for feature in document["features"]]
    assert {shape.geom_type for shape in shapes} == {"Polygon", "MultiPolygon"}
    for shape in shapes:
        assert shape.is_valid
        for part in getattr(shape, "geoms", [shape]):
            assert part.bounds[2] - part.bounds[0] < 0.1 and part.bounds[0] >= -180 and part.bounds[2] <= 180
    # the pieces together are as large as the uncut cells, in degrees
    uncut = [shape.area for shape in shapes if shape.geom_type == "Polygon"]
    cut = [shape.area for shape in shapes if shape.geom_type == "MultiPolygon"]
    np.testing.assert_allclose(cut, np.mean(uncut), rtol=0.01)


def test_kml_is_well_formed_and_coloured(tmp_path):
    root = ElementTree.parse(io.write(make(), tmp_path / "m.kml")).getroot()
    space = {"k": "http://www.opengis.net/kml/2.2"}
    assert root.tag == "{http://www.opengis.net/kml/2.2}kml"
    styles = {f"#{style.get('id')}" for style in root.iterfind(".//k:Style", space)}
    used = {element.text for element in root.iterfind(".//k:Placemark/k:styleUrl", space)}
    assert used == styles
    assert root.find(".//k:Document/k:name", space).text == "Beira & around"
    order = list(dict.fromkeys(element.tag.split("}")[1] for element in root.find("k:Document", space)))
    assert order == ["name", "Style", "ExtendedData", "Schema", "Folder"]  # the sequence of the OGC schema
    mark = root.find(".//k:Placemark", space)
    assert [element.tag.split("}")[1] for element in mark] == ["styleUrl", "ExtendedData", "Polygon"]


def ogc_schema():
    """The OGC's schema of KML 2.2, which fastkml brings with it."""
    return etree.XMLSchema(etree.parse(str(files("fastkml") / "schema" / "ogckml22.xsd")))


@pytest.mark.parametrize("grid", [BEIRA, FIJI])
@pytest.mark.parametrize("suffix", [".kml", ".kmz"])
def test_kml_is_valid_by_the_schema_of_the_ogc(tmp_path, suffix, grid):
    path = io.write(make(grid), tmp_path / f"m{suffix}")
    text = zipfile.ZipFile(path).read("doc.kml") if suffix == ".kmz" else path.read_bytes()
    schema = ogc_schema()
    assert schema.validate(etree.fromstring(text)), schema.error_log


@pytest.mark.parametrize(("grid", "pictures"), [(BEIRA, 1), (FIJI, 2)])
def test_kmz_lays_its_picture_where_the_map_is(tmp_path, grid, pictures):
    """Two pictures where the map crosses the antimeridian: no longitude in KML lies beyond 180."""
    from PIL import Image

    from crowdfield.plot import colours

    heatmap = make(grid)
    painted = np.round(colours(heatmap) * 255).reshape(-1, 4)
    lonlat = to_lonlat(grid.centres(), grid.crs)
    checked = 0
    with zipfile.ZipFile(io.write(heatmap, tmp_path / "m.kmz")) as archive:
        overlays = ElementTree.fromstring(archive.read("doc.kml")).findall(".//{*}GroundOverlay")
        assert len(overlays) == pictures
        for overlay in overlays:
            box = {e.tag.split("}")[1]: float(e.text or "") for e in overlay.find("{*}LatLonBox")}
            with archive.open(overlay.find("{*}Icon/{*}href").text or "") as file:
                pixels = np.asarray(Image.open(file))
            column = (lonlat[:, 0] - box["west"]) / (box["east"] - box["west"]) * pixels.shape[1]
            row = (box["north"] - lonlat[:, 1]) / (box["north"] - box["south"]) * pixels.shape[0]
            here = (column >= 0) & (column < pixels.shape[1])
            found = pixels[row[here].astype(int), column[here].astype(int)]
            np.testing.assert_allclose(found, painted[here], atol=1)
            checked += int(np.count_nonzero(here))
    assert checked == grid.size


def test_png_and_world_file_agree(tmp_path):
    from crowdfield.plot import colours

    heatmap = make()
    path = io.write(heatmap, tmp_path / "m.png", bare=True)
    assert {p.name for p in tmp_path.iterdir()} == {"m.png", "m.pgw", "m.prj", "m.png.aux.xml"}
    assert pyproj.CRS.from_wkt((tmp_path / "m.prj").read_text()).to_epsg(20) == 32736
    with rasterio.open(path) as file:
        np.testing.assert_allclose(file.bounds, (690_000, 7_796_000, 702_000, 7_806_000), atol=1e-6)
        assert file.crs.to_epsg() == 32736
        found = np.array(list(file.sample(heatmap.grid.centres())))
    np.testing.assert_allclose(found, np.round(colours(heatmap) * 255).reshape(-1, 4), atol=1)


def test_a_vector_picture_keeps_its_text(tmp_path):
    text = io.write(make(), tmp_path / "m.svg", title="Inondé à Beira").read_text()
    assert "Inondé à Beira" in text and "<text" in text and "nobody knows" in text
    assert io.write(make(), tmp_path / "m.pdf", size="a4").read_bytes().startswith(b"%PDF")
    with pytest.raises(InputError, match=r"only a \.png can be bare"):
        io.write(make(), tmp_path / "m.svg", bare=True)


def test_csv_has_hxl_tags_and_plain_numbers(tmp_path):
    heatmap = make()
    with io.write(heatmap, tmp_path / "m.csv").open(newline="") as file:
        header, tags, *rows = list(csv.reader(file))
    assert header[:4] == ["lat", "lon", "easting", "northing"]
    assert tags[:2] == ["#geo+lat", "#geo+lon"] and "#indicator+probability+flooded+num" in tags
    assert all(tag.startswith("#") for tag in tags)
    table = {name: [row[i] for row in rows] for i, name in enumerate(header)}
    lon, lat = np.array(table["lon"], float), np.array(table["lat"], float)
    np.testing.assert_allclose(
        np.array(table["probability_flooded"], float), at_centres(heatmap, lon, lat)[:, 1], atol=1e-7
    )


def test_text_that_a_spreadsheet_would_run_is_disarmed(tmp_path):
    heatmap = make(states=('=HYPERLINK("http://x")', "-safe"))
    with io.write(heatmap, tmp_path / "m.csv").open(newline="") as file:
        header, _, *rows = list(csv.reader(file))
    states = {row[header.index("most_probable")] for row in rows}
    assert states == {'\'=HYPERLINK("http://x")', "'-safe"}
    assert safe(-1.5) == -1.5 and safe("+1") == "'+1" and safe("@x") == "'@x" and safe("x=1") == "x=1"


def test_areas_to_look_at_are_squares_around_the_places(tmp_path):
    places = BEIRA.centres()[[5, 100]]
    path = tmp_path / "next.geojson"
    io.write_looks(
        places, path, crs=str(BEIRA.crs), size=800.0, properties=[{"score": 0.5}, {"score": np.float64(0.25)}]
    )
    frame = pyogrio.read_dataframe(path)
    assert frame["rank"].tolist() == [1, 2] and frame["score"].tolist() == [0.5, 0.25]
    native = frame.to_crs(BEIRA.crs).geometry
    np.testing.assert_allclose(np.column_stack([native.centroid.x, native.centroid.y]), places, atol=0.05)
    np.testing.assert_allclose(native.area, 800.0**2, rtol=1e-3)


@pytest.mark.parametrize("suffix", sorted(io.FORMATS))
def test_every_format_is_the_same_for_the_same_map_and_leaves_nothing_else(tmp_path, suffix):
    first, second = (io.write(make(), tmp_path / f"{name}{suffix}") for name in ("a", "b"))
    if suffix not in (".gpkg", ".nc"):  # these hold the moment of writing by their own standards
        assert first.read_bytes() == second.read_bytes()
    assert not [p for p in tmp_path.iterdir() if p.name.startswith(".")]


@pytest.mark.parametrize("suffix", sorted(io.FORMATS))
def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path, suffix, monkeypatch):
    path = tmp_path / f"map{suffix}"
    path.write_text("the old one")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(OSError, match="No space"):
        io.write(make(), path)
    assert path.read_text() == "the old one" and list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda folder: io.write(make(), folder / "map.shp"), "Use one of: .tif"),
        (lambda folder: io.write(make(), folder / "none" / "map.tif"), "does not exist"),
        (lambda folder: io.write(make(Grid(0, 1, 0, 1, 8, 8)), folder / "map.geojson"), "no reference system"),
        (lambda folder: io.read_map(folder / "none.tif"), "no file"),
        (lambda folder: io.read_map(_text(folder / "a.csv")), r"\.tif and \.nc"),
        (lambda folder: io.write_looks([[0, 0]], folder / "x.geojson", crs="EPSG:32633", size=-1), "positive"),
    ],
)
def test_what_cannot_be_done_is_said(tmp_path, call, words):
    with pytest.raises(InputError, match=words):
        call(tmp_path)


@pytest.mark.parametrize("suffix", [".tif", ".nc"])
def test_the_error_names_a_file_that_is_not_a_map(tmp_path, suffix):
    with pytest.raises(ReportFormatError, match="broken"):
        io.read_map(_text(tmp_path / f"broken{suffix}"))


def _text(path):
    path.write_text("not a map")
    return path


def test_a_geopackage_is_of_a_version_that_older_programs_know(tmp_path):
    """GDAL 3.6 warns of 1.4, which newer versions of it write by themselves."""
    written = io.write(make(), tmp_path / "map.gpkg").read_bytes()
    assert int.from_bytes(written[60:64], "big") == 10200  # user_version of SQLite: GeoPackage 1.2


def test_netcdf_says_what_the_cf_convention_asks_for(tmp_path):
    import h5py

    with h5py.File(io.write(make(), tmp_path / "map.nc")) as file:
        said = {name: {k: v for k, v in file[name].attrs.items() if isinstance(v, str)} for name in file}
        about = {name: value for name, value in file.attrs.items() if isinstance(value, str)}
        assert not any("_FillValue" in file[axis].attrs for axis in ("x", "y"))
    assert said["x"]["standard_name"] == "projection_x_coordinate" and said["x"]["units"] == "m"
    assert said["y"]["standard_name"] == "projection_y_coordinate" and said["y"]["units"] == "m"
    for name in ("probability", "sd", "entropy", "most_probable", "reports"):
        assert said[name]["long_name"] and said[name]["units"]
    assert about["Conventions"].startswith("CF-") and about["title"] and about["history"]
