"""What is fuzzed: each target takes bytes. Our own errors are fine; anything else that is raised is a finding."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from crowdfield import io
from crowdfield.box import message
from crowdfield.errors import CrowdfieldError
from crowdfield.io import kinds, systems
from crowdfield.io.features import common, geoparquet, shapes

TARGETS: dict[str, Callable[[bytes], None]] = {}
# One folder, one file, written anew for each input: on most machines it never leaves the memory.
_FOLDER = tempfile.TemporaryDirectory(prefix="fuzz-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)


def target(run: Callable[[bytes], None]) -> Callable[[bytes], None]:
    TARGETS[run.__name__] = run
    return run


def saved(content: bytes, name: str = "input") -> Path:
    path = Path(_FOLDER.name) / name
    path.write_bytes(content)
    return path


def read(content: bytes) -> None:
    """A whole file: it is read and its rows add up, or it is an error of ours."""
    try:
        result = io.read(saved(content))
    except CrowdfieldError as error:
        assert str(error) and len(str(error)) < 3000, "an error must say something, and not everything"
        return
    assert result.used + result.duplicate + result.rejected == result.read, "rows do not add up"
    assert len(result.rejects) == result.rejected
    assert len(result.lines()) == len(result.reports) >= result.used >= 1


def features(kind: kinds.Kind, content: bytes) -> None:
    """The features of a file that has passed for this kind."""
    try:
        found = common.read(saved(content), kinds.Found(kind))
    except CrowdfieldError:
        return
    assert len(found.kinds) == len(found.shapes) > 0
    assert all(len(column) == len(found) for column in found.columns.values())


@target
def table(content: bytes) -> None:
    read(content)


@target
def zooniverse(content: bytes) -> None:
    read(content)


@target
def mapswipe(content: bytes) -> None:
    read(content)


@target
def ushahidi(content: bytes) -> None:
    read(content)


@target
def archive(content: bytes) -> None:
    read(content)


@target
def geojson(content: bytes) -> None:
    features(kinds.GEOJSON, content)


@target
def kml(content: bytes) -> None:
    features(kinds.KML, content)


@target
def gpx(content: bytes) -> None:
    features(kinds.GPX, content)


@target
def html(content: bytes) -> None:
    features(kinds.HTML, content)


@target
def geopackage(content: bytes) -> None:
    features(kinds.GEOPACKAGE, content)


@target
def shapefile(content: bytes) -> None:
    """The first two bytes say how long the .shp is; the .dbf is the rest."""
    size = int.from_bytes(content[:2], "little")
    path = saved(content[2 : 2 + size], "input.shp")
    saved(content[2 + size :], "input.dbf")
    try:
        common.read(path, kinds.Found(kinds.SHAPEFILE))
    except CrowdfieldError:
        return


@target
def parquet(content: bytes) -> None:
    """Read here and not in a box, as the box itself does it."""
    try:
        geoparquet.read(saved(content), kinds.Found(kinds.GEOPARQUET))
    except CrowdfieldError:
        return


@target
def geometry(content: bytes) -> None:
    """Well-known binary and text."""
    made, names = shapes.from_wkb([content, None])
    assert len(made) == len(names) == 2
    shapes.from_wkt(content.decode("utf-8", "replace"))


@target
def system(content: bytes) -> None:
    """The definition of a coordinate reference system."""
    text = content.decode("utf-8", "replace")
    for understand in (systems.by_definition, systems.by_name):
        try:
            assert understand(text)
        except systems.UnknownSystem:
            continue


@target
def answer(content: bytes) -> None:
    """The answer of a process that a file may have taken over."""
    try:
        message.unpacked(content)
    except message.Garbled:
        return
