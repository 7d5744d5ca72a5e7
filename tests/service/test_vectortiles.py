"""A PMTiles file of the operator's own, served tile by tile."""

import gzip
import io

import pytest
from tests.service.street_tiles import streets, write_pmtiles

from crowdfield.errors import InputError
from crowdfield.service.vectortiles import VectorTiles


def test_tiles_of_a_file_are_served_and_described(make_workspace, tmp_path):
    path = write_pmtiles(tmp_path / "haiti.pmtiles", {(0, 0, 0): streets()})
    client = make_workspace(basemap=path).client()
    about = client.get("/basemap/about.json").json()
    assert about == {"minzoom": 0, "maxzoom": 0, "bounds": [-180.0, -85.0, 180.0, 85.0], "attribution": ""}
    tile = client.get("/basemap/0/0/0.mvt")
    assert tile.content == streets() and tile.headers["content-type"] == "application/vnd.mapbox-vector-tile"
    plain = client.get("/basemap/0/0/0.mvt", headers={"Accept-Encoding": "identity"})
    assert plain.content == streets() and "content-encoding" not in plain.headers
    assert client.get("/basemap/3/1/1.mvt").status_code == 204
    assert client.get("/basemap/1/2/0.mvt").status_code == 404
    # The outlines are still there: they tell land from sea.
    assert client.get("/basemap.json").json()["type"] == "FeatureCollection"


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ('<a href="https://www.openstreetmap.org/copyright">&copy; OpenStreetMap</a>', "© OpenStreetMap"),
        ("<script>alert(1)</script>", "alert(1)"),
        (["© everybody"], ""),
        ("x" * 5000, "x" * 200),
    ],
)
def test_the_maker_of_a_basemap_is_named_as_plain_text(tmp_path, said, shown):
    path = write_pmtiles(tmp_path / "haiti.pmtiles", {(0, 0, 0): streets()}, attribution=said)
    assert VectorTiles(path).about["attribution"] == shown


def test_without_such_a_file_there_are_no_tiles(make_workspace):
    client = make_workspace().client()
    assert client.get("/basemap/about.json").json() is None
    assert client.get("/basemap/0/0/0.mvt").status_code == 404


@pytest.mark.parametrize(
    "content",
    [b"", b"PMTiles", b"PK" + bytes(200), gzip.compress(b"x" * 500, mtime=0)],
    ids=["empty", "cut off", "zip", "gzip"],
)
def test_a_file_of_another_kind_is_refused(tmp_path, content):
    path = tmp_path / "wrong.pmtiles"
    path.write_bytes(content)
    with pytest.raises(InputError, match="not a PMTiles file"):
        VectorTiles(path)


def test_pictures_are_refused(tmp_path):
    path = write_pmtiles(tmp_path / "pictures.pmtiles", {(0, 0, 0): b"x"}, kind="PNG")
    with pytest.raises(InputError, match="another type"):
        VectorTiles(path)


def test_a_file_with_many_tiles_is_found_through_its_leaves(tmp_path):
    tiles = {(8, x, y): io.BytesIO(bytes([x, y])).getvalue() for x in range(256) for y in range(0, 256, 5)}
    own = VectorTiles(write_pmtiles(tmp_path / "many.pmtiles", tiles))
    for z, x, y in ((8, 0, 0), (8, 200, 100), (8, 255, 255)):
        assert gzip.decompress(own.tile(z, x, y) or b"") == bytes([x, y])
    assert own.tile(8, 3, 1) is None
