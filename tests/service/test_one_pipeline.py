"""The service and the command line are two doors to one pipeline: the same file gives the same map."""

import json
from typing import Any

import numpy as np
import pytest
from benchmarks import doors
from scipy.special import expit

from crowdfield import geography, io, pipeline
from crowdfield.data import Reports
from crowdfield.errors import DataWarning
from crowdfield.models import comparison
from crowdfield.pipeline.grading import with_grades
from crowdfield.service import effort, fit, moments
from crowdfield.service.fit import load_model
from crowdfield.service.maps import unpack


def crowd(path, n, habits, accuracy=()):
    """A file of reports; `habits` are how often each source is right; `accuracy` is of places, in turn."""
    rng = np.random.default_rng(n)
    east, north = rng.uniform(-72.6, -72.2, n), rng.uniform(18.3, 18.6, n)
    wet = np.sin(30 * east) + np.cos(40 * north) > 0.2
    source = rng.integers(0, len(habits), n)
    right = rng.random(n) < np.asarray(habits)[source]
    said = np.where(right, wet, ~wet)
    rows = [
        f"team{s},{y:.6f},{x:.6f},{('dry', 'flooded')[int(w)]}"
        for s, x, y, w in zip(source, east, north, said, strict=True)
    ]
    header = "source,lat,lon,label"
    if accuracy:
        header = f"{header},gps_accuracy,seen_by"
        rows = [f"{row},{accuracy[i % len(accuracy)]},{1 + i % 4}" for i, row in enumerate(rows)]
    path.write_text("\n".join([header, *rows]))
    return path


def by_import(space, path, **form):
    client = space.client("admin")
    with path.open("rb") as file:
        made = client.post("/import", files={"file": (path.name, file)}, data=form)
    assert made.status_code == 201, made.text
    return made.json()


def test_a_file_gives_the_same_map_that_moves_through_both_doors(make_workspace, tmp_path):
    path = crowd(tmp_path / "flood.csv", 80, np.linspace(0.7, 0.95, 6))
    header, *rows = path.read_text().splitlines()
    # What is flooded at first is dry at last.
    turned = {"dry": "flooded", "flooded": "dry"}
    parts = [row.rpartition(",") for row in rows]
    rows = [f"{rest},{turned[said] if i >= 40 else said}" for i, (rest, _, said) in enumerate(parts)]
    hours = [f"2010-01-{12 + i // 12:02d}T{2 * (i % 12):02d}:00:00Z" for i in range(len(rows))]
    lines = [f"{row},{hour}" for row, hour in zip(rows, hours, strict=True)]
    path.write_text("\n".join([f"{header},time", *lines]))
    space = make_workspace()
    made = by_import(space, path, plan=json.dumps({"moving": True}))
    space.fit()
    store = space.service.store
    version = store.version(made["id"])
    fused = pipeline.fuse(io.read(path).reports, moving=True)
    assert fused.heatmap.metadata["moment"] == hours[-1]
    assert version.info["rested"] and version.info["moments"][-1] == fused.model.time * 3600.0
    arrays = unpack(store.blob(made["id"], version.number, "arrays"))
    assert store.situation(made["id"]).grid == fused.heatmap.grid
    assert np.abs(arrays["probability"] - fused.heatmap.probability).max() < 0.01
    assert np.abs(arrays["sd"] - fused.heatmap.sd).max() < 0.01
    ours = [(s["easting"], s["northing"]) for s in store.blob(made["id"], version.number, "suggestions")[:5]]
    assert ours == [(look.easting, look.northing) for look in pipeline.next_looks(fused, 5)]
    # An earlier moment, too.
    early = moments.nearest(version.info, version.info["moments"][0])
    then = pipeline.fuse(io.read(path).reports, moving=True, moment=moments.as_text(early))
    grid = fused.heatmap.grid
    cell = grid.size // 2 + grid.columns // 2
    longitude, latitude = geography.unproject([grid.centres()[cell]], str(grid.crs))[0]
    asked = {"moment": moments.as_text(early)}
    told = space.client("admin").get(f"/situations/{made['id']}/point/{longitude},{latitude}", params=asked).json()
    ours_then = float(then.heatmap.of("flooded").ravel()[cell])
    assert told["probability"]["flooded"] == pytest.approx(ours_then, abs=0.01)
    assert abs(ours_then - fused.heatmap.of("flooded").ravel()[cell]) > 0.02  # which is another map


@pytest.mark.parametrize(("n", "accuracy"), [(60, ("", 2500, 4000)), (150, ())])
def test_a_file_gives_the_same_map_and_suggestions_through_fuse_and_through_the_page(
    make_workspace, tmp_path, n, accuracy
):
    path = crowd(tmp_path / "flood.csv", n, np.linspace(0.6, 0.95, 8), accuracy)
    space = make_workspace()
    columns: dict[str, Any] = {"count": "seen_by"} if accuracy else {}
    made = by_import(space, path, plan=json.dumps({"columns": columns}))
    space.fit()
    store = space.service.store
    version = store.version(made["id"])
    assert version.info["rested"]
    arrays = unpack(store.blob(made["id"], version.number, "arrays"))

    fused = pipeline.fuse(io.read(path, **columns).reports)
    grid = store.situation(made["id"]).grid
    assert grid == fused.heatmap.grid
    assert np.abs(arrays["probability"] - fused.heatmap.probability).max() < 0.01
    assert np.abs(arrays["sd"] - fused.heatmap.sd).max() < 0.01
    assert (arrays["reports"] == fused.heatmap.reports).all()
    ours = [(s["easting"], s["northing"]) for s in store.blob(made["id"], version.number, "suggestions")[:5]]
    assert ours == [(look.easting, look.northing) for look in pipeline.next_looks(fused, 5)]
    # The reasons for a cell with one report are those of its place, and add up to what the cell shows.
    cell = next(i for i in grid.index(fused.reports.places[::3]) if fused.heatmap.reports.ravel()[i] == 1)
    longitude, latitude = geography.unproject([grid.centres()[cell]], grid.crs)[0]
    told = space.client("admin").get(f"/situations/{made['id']}/point/{longitude},{latitude}").json()
    assert told["probability"]["flooded"] == pytest.approx(expit(told["why"]["total"]), abs=1e-4)
    if accuracy:
        for model in (load_model(store.model(made["id"])[2]), fused.model):
            assert model.reports_.accuracy[:3].tolist() == [0, 2500, 4000]
            assert model.reports_.count.tolist() == [1 + i % 4 for i in range(n)]
        kept = space.client("admin").get(f"/situations/{made['id']}/points").json()["features"]
        told = [(feature["properties"]["accuracy"], feature["properties"]["count"]) for feature in kept[:3]]
        assert told == [(None, 1), (2500, 2), (4000, 3)]


@pytest.mark.parametrize("names", [("no damage", "minor damage", "destroyed"), ("maize", "coffee", "forest")])
def test_grades_and_other_states_too_give_the_same_map_and_suggestions(make_workspace, tmp_path, names):
    rng = np.random.default_rng(5)
    places = rng.uniform((13.0, 42.6), (13.3, 42.8), (150, 2))
    level = np.sin(25 * places[:, 0]) + np.cos(30 * places[:, 1]) + rng.normal(0, 0.5, 150)
    features = [
        {"type": "Feature", "geometry": {"type": "Point", "coordinates": place},
         "properties": {"label": names[int(k)], "source": f"t{i % 5}"}}
        for i, (place, k) in enumerate(zip(places.tolist(), np.digitize(level, (-0.4, 0.4)), strict=True))
    ]  # fmt: skip
    path = tmp_path / "survey.geojson"
    path.write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    space = make_workspace(rest_seconds=0)
    made = by_import(space, path)
    space.fit()
    store = space.service.store
    version = store.version(made["id"])
    read = io.read(path)
    fused = pipeline.fuse(read.reports, with_grades(pipeline.Settings(), read.reports, read.grades))
    assert tuple(made["states"]) == fused.heatmap.states and version.info["reports_model"] == fused.model.reports_model_
    assert version.info.get("ordered", False) is fused.model.ordered is (names[0] == "no damage")
    arrays = unpack(store.blob(made["id"], version.number, "arrays"))
    assert np.abs(arrays["probability"] - fused.heatmap.probability).max() < 0.01
    ours = [(s["easting"], s["northing"]) for s in store.blob(made["id"], version.number, "suggestions")[:5]]
    for n in (5, 10):  # the first of them, however many are asked for
        assert ours == [(look.easting, look.northing) for look in pipeline.next_looks(fused, n)[:5]]


def test_a_map_that_was_first_fitted_in_haste_ends_with_the_suggestions_of_fuse(make_workspace, tmp_path, monkeypatch):
    """Where all reports say the same, the map hardly moves when it rests, but places to look at are close to ties."""
    monkeypatch.setattr(effort, "LIVE_SEARCHED", 40)
    monkeypatch.setattr(fit, "LARGE", 40)
    path = crowd(tmp_path / "flood.csv", 120, np.linspace(0.6, 0.95, 8))
    path.write_text(path.read_text().replace(",dry", ",flooded"))
    space = make_workspace(rest_seconds=0)
    made = by_import(space, path)
    space.fit()
    store = space.service.store
    version = store.version(made["id"])
    assert version.info["rested"]
    with pytest.warns(DataWarning, match="All reports say"):
        fused = pipeline.fuse(io.read(path).reports, pipeline.Settings(states=made["states"]))
    ours = [(s["easting"], s["northing"]) for s in store.blob(made["id"], version.number, "suggestions")[:5]]
    assert ours == [(look.easting, look.northing) for look in pipeline.next_looks(fused, 5)]


def test_a_public_map_is_fitted_to_cells_which_moves_it_by_little(make_workspace, tmp_path):
    """Whoever may see a map but not its reports sees one of cells: the one difference to `fuse` beside showing the
    field alone."""
    path = crowd(tmp_path / "flood.csv", 90, np.linspace(0.6, 0.95, 8))
    space = make_workspace()
    made = by_import(space, path, plan=json.dumps({"access": "public"}))
    space.fit()
    version = space.service.store.version(made["id"])
    arrays = unpack(space.service.store.blob(made["id"], version.number, "arrays"))
    fused = pipeline.fuse(io.read(path).reports)
    field = pipeline.make_map(fused.model, fused.heatmap.grid, fused.heatmap.reports, field_only=True)
    assert np.abs(arrays["probability"] - field.probability).mean() < 0.02


def test_the_comparison_of_both_doors_tells_whether_they_agree(tmp_path, capsys):
    path = crowd(tmp_path / "flood.csv", 40, np.linspace(0.6, 0.95, 8))
    assert doors.main([str(path), "--plan", '{"columns": {"source": "source"}}']) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["agrees"] and told["same_suggestions"] == 5 and told["largest"] < 0.001 and told["reports"] == 40
    assert doors.main([str(path), "--access", "public"]) == 0  # fitted to cells, so nothing is promised
    assert json.loads(capsys.readouterr().out)["largest"] > 0.01


def test_silence_counts_the_same_through_both_doors(tmp_path, capsys):
    path = crowd(tmp_path / "calls.csv", 40, np.linspace(0.6, 0.95, 4))
    path.write_text(path.read_text().replace(",dry", ",flooded"))
    assert doors.main([str(path), "--plan", '{"silence": 1.0}']) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["agrees"] and told["same_suggestions"] == 5 and told["largest"] < 0.001


def test_a_live_map_reads_sources_as_instruments_where_that_predicts_better(make_workspace, tmp_path, monkeypatch):
    """Reasons, the table of sources, saving and going on work for both kinds of model."""
    space = make_workspace()
    made = by_import(space, crowd(tmp_path / "flood.csv", 120, np.linspace(0.6, 0.95, 8)))
    monkeypatch.setattr(comparison.Comparison, "better", "instrument")
    space.fit()
    version = space.service.store.version(made["id"])
    assert version.info["reports_model"] == "instrument"
    client = space.client("admin")
    more = [{"longitude": -72.4, "latitude": 18.45 + i / 1000, "label": "flooded", "source": "new"} for i in range(3)]
    assert client.post(f"/situations/{made['id']}/reports", json=more).json()["stored"] == 3
    space.worker.close()
    space._worker = None  # another worker: it goes on from the saved model
    space.fit()
    later = space.service.store.version(made["id"])
    assert later.reports == 123 and later.info["reports_model"] == "instrument" and not later.info["rested"]
    assert load_model(space.service.store.model(made["id"])[2]).lengthscale == version.info["lengthscale"][0]
    table = client.get("/sources").json()["sources"]
    assert {row["source"] for row in table} == {*(f"team{i}" for i in range(8)), "new"}
    for low, middle, high in ((row[f"confusion{end}"] for end in ("_low", "", "_high")) for row in table):
        assert 0 <= low[0][0] <= middle[0][0] <= high[0][0] <= 1
    why = client.get("/point/-72.4,18.45").json()["why"]
    parts = why["prior"] + why["uncertainty"] + sum(s["log_odds"] for s in why["sources"])
    assert parts == pytest.approx(why["total"])


def test_the_region_of_a_file_lies_on_its_cells(tmp_path):
    rng = np.random.default_rng(0)
    for middle, spread in (((-72.4, 18.5), 0.3), ((179.9, -17.0), 0.4), ((10.0, 60.0), 12.0), ((0.0, 0.0), 60.0)):
        places = np.asarray(middle) + rng.uniform(-spread, spread, (200, 2))
        places[:, 0] = geography.wrap(places[:, 0])
        reports = Reports.from_arrays(places, ["-"] * 200, crs=geography.WGS84)
        grid = geography.make_grid(reports)
        region = geography.covered(grid, places)
        assert all(region.holds(*place) for place in places.tolist())
        assert (grid.index(geography.transform(places, geography.WGS84, str(grid.crs))) >= 0).all()


@pytest.mark.parametrize("states", [["dry", "flooded"], ["flooded", "dry"]])
def test_a_map_shows_each_state_where_it_is_reported_in_whatever_order_states_are_named(make_workspace, states):
    """The model puts the state in question second; arrays, tiles and matrices keep the order of the map."""
    space = make_workspace()
    admin = space.client("admin")
    place = {"region": [-72.6, 18.2, -72.0, 18.8], "columns": 16, "model": {"lengthscale": 6300.0}}
    admin.post("/situations", json={"id": "a", "title": "A", "states": states, **place}).raise_for_status()
    rng = np.random.default_rng(0)
    rows = [
        {"longitude": x, "latitude": y, "label": "flooded" if x > -72.3 else "dry", "source": f"s{i % 5}", "id": str(i)}
        for i, (x, y) in enumerate(rng.uniform((-72.55, 18.25), (-72.05, 18.75), (60, 2)).tolist())
    ]
    admin.post("/situations/a/reports", json=rows).raise_for_status()
    space.fit()
    west, east = (admin.get(f"/situations/a/point/{x},18.5").json()["probability"] for x in (-72.5, -72.1))
    assert west["dry"] > 0.8 and east["flooded"] > 0.8
    assert np.log(east["flooded"] / east["dry"]) == pytest.approx(
        admin.get("/situations/a/point/-72.1,18.5?state=flooded").json()["why"]["total"], abs=0.3
    )
    (source, *_) = admin.get("/sources?situation=a").json()["sources"]
    assert np.diag(np.asarray(source["confusion"])).min() > 0.6
    # The same after a further report, which continues the model.
    admin.post("/situations/a/reports", json=rows[0] | {"id": "new"}).raise_for_status()
    space.fit()
    assert admin.get("/situations/a/point/-72.1,18.5").json()["probability"]["flooded"] > 0.8


def test_a_file_whose_labels_tell_nothing_is_about_the_rarer_one_through_both_doors(make_workspace, tmp_path):
    path = crowd(tmp_path / "flood.csv", 60, np.linspace(0.6, 0.95, 8))
    # Words that mean nothing; the first is the rarer one.
    path.write_text(path.read_text().replace("dry", "shallow well").replace("flooded", "deep well"))
    compared = doors.compare(path, "{}")
    assert compared["agrees"], compared
    labels = [line.rpartition(",")[2] for line in path.read_text().splitlines()[1:]]
    rarer = min(set(labels), key=labels.count)
    made = by_import(make_workspace(), path)
    assert made["positive"] == rarer
