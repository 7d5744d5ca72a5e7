"""Spot checks: the plan is a random sample, and what is said about the map holds whatever the map gets wrong."""

import csv
import json
from dataclasses import replace

import numpy as np
import openpyxl
import pandas as pd
import pytest
from typer.testing import CliRunner

import crowdfield as cf
from crowdfield import pipeline
from crowdfield.cli.app import app
from crowdfield.data import Grid, Heatmap, Reports
from crowdfield.errors import InputError
from crowdfield.inference import stratified
from crowdfield.inference.stratified import Predicted, Sample
from crowdfield.pipeline.assessing import read_checked, with_gold
from crowdfield.pipeline.sampling_plan import Strata, plan, write_plan

GRID = Grid(west=500_000, east=540_000, south=0, north=40_000, columns=80, rows=80, crs="EPSG:32636")


def make(bias=0.0, seed=0):
    """A map, and the states of its cells; with a bias, the map is far too sure of the second state."""
    rng = np.random.default_rng(seed)
    f = rng.normal(-0.5, 1.8, GRID.size)
    truth = (rng.random(GRID.size) < 1 / (1 + np.exp(-f))).astype(int)
    p = 1 / (1 + np.exp(-(f * (1 + bias) + bias)))
    sd = np.where(rng.random(GRID.size) < 0.1, 0.35, 0.1)
    both = np.stack([1 - p, p], axis=1).reshape(80, 80, 2)
    spread = np.stack([sd, sd], axis=1).reshape(80, 80, 2)
    counts = np.zeros((80, 80), dtype=np.int64)
    return Heatmap(GRID, ("dry", "wet"), both, spread, counts, {"prior_sd": [0.36, 0.36]}), truth


def answered(found, truth, names=("dry", "wet")):
    cell = GRID.index(found.places[["easting", "northing"]].to_numpy())
    return found.places.assign(state=[names[truth[c]] for c in cell])


def test_strata_are_mapped_state_and_certainty():
    heatmap, _ = make()
    strata = Strata.of(heatmap)
    assert strata.cells.sum() == GRID.size
    assert set(strata.names) == {f"{s}-{c}" for s in ("dry", "wet") for c in ("sure", "unsure", "unknown")}
    for h, name in enumerate(strata.names):
        mapped = heatmap.most_probable.ravel()[strata.code == h]
        assert (mapped == ("dry", "wet").index(name.split("-")[0])).all()


def test_a_plan_is_a_random_sample_of_every_stratum():
    heatmap, _ = make()
    found = plan(heatmap, size=120, seed=3)
    assert abs(len(found.places) - 120) <= len(found.strata)
    assert found.places[["easting", "northing"]].drop_duplicates().shape[0] == len(found.places)
    by_stratum = found.places.groupby("stratum")
    assert by_stratum.size().min() >= 10
    np.testing.assert_allclose(by_stratum["weight"].sum(), by_stratum["stratum_cells"].first(), rtol=1e-3)
    pd.testing.assert_frame_equal(found.places, plan(heatmap, size=120, seed=3).places)
    assert not found.places.equals(plan(heatmap, size=120, seed=4).places)


@pytest.mark.parametrize("margin", [0.1, 0.04])
def test_the_size_of_a_plan_follows_from_the_wanted_interval(margin):
    heatmap, truth = make()
    found = plan(heatmap, margin=margin)
    assert found.margin <= 1.05 * margin
    result = cf.assess(heatmap, answered(found, truth))
    assert (result.accuracy.high - result.accuracy.low) / 2 <= 1.6 * margin


def test_the_estimators_are_those_of_olofsson():
    """Their worked example (2014, tables 8 and 9): deforestation, gain, stable forest, stable non-forest."""
    sample = Sample(
        np.array([200_000, 150_000, 3_200_000, 6_450_000]),
        np.array([0, 1, 2, 3]),
        np.array([[66, 0, 5, 4], [0, 55, 8, 12], [1, 0, 153, 11], [2, 1, 9, 313]]),
    )
    share = sample.share
    p = sample.counts / sample.checked[:, None]
    area = stratified.area(sample, 0, 0.95)
    assert area.value == pytest.approx(float(share @ p[:, 0]))
    assert area.value == pytest.approx(0.0235, abs=5e-5)  # 235,086 pixels, where 200,000 are mapped
    assert stratified.accuracy(sample, 0.95).value == pytest.approx(0.947, abs=5e-4)
    assert stratified.users(sample, 0, 0.95).value == pytest.approx(0.88)
    assert stratified.producers(sample, 0, 0.95).value == pytest.approx(0.75, abs=0.005)
    producers = stratified.producers(sample, 0, 0.95)
    assert producers.value == pytest.approx(share[0] * p[0, 0] / (share @ p[:, 0]))
    assert producers.low < producers.value < producers.high
    # About the width that their standard errors give, and more for strata where one or two checks found the state.
    se = np.sqrt((share**2 * p[:, 0] * (1 - p[:, 0]) / (sample.checked - 1)).sum())
    assert (area.high - area.low) / 2 == pytest.approx(1.15 * 1.96 * se, rel=0.15)


def test_strata_whose_checks_all_agree_are_not_certain():
    sample = Sample(np.array([5000, 5000]), np.array([0, 1]), np.array([[20, 0], [0, 20]]))
    accuracy = stratified.accuracy(sample, 0.95)
    assert accuracy.value == 1.0 and 0.85 < accuracy.low < 0.95
    told = Predicted(np.repeat([0, 1], 20), np.repeat([0.0, 1.0], 20), np.repeat([0.1, 0.9], 20), np.array([0.1, 0.9]))
    powered = stratified.prediction_powered(sample, told, 0.95)
    assert powered.low < 0.5 < powered.high


def test_a_census_leaves_nothing_open():
    sample = Sample(np.array([20, 30]), np.array([0, 1]), np.array([[18, 2], [3, 27]]))
    accuracy = stratified.accuracy(sample, 0.95)
    assert accuracy.high - accuracy.low < 1e-4


def test_intervals_hold_for_maps_that_are_nearly_always_right():
    """Strata of ten to twenty checks, of which hardly any finds an error."""
    cells, mapped = np.array([4_000, 9_000, 2_500, 4_500]), np.array([0, 0, 1, 1])
    errors, checked = np.array([200, 90, 150, 45]), np.array([10, 25, 10, 15])
    rng = np.random.default_rng(0)
    held, widths = [], []
    for _ in range(1500):
        wrong = rng.hypergeometric(errors, cells - errors, checked)
        counts = np.where(mapped[:, None] == [0, 1], (checked - wrong)[:, None], wrong[:, None])
        sample = Sample(cells, mapped, counts)
        right, users = stratified.accuracy(sample, 0.95), stratified.users(sample, 1, 0.95)
        assert users is not None
        really = 1 - errors.sum() / cells.sum(), 1 - errors[2:].sum() / cells[2:].sum()
        held.append([right.low <= really[0] <= right.high, users.low <= really[1] <= users.high])
        widths.append(right.high - right.low)
    assert (np.mean(held, axis=0) >= 0.93).all() and np.mean(widths) < 0.12


@pytest.mark.parametrize("bias", [0.0, 2.0], ids=["a calibrated map", "a biased map"])
def test_intervals_hold_for_right_and_for_biased_maps(bias):
    """A small version of `python -m benchmarks spot-checks`."""
    heatmap, truth = make(bias)
    strata = Strata.of(heatmap)
    mapped = heatmap.most_probable.ravel()
    p = heatmap.probability.reshape(-1, 2)[:, 1]
    everywhere = np.bincount(strata.code, p) / strata.cells
    give = stratified.allocate(strata.cells, np.full(len(strata.cells), 0.4), 150, 10)
    rng, members = np.random.default_rng(1), [np.flatnonzero(strata.code == h) for h in range(len(strata.cells))]
    real, right = (truth == 1).mean(), (mapped == truth).mean()
    held = []
    for _ in range(400):
        rows = np.concatenate([rng.choice(m, n, replace=False) for m, n in zip(members, give, strict=True)])
        counts = np.zeros((len(give), 2), dtype=np.int64)
        np.add.at(counts, (strata.code[rows], truth[rows]), 1)
        sample = Sample(strata.cells, strata.mapped, counts)
        told = Predicted(strata.code[rows], truth[rows].astype(float), p[rows], everywhere)
        found = (
            (stratified.area(sample, 1, 0.95), real),
            (stratified.accuracy(sample, 0.95), right),
            (stratified.prediction_powered(sample, told, 0.95), real),
        )
        held.append([e.low <= value <= e.high for e, value in found])
    assert (np.mean(held, axis=0) >= 0.92).all() and (np.mean(held, axis=0) <= 0.985).all()
    assert bias == 0.0 or abs(p.mean() - real) > 0.1  # the map alone would have been wrong


def test_the_assessment_finds_what_the_map_hides():
    heatmap, truth = make(bias=2.0)
    found = plan(heatmap, size=400, seed=1)
    result = cf.assess(heatmap, answered(found, truth))
    wet = result.states.set_index("state").loc["wet"]
    assert wet["area_low"] <= (truth == 1).mean() <= wet["area_high"] < wet["mapped_share"]
    assert wet["commission"] == pytest.approx(1 - wet["users"])
    assert set(result.reliability.columns) == {"said", "found", "found_low", "found_high", "checks"}
    assert result.reliability["checks"].sum() == result.checks
    assert json.loads(json.dumps(result.plain()))["checks"] == result.checks
    assert "% of the map is right" in result.lines()[0]


@pytest.mark.parametrize("states", [("damaged", "undamaged"), ("dry", "wet")])
def test_the_reliability_diagram_is_of_the_state_in_question_wherever_it_stands(states):
    heatmap, truth = make()
    rare = heatmap.probability[..., 1] ** 4  # so that the two states cannot be mistaken for each other
    heatmap = replace(heatmap, states=states, probability=np.stack([1 - rare, rare], axis=-1))
    asked = states.index(heatmap.positive)
    result = cf.assess(heatmap, answered(plan(heatmap, size=200, seed=1), truth, states))
    assert result.positive == result.plain()["positive"] == heatmap.positive != states[1 - asked]
    said = np.average(result.reliability["said"], weights=result.reliability["checks"])
    assert said == pytest.approx(heatmap.probability[..., asked].mean(), abs=0.2)
    axes = result.figure().axes[0]
    assert axes.get_xlabel() == f"probability of “{heatmap.positive}” on the map"


def test_a_model_is_assessed_by_a_simple_random_sample():
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 10, (80, 2))
    model = cf.HeatmapBCC(lengthscale=3.0, reports_model="one_state").fit(X, (X[:, 0] > 5).astype(int))
    places = rng.uniform(0, 10, (60, 2))
    result = cf.assess(model, (places, (places[:, 0] > 5).astype(int)))
    assert result.positive == 1
    assert result.accuracy.low < result.accuracy.value <= result.accuracy.high and result.accuracy.value > 0.8
    assert "simple random sample" in result.notes[-1]


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda c: c.drop(columns="state"), "no column 'state'"),
        (lambda c: c.assign(state=""), "fewer than two places have a state"),
        (lambda c: c.assign(state="damp"), "the map's states are 'dry', 'wet'"),
        (lambda c: c.assign(stratum_cells=17), "drawn from another map"),
        (lambda c: c.assign(stratum="dry-sure"), "drawn from another map"),
        (lambda c: c[c["stratum"] != "wet-sure"], "no place of the stratum 'wet-sure'"),
        (lambda c: c.assign(easting=0.0), "lie outside the map"),
        (lambda c: c.drop(columns=["easting", "longitude"]), "need columns easting and northing"),
        (lambda c: "what", "checks are a table"),
    ],
)
def test_checks_that_say_nothing_are_refused(change, message):
    heatmap, truth = make()
    checked = answered(plan(heatmap, size=80), truth)
    with pytest.raises(InputError, match=message):
        cf.assess(heatmap, change(checked))


def test_places_without_an_answer_are_left_out_and_said():
    heatmap, truth = make()
    checked = answered(plan(heatmap, size=200), truth)
    checked.loc[checked.index[:10], "state"] = ""
    assert "10 places have no answer" in cf.assess(heatmap, checked).notes[0]


def test_too_few_places_for_the_strata_are_refused():
    with pytest.raises(InputError, match="too few"):
        plan(make()[0], size=5)


@pytest.fixture(scope="module")
def fused():
    rng = np.random.default_rng(0)
    places = np.array([36.8, -1.3]) + 0.05 * rng.random((120, 2))
    wet = places[:, 0] > 36.825
    said = np.where(rng.random(120) < 0.85, wet, ~wet)
    reports = Reports.from_arrays(
        places, np.where(said, "wet", "dry"), rng.integers(0, 6, 120).astype(str), crs="EPSG:4326"
    )
    return pipeline.fuse(reports, region=(36.8, -1.3, 36.85, -1.25), cell="250m", lengthscale="1500m")


def test_from_plan_to_gold_on_the_command_line(fused, tmp_path):
    run = tmp_path / "run.cf"
    pipeline.save_run(fused, run)
    names = [str(tmp_path / f"plan.{suffix}") for suffix in ("csv", "geojson", "kml")]
    drawn = CliRunner().invoke(
        app, ["assess", "plan", str(run), "-n", "60", "-q", *(part for name in names for part in ("-o", name))]
    )
    assert drawn.exit_code == 0, drawn.output
    assert "seed 0" in drawn.stdout
    with open(names[0], encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        row["state"] = "wet" if float(row["longitude"]) > 36.825 else "dry"
    with open(tmp_path / "answers.csv", "w", encoding="utf-8", newline="") as file:
        out = csv.DictWriter(file, rows[0])
        out.writeheader()
        out.writerows(rows)
    given = ["assess", "result", str(run), str(tmp_path / "answers.csv"), "-q", "--gold", str(tmp_path / "new.cf")]
    outputs = [tmp_path / f"checks.{suffix}" for suffix in ("png", "json", "csv")]
    judged = CliRunner().invoke(app, [*given, "--json", *(p for o in outputs for p in ("-o", str(o)))])
    assert judged.exit_code == 0, judged.output
    found = json.loads(judged.stdout)
    assert found["checks"] == len(rows) and found["accuracy"]["value"] > 0.7
    assert all(path.is_file() for path in outputs)
    again = pipeline.load_run(tmp_path / "new.cf")
    assert len(again.model._gold_.places) == len(rows)
    assert len(again.reports) == len(fused.reports)
    from_points = read_checked(names[1])
    assert len(from_points) == len(rows) and {"stratum", "easting"} <= set(from_points.columns)
    for wrong in (
        ["assess", "result", str(run)],
        ["assess", "draw", str(run)],
        ["assess", "plan", str(run), "-o", "x.doc"],
    ):
        assert CliRunner().invoke(app, wrong).exit_code == 2


def test_gold_given_twice_counts_once(fused):
    found = plan(fused.heatmap, size=60)
    checked = found.places.assign(state="wet")
    once = with_gold(fused, checked)
    twice = with_gold(once, checked.assign(state="dry"))
    assert len(twice.model._gold_.places) == len(checked)
    assert twice.heatmap.of("wet").mean() < once.heatmap.of("wet").mean()


def sheets_of(path):
    book = openpyxl.load_workbook(path, read_only=True)
    return {sheet.title: list(sheet.iter_rows(values_only=True)) for sheet in book.worksheets}


@pytest.mark.parametrize("answers", ["names", "labels"])
def test_the_answers_to_a_form_are_assessed_like_the_plan_itself(tmp_path, answers):
    """The form is filled in here as KoboToolbox does it: calculations look the chosen place up in the choices."""
    states = ("dry land", "under water")
    heatmap, truth = make()
    heatmap = replace(heatmap, states=states)
    found = plan(heatmap, size=80, seed=2)
    sheets = sheets_of(write_plan(found, tmp_path / "form.xlsx"))
    survey = [dict(zip(sheets["survey"][0], row, strict=True)) for row in sheets["survey"][1:]]
    choices = [dict(zip(sheets["choices"][0], row, strict=False)) for row in sheets["choices"][1:]]
    places = [row for row in choices if row["list_name"] == "place"]
    names = [row["name" if answers == "names" else "label"] for row in choices if row["list_name"] == "state"]
    assert {row["type"].split()[-1] for row in survey if row["type"].startswith("select_one")} == {"place", "state"}
    assert [place["name"] for place in places] == [str(number) for number in found.places["id"]]
    assert all(state not in str(place["label"]) for place in places for state in states)
    calculated = [row["name"] for row in survey if row["type"] == "calculate"]
    assert all(row["calculation"].endswith(f"/{row['name']}") for row in survey if row["type"] == "calculate")
    wanted = answered(found, truth, states)
    said = [names[states.index(state)] for state in wanted["state"]]
    with (tmp_path / "export.csv").open("w", encoding="utf-8", newline="") as file:
        out = csv.writer(file, delimiter=";", quoting=csv.QUOTE_ALL)
        out.writerow(["place", "state", "photo", *calculated, "_id", "_submission_time"])
        for place, state in zip(places, said, strict=True):
            out.writerow([place["name"], state, "", *(place[name] for name in calculated), 1, "2026-11-17T08:00:00"])
    result = cf.assess(heatmap, read_checked(tmp_path / "export.csv"))
    assert result.plain() == cf.assess(heatmap, wanted).plain()


def test_a_zooniverse_manifest_hides_the_strata_and_its_answers_can_be_assessed(tmp_path):
    heatmap, truth = make()
    found = plan(heatmap, size=80, seed=2)
    path = write_plan(found, tmp_path / "checks.manifest.csv")
    with path.open(encoding="utf-8", newline="") as file:
        subjects = list(csv.DictReader(file))
    assert [name for name in subjects[0] if not name.startswith("#")] == ["id", "filename"]
    wanted = answered(found, truth)
    with path.open("w", encoding="utf-8", newline="") as file:
        out = csv.DictWriter(file, [*subjects[0], "state"])
        out.writeheader()
        out.writerows({**row, "state": state} for row, state in zip(subjects, wanted["state"], strict=True))
    assert cf.assess(heatmap, read_checked(path)).plain() == cf.assess(heatmap, wanted).plain()


def test_plans_are_written_as_files_that_say_their_suffix(tmp_path):
    found = plan(make()[0], size=80)
    with pytest.raises(InputError, match="written as"):
        write_plan(found, tmp_path / "plan.doc")
