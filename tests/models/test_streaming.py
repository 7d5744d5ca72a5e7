"""Reports that arrive, and reports that are taken back: the map must not depend on the way it got there."""

import numpy as np
import pytest

import crowdfield as cf
from crowdfield.errors import InputError

GRID = np.stack(np.meshgrid(np.arange(10.0), np.arange(10.0)), -1).reshape(-1, 2)


def crowd(seed=0, states=2, reports=240):
    rng = np.random.default_rng(seed)
    truth = (GRID[:, 0] * states // 10).astype(int)
    place, source = rng.integers(0, len(GRID), reports), rng.integers(0, 6, reports)
    y = np.where(rng.random(reports) < np.where(source < 5, 0.8, 0.0), truth[place], rng.integers(0, states, reports))
    return GRID[place], y, np.array(list("abcdef"))[source]


SETTINGS = [
    dict(),
    dict(inference="vb"),
    dict(inference="vb", linearisation="ekf"),
    dict(engine="spectral"),
    dict(communities=1),
    dict(prior_mean=-1.0, confusion_prior={"a": [[450.0, 1.0], [1.0, 450.0]]}),
]
each = pytest.mark.parametrize("settings", SETTINGS, ids=lambda s: "-".join(map(str, s)) or "default")


def same(one, other, atol=1e-3):
    np.testing.assert_allclose(one.predict_proba(GRID), other.predict_proba(GRID), atol=atol)
    np.testing.assert_allclose(one.predict_rate(GRID), other.predict_rate(GRID), atol=atol)
    np.testing.assert_array_equal(one.sources_seen_, other.sources_seen_)
    np.testing.assert_allclose(one.confusion_, other.confusion_, atol=atol)


@each
def test_more_reports_give_what_a_refit_gives(settings):
    X, y, s = crowd()
    # Which model `auto` takes may change as reports come in; what is tested here is the stream.
    settings = {"reports_model": "one_state", **settings}
    streamed = cf.HeatmapBCC(lengthscale=4.0, states=[0, 1], **settings)
    for part in np.array_split(np.arange(len(y)), 3):
        streamed.partial_fit(X[part], y[part], s[part])
    same(streamed, cf.HeatmapBCC(lengthscale=4.0, states=[0, 1], **settings).fit(X, y, s))


def test_three_states_stream_too():
    X, y, s = crowd(1, states=3)
    streamed = cf.HeatmapBCC(lengthscale=4.0, states=[0, 1, 2]).fit(X[:100], y[:100], s[:100])
    streamed.partial_fit(X[100:], y[100:], s[100:])
    same(streamed, cf.HeatmapBCC(lengthscale=4.0, states=[0, 1, 2]).fit(X, y, s))


def test_a_warm_start_is_shorter():
    X, y, s = crowd()
    model = cf.HeatmapBCC(lengthscale=4.0).fit(X[:230], y[:230], s[:230])
    from_scratch = cf.HeatmapBCC(lengthscale=4.0).fit(X, y, s).n_iter_
    assert model.partial_fit(X[230:], y[230:], s[230:]).n_iter_ < from_scratch


@pytest.mark.parametrize("settings", [dict(), dict(engine="spectral"), dict(inference="vb", engine="spectral")])
def test_partial_fit_without_new_reports_changes_nothing(settings):
    """What is known stays what it is, and finding that out takes fewer sweeps than the first fit."""
    X, y, s = crowd()
    model = cf.HeatmapBCC(lengthscale=4.0, tol=1e-6, **settings).fit(X, y, s)
    before, sweeps = model.predict_proba(GRID), model.n_iter_
    model.set_params(tol=1e-4).forget(rows=[])
    np.testing.assert_allclose(model.predict_proba(GRID), before, atol=1e-4)
    assert model.n_iter_ < 0.7 * sweeps


def test_new_sources_and_new_labels_may_appear():
    X, y, s = crowd()
    model = cf.HeatmapBCC(lengthscale=4.0, states=["dry", "wet"])
    model.fit(X[:100], np.array(["dry", "wet"])[y[:100]], s[:100])
    model.partial_fit(X[100:], np.array(["dry", "wet"])[y[100:]], np.char.add("late ", s[100:]))
    assert len(model.sources_seen_) == 12
    model.partial_fit([[3.0, 3.0]], ["dry"], ["another"])
    assert model.source_table().set_index("source").loc["another", "reports"] == 1


@each
def test_forgetting_a_source_gives_the_map_without_its_reports(settings):
    X, y, s = crowd(2)
    model = cf.HeatmapBCC(lengthscale=4.0, **settings).fit(X, y, s).forget("f")
    without = cf.HeatmapBCC(lengthscale=4.0, **settings).fit(X[s != "f"], y[s != "f"], s[s != "f"])
    np.testing.assert_allclose(model.predict_proba(GRID), without.predict_proba(GRID), atol=1e-3)
    np.testing.assert_allclose(model.confusion_[:5], without.confusion_, atol=1e-3)


def test_forgetting_rows_gives_the_map_without_them():
    X, y, s = crowd(3)
    model = cf.HeatmapBCC(lengthscale=4.0).fit(X, y, s).forget(rows=np.arange(0, 240, 4))
    kept = np.arange(240) % 4 != 0
    same(model, cf.HeatmapBCC(lengthscale=4.0).fit(X[kept], y[kept], s[kept]))
    assert len(model.reports_) == kept.sum()


def test_a_forgotten_source_may_come_back():
    X, y, s = crowd(2)
    model = cf.HeatmapBCC(lengthscale=4.0).fit(X, y, s).forget("f").partial_fit(X[s == "f"], y[s == "f"], s[s == "f"])
    same(model, cf.HeatmapBCC(lengthscale=4.0).fit(X, y, s))


@pytest.mark.parametrize(
    ("what", "message"),
    [
        (dict(), "one of the two"),
        (dict(source="a", rows=[1]), "one of the two"),
        (dict(source="nobody"), "no source 'nobody'"),
        (dict(rows=np.arange(240)), "no reports"),
        (dict(rows=[240]), "240 reports"),
        (dict(rows=[0.5]), "rows"),
    ],
)
def test_forgetting_what_cannot_be_forgotten_is_an_error_and_changes_nothing(what, message):
    X, y, s = crowd()
    model = cf.HeatmapBCC(lengthscale=4.0, max_iter=100).fit(X, y, s)
    before = model.predict_proba(GRID)
    with pytest.raises(InputError, match=message):
        model.forget(**what)
    np.testing.assert_array_equal(model.predict_proba(GRID), before)


@pytest.mark.parametrize("reports_model", ["one_state", "instrument"])
def test_a_learned_length_scale_is_kept_until_there_are_a_quarter_more_reports(reports_model, tmp_path):
    X, y, s = crowd()
    model = cf.HeatmapBCC(lengthscale="learn", states=[0, 1], reports_model=reports_model)
    model.fit(X[:160], y[:160], s[:160]).save(tmp_path / "model.cf")
    learned, tried = model.lengthscale_, model.lengthscale_tried_
    given = cf.HeatmapBCC(lengthscale=float(learned[0]), states=[0, 1], reports_model=reports_model)
    refit = given.fit(X[:180], y[:180], s[:180]).predict_proba(GRID)
    for streamed in (model, cf.HeatmapBCC.load(tmp_path / "model.cf")):
        streamed.partial_fit(X[160:180], y[160:180], s[160:180])
        np.testing.assert_array_equal(streamed.lengthscale_, learned)
        np.testing.assert_allclose(streamed.predict_proba(GRID), refit, atol=2e-3)
    model.partial_fit(X[180:], y[180:], s[180:])
    assert model.lengthscale_tried_.shape != tried.shape or not np.allclose(model.lengthscale_tried_, tried)


def test_the_length_scale_is_learned_again_after_many_reports_are_taken_back():
    X, y, s = crowd()
    model = cf.HeatmapBCC(lengthscale="learn", reports_model="one_state").fit(X, y, s)
    tried = model.lengthscale_tried_
    np.testing.assert_array_equal(model.forget(rows=np.arange(10)).lengthscale_tried_, tried)
    assert not np.array_equal(model.forget(rows=np.arange(100)).lengthscale_tried_, tried)
