"""Reports as vector tiles: every report is in exactly one of them, readers get published cells, answers stay small."""

import time

import numpy as np
import pytest
from tests.service.workspace import FLOOD, REGION

from crowdfield.service import mvt, pointtiles
from crowdfield.service.layouts import build
from crowdfield.service.reporttable import ReportTable
from crowdfield.service.schemas import NewSituation


class Row:
    """A row of the log."""

    def __init__(self, i, longitude, latitude, label="dry"):
        self.id, self.longitude, self.latitude, self.label = str(i), longitude, latitude, label
        self.source, self.time, self.received = f"s{i % 7}", None, 100.0 + i
        self.observations, self.seq = None, i


SITUATION = build(NewSituation(**FLOOD))


def numbers(content):
    """The fields of a protobuf message as (number, value), values whole numbers or bytes."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = content[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(content):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
        else:
            length = varint()
            yield key >> 3, content[at : at + length]
            at += length


def decoded(tile):
    """The points of a tile by an independent reading of the format: (x, y, properties)."""
    ((number, layer),) = list(numbers(tile))
    fields = list(numbers(layer))
    assert number == 3 and dict(fields)[15] == 2 and dict(fields)[5] == mvt.EXTENT and dict(fields)[1] == b"points"
    keys = [value.decode() for n, value in fields if n == 3]
    values = [v.decode() if n == 1 else v for m, value in fields if m == 4 for n, v in numbers(value)]
    points = []
    for n, feature in fields:
        if n != 2:
            continue
        parts = dict(numbers(feature))
        tags = [v for _, v in numbers(b"".join(bytes([8]) + _one(parts[2], i) for i in range(_count(parts[2]))))]
        command, x, y = [v for _, v in numbers(b"".join(bytes([8]) + _one(parts[4], i) for i in range(3)))]
        assert command == 9 and parts[3] == 1
        about = {keys[k]: values[v] for k, v in zip(tags[::2], tags[1::2], strict=True)}
        points.append((x >> 1, y >> 1, about))
    return points


def test_circles_do_not_hide_each_others_numbers():
    rng = np.random.default_rng(0)
    places = rng.normal([-72.3, 18.5], 0.05, (3000, 2))
    table = ReportTable.of([Row(i, x, y) for i, (x, y) in enumerate(places.tolist())])
    points = pointtiles.of_reports(SITUATION, table)
    across, down = int(points.x[0] * 2**8), int(points.y[0] * 2**8)
    drawn = decoded(points.tile(8, across, down))
    assert len(drawn) > 5
    where = np.array([(x, y) for x, y, _ in drawn], dtype=float)
    gaps = np.hypot(*(where[:, None] - where[None]).transpose(2, 0, 1))
    np.fill_diagonal(gaps, np.inf)
    assert gaps.min() > pointtiles.APART - 2  # coordinates are rounded
    in_tile = (points.x * 2**8 // 1 == across) & (points.y * 2**8 // 1 == down)
    assert sum(about["count"] for _, _, about in drawn) == in_tile.sum()


def _ends(content):
    return [i + 1 for i, byte in enumerate(content) if byte < 0x80]


def _count(content):
    return len(_ends(content))


def _one(content, i):
    ends = [0, *_ends(content)]
    return content[ends[i] : ends[i + 1]]


def table_of(rows):
    return pointtiles.of_reports(SITUATION, ReportTable.of(rows))


def crowd(n):
    west, south, east, north = REGION
    places = np.random.default_rng(0).uniform((west, south), (east, north), (n, 2)).tolist()
    return [Row(i, x, y, label=("dry", "flooded")[x > -72.3]) for i, (x, y) in enumerate(places)]


@pytest.mark.parametrize("z", [0, 7, 10, 14])
def test_every_report_counts_in_exactly_one_tile_of_each_zoom(z):
    table = table_of(crowd(500))
    columns, rows = {int(x) for x in table.x * 2**z}, {int(y) for y in table.y * 2**z}
    tiles = [table.tile(z, x, y) for x in columns for y in rows]
    points = [point for tile in tiles if tile for point in decoded(tile)]
    assert sum(about["count"] for *_, about in points) == 500
    assert all(0 <= x < mvt.EXTENT and 0 <= y < mvt.EXTENT for x, y, _ in points)
    alone = [about for *_, about in points if about["count"] == 1]
    assert all({"id", "source", "time", "label"} <= set(about) for about in alone)
    assert (len(alone) > 400) == (z >= 14)


def test_a_point_lies_where_its_report_was_made():
    table = table_of([Row(0, -72.3, 18.5, "flooded")])
    ((x, y, about),) = decoded(table.tile(10, 306, 458))
    assert about == {"count": 1, "label": "flooded", "id": "0", "source": "s0", "time": 100}
    longitude = (306 + x / mvt.EXTENT) / 2**10 * 360 - 180
    latitude = np.degrees(np.arctan(np.sinh(np.pi * (1 - 2 * (458 + y / mvt.EXTENT) / 2**10))))
    assert (longitude, latitude) == pytest.approx((-72.3, 18.5), abs=2e-4)
    assert table.tile(10, 0, 0) == b""


def test_a_cluster_says_how_many_say_what_and_whether_they_share_a_place():
    rows = [Row(0, -72.3, 18.5, "flooded"), Row(1, -72.3, 18.5, "dry"), Row(2, -72.3, 18.5, "dry")]
    table = table_of(rows)
    ((_, _, about),) = decoded(table.tile(18, int(table.x[0] * 2**18), int(table.y[0] * 2**18)))
    assert about == {"count": 3, "label": "dry", "points": 3, "label_0": 2, "label_1": 1, "one_place": 1}
    rows.append(Row(3, -72.3001, 18.5, "flooded"))
    ((_, _, about),) = decoded(table_of(rows).tile(0, 0, 0))
    assert about["points"] == 4 and "one_place" not in about


def test_a_hundred_thousand_reports_are_small_tiles_in_little_time():
    table = table_of(crowd(100_000))
    x, y = int(table.x[0] * 2**9), int(table.y[0] * 2**9)
    began = time.process_time()
    tile = table.tile(9, x, y)
    assert time.process_time() - began < 1.0 and len(decoded(tile)) <= (mvt.EXTENT // pointtiles.CLUSTER) ** 2
    assert len(tile) < 200_000


def test_readers_get_published_cells_and_trusted_keys_reports(workspace):
    admin = workspace.client("admin")
    rows = [
        {"longitude": -72.3, "latitude": 18.5, "label": "flooded", "source": f"s{i}", "id": f"r{i}"} for i in range(4)
    ]
    alone = {"longitude": -72.55, "latitude": 18.75, "label": "dry", "source": "z", "id": "alone"}
    admin.post("/situations/flood/reports", json=[*rows, alone]).raise_for_status()
    workspace.fit()
    path = "/situations/flood/points/0/0/0.mvt"
    told = workspace.client().get(path)
    assert told.headers["content-type"] == mvt.MEDIA and told.headers["cache-control"].startswith("private")
    ((_, _, about),) = decoded(told.content)
    assert about["count"] == 3 and set(about) == {"count", "label", "cell"}  # of four, rounded down; nothing of one
    exact = decoded(workspace.client("trusted").get("/points/9/153/229.mvt").content)
    assert sorted(about["count"] for *_, about in exact) in ([4], [1, 4])
    assert workspace.client().get("/situations/flood/points/22/0/0.mvt").status_code == 204
    assert workspace.client().get("/situations/flood/points/1/2/0.mvt").status_code == 404
    assert workspace.client().get(path, params={"version": 9}).status_code == 404
    # Readers choose by time alone; what a single report says is for others to choose by.
    for refused in ({"source": "s1"}, {"label": "dry"}, {"trust": "trusted"}, {"timed": "true"}, {"list": "new"}):
        assert workspace.client().get(path, params=refused).status_code == 403
        assert workspace.client("trusted").get(path, params=refused).status_code in (200, 204)
    only = workspace.client("trusted").get("/situations/flood/points/0/0/0.mvt", params={"source": "z"})
    assert [about["id"].rpartition(":")[2] for *_, about in decoded(only.content)] == ["alone"]
