"""A row that counts several times has the weight of as many equal rows, and costs no more than one."""

from typing import Any

import numpy as np
import pytest

import crowdfield as cf
from crowdfield.data import Reports
from crowdfield.errors import ConvergenceWarning, InputError
from crowdfield.pipeline.fit_arguments import as_arguments
from crowdfield.pipeline.fusing import fuse, on_cluster

COUNTS = np.array([1, 3, 2, 5])


def crowd(labels, n=48):
    """Reports of six sources at thirty places, and how often each counts."""
    rng = np.random.default_rng(3)
    places = rng.uniform(0, 10, (30, 2))
    at = rng.integers(0, 30, n)
    truth = np.floor(len(labels) * (0.5 + 0.49 * np.sin(places[:, 0] / 2))).astype(int)
    said = np.where(rng.random(n) < 0.75, truth[at], rng.integers(0, len(labels), n))
    return places[at], np.array(labels)[said], rng.integers(0, 6, n), np.resize(COUNTS, n)


def repeated(X, y, sources, counts):
    return tuple(np.repeat(column, counts, axis=0) for column in (X, y, sources))


MODELS = {
    "one state": (("dry", "wet"), {"reports_model": "one_state"}),
    "one state, spectral": (("dry", "wet"), {"reports_model": "one_state", "engine": "spectral"}),
    "one state, three labels": (("a", "b", "c"), {"reports_model": "one_state"}),
    "communities": (("dry", "wet"), {"communities": 2, "reports_model": "one_state"}),
    "the paper's": (("dry", "wet"), {"inference": "vb"}),
    "the paper's, ekf": (("dry", "wet"), {"inference": "vb", "linearisation": "ekf"}),
    "instruments": (("dry", "wet"), {"reports_model": "instrument"}),
    "graded instruments": (("low", "mid", "high"), {"ordered": True, "states": ["low", "mid", "high"]}),
    "instruments of three states": (("a", "b", "c"), {"reports_model": "instrument"}),
    "a trusted source": (("dry", "wet"), {"reports_model": "instrument",
                                          "confusion_prior": {2: [[90.0, 10.0], [10.0, 90.0]]}}),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::crowdfield.errors.ConvergenceWarning")
@pytest.mark.parametrize("name", MODELS)
def test_a_count_is_as_many_equal_rows(name):
    labels, settings = MODELS[name]
    X, y, sources, counts = crowd(labels)
    # The same number of sweeps for both: where they end is then equal up to the order of sums.
    settings = {"lengthscale": 3.0, "max_iter": 15, "tol": 1e-12, "random_state": 0} | settings
    one = cf.HeatmapBCC(**settings).fit(X, y, sources, counts=counts)
    many = cf.HeatmapBCC(**settings).fit(*repeated(X, y, sources, counts))
    at = np.random.default_rng(0).uniform(0, 10, (20, 2))
    for found, wanted in zip(one.predict_rate(at), many.predict_rate(at), strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-9)
    np.testing.assert_allclose(one.predict_proba(X), many.predict_proba(X), atol=1e-8)  # communities amplify rounding
    np.testing.assert_allclose(one.alpha_, many.alpha_, rtol=1e-6)
    assert one.bound_ == pytest.approx(many.bound_, rel=1e-7)
    np.testing.assert_allclose(np.repeat(one.left_out(), counts), many.left_out(), atol=1e-8)
    assert len(one.reports_) == len(X) and one.reports_.n_reports == counts.sum()
    tables = (m.source_table().sort_values("source", ignore_index=True) for m in (one, many))
    assert next(tables)["reports"].tolist() == next(tables)["reports"].tolist()
    np.testing.assert_allclose(one.score_reports().attrs["bits"], many.score_reports().attrs["bits"], atol=1e-8)
    for place in (at[0], X[0]):
        one_why, many_why = (m.explain(place, labels[-1]) for m in (one, many))
        by = [why.groupby(["source", "label"])["log_odds"].sum().to_numpy() for why in (one_why, many_why)]
        np.testing.assert_allclose(by[0], by[1], atol=1e-8)


@pytest.mark.parametrize("kind", ["one_state", "instrument"])
def test_counts_are_kept_when_a_model_is_saved_continued_and_checked(kind, tmp_path):
    X, y, sources, counts = crowd(("dry", "wet"))
    settings = {"lengthscale": 3.0, "reports_model": kind}
    model = cf.HeatmapBCC(**settings).fit(X[:40], y[:40], sources[:40], counts=counts[:40])
    model.partial_fit(X[40:], y[40:], sources[40:], counts=counts[40:])
    assert model.reports_.count.tolist() == counts.tolist()
    model.save(tmp_path / "model.cf")
    again = cf.HeatmapBCC.load(tmp_path / "model.cf")
    assert again.reports_.count.tolist() == counts.tolist()
    np.testing.assert_allclose(again.predict_proba(X), model.predict_proba(X), atol=1e-9)
    # Totals draw states given the reports, as often as they count.
    many = cf.HeatmapBCC(**settings).fit(*repeated(X, y, sources, counts))
    drawn = [m.totals(X, np.zeros(len(X), dtype=int), draws=20)["share_low_wet"][0] for m in (again, many)]
    assert drawn[0] == pytest.approx(drawn[1], abs=0.02)
    checks = [cf.check_model(m, draws=5, psis=False) for m in (again, many)]
    assert checks[0].reports == checks[1].reports == counts.sum()
    assert checks[0].agreement.pairs == checks[1].agreement.pairs
    assert checks[0].surprise == pytest.approx(checks[1].surprise, abs=0.01)


def test_a_large_count_costs_no_more_rows():
    X, y, sources, _ = crowd(("dry", "wet"))
    model = cf.HeatmapBCC(lengthscale=3.0, reports_model="instrument").fit(X, y, sources, counts=1_000)
    assert model.reports_.n_reports == len(X) * 1_000 and len(model._setup.problem.reported.site) == len(X)


@pytest.mark.parametrize(
    ("counts", "settings", "more", "message"),
    [
        (0, {}, {}, "count of 0"),
        (1.5, {}, {}, "count of 1.5"),
        (-2, {}, {}, "count of -2"),
        (np.nan, {}, {}, "count of nan"),
        ([1, 2], {}, {}, "one per report"),
        ("many", {}, {}, "whole numbers"),
        (2, {"inference": "gibbs"}, {}, "gibbs"),
        (2, {}, {"scores": 0.7}, "a score is one report"),
    ],
)
def test_counts_that_cannot_be_used_are_refused_before_any_work(counts, settings, more, message):
    X, y, sources, _ = crowd(("dry", "wet"))
    more = {name: np.full(len(X), value) for name, value in more.items()}
    with pytest.raises(InputError, match=message):
        cf.HeatmapBCC(lengthscale=3.0, **settings).fit(X, y, sources, counts=counts, **more)


def test_models_that_cannot_count_get_equal_rows_from_the_pipeline():
    X, y, sources, counts = crowd(("dry", "wet"))
    reports = Reports.from_arrays(X, y, sources, count=counts)
    told = as_arguments(cf.HeatmapBCC(inference="gibbs"), reports)
    assert told["counts"] is None and len(told["X"]) == counts.sum()
    assert as_arguments(cf.HeatmapBCC(), reports)["counts"].tolist() == counts.tolist()


def test_rows_without_a_score_keep_their_counts_beside_rows_with_one():
    X, y, sources, counts = crowd(("dry", "wet"))
    score = np.where(np.arange(len(X)) % 4 == 1, 0.8, np.nan)
    told = as_arguments(cf.HeatmapBCC(), Reports.from_arrays(X, y, sources, count=counts, score=score))
    scored = np.isfinite(told["scores"])
    assert scored.sum() == counts[np.isfinite(score)].sum() and (told["counts"][scored] == 1).all()
    assert told["counts"].sum() == counts.sum() and len(told["X"]) < counts.sum()
    model = cf.HeatmapBCC(lengthscale=3.0, max_iter=3, tol=1e-12)
    rows = Reports.from_arrays(X, y, sources, count=counts, score=score).one_row_per_report()
    with pytest.warns(ConvergenceWarning):
        one = model.fit(**told).predict_proba(X)
        many = cf.HeatmapBCC(**model.get_params()).fit(rows.places, y[rows_of(counts)], sources[rows_of(counts)],
                                                       scores=rows.score).predict_proba(X)  # fmt: skip
    np.testing.assert_allclose(one, many, atol=1e-8)


def rows_of(counts):
    return np.repeat(np.arange(len(counts)), counts)


@pytest.mark.parametrize(
    ("settings", "more"), [({"inference": "gibbs"}, {}), ({}, {"score": 0.8}), ({"cluster": "local"}, {})]
)
def test_counts_that_would_become_far_too_many_rows_are_refused_before_the_fit(settings, more):
    X, y, sources, _ = crowd(("dry", "wet"))
    columns = {name: np.full(len(X), value) for name, value in more.items()}
    cluster = settings.get("cluster")
    count = np.full(len(X), 1_000_000 if cluster else 100_000)
    reports = Reports.from_arrays(X * 1000 + [500_000, 0], y, sources, count=count, crs="EPSG:32618", **columns)
    given = {"cell": 500, "lengthscale": 3000} | {name: v for name, v in settings.items() if name != "cluster"}
    with pytest.raises(InputError, match=r"rows \(one row counts 1.*000 times\).*--count none"):
        fuse(reports, fit=on_cluster(cluster) if cluster else None, **given)


def test_a_map_of_counts_is_the_map_of_equal_rows():
    X, y, sources, counts = crowd(("dry", "wet"))
    reports = Reports.from_arrays(X * 1000 + [500_000, 0], y, sources, count=counts, crs="EPSG:32618")
    settings: dict[str, Any] = {"cell": 500, "lengthscale": 3000, "inference": "collapsed"}
    one, many = (fuse(r, **settings) for r in (reports, reports.one_row_per_report()))
    assert (one.heatmap.reports == many.heatmap.reports).all() and one.heatmap.reports.sum() == counts.sum()
    np.testing.assert_allclose(one.heatmap.probability, many.heatmap.probability, atol=1e-6)
    assert reports.take([1, 0]).count.tolist() == [3, 1]
    assert reports.join(Reports.from_arrays(X[:2], y[:2], sources[:2])).count[-3:].tolist() == [5, 1, 1]
    frame = reports.to_frame()
    assert (
        Reports.from_frame(frame).count is None and Reports.from_frame(frame, count="count").n_reports == counts.sum()
    )
