"""What users get wrong, and what the world gets wrong: a clear error, or a finite and sensible map."""

from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

import crowdfield as cf
from crowdfield.errors import DataWarning, InputError

SQUARE = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0], [5.0, 5.0], [6.0, 5.0]])
SAID = np.array([0, 0, 0, 1, 1, 1])
WHO = np.array(["a", "b", "a", "b", "a", "b"])


REPORTS: dict[str, tuple[Any, Any, Any, str]] = {
    "empty": (np.empty((0, 2)), [], [], "0 sample"),
    "NaN": (np.where(SQUARE == 6.0, np.nan, SQUARE), SAID, WHO, "NaN"),
    "infinite": (np.where(SQUARE == 6.0, np.inf, SQUARE), SAID, WHO, "inf"),
    "fewer labels": (SQUARE, SAID[:-1], WHO, "inconsistent"),
    "fewer sources": (SQUARE, SAID, WHO[:-1], "source"),
    "one label": (SQUARE, 0 * SAID, WHO, "one class"),
    "one row too flat": (SQUARE[0], SAID[:1], WHO[:1], "1D array"),
    "words for places": ([["here", "there"]] * 6, SAID, WHO, "could not convert"),
    "no labels": (SQUARE, None, WHO, "requires y"),
    "a label that is not a number": (SQUARE, np.where(SAID, 1.0, np.nan), WHO, "NaN"),
}


@pytest.mark.parametrize("case", REPORTS)
def test_unusable_reports_raise_an_error_that_says_why(case):
    X, y, sources, message = REPORTS[case]
    with pytest.raises(InputError, match=message):
        cf.HeatmapBCC().fit(X, y, sources)


SETTINGS: dict[str, tuple[dict[str, Any], str]] = {
    "lengthscale 0": (dict(lengthscale=0.0), "lengthscale"),
    "lengthscale < 0": (dict(lengthscale=-3.0), "lengthscale"),
    "lengthscale NaN": (dict(lengthscale=np.nan), "lengthscale"),
    "lengthscale of 3 columns": (dict(lengthscale=[1.0, 2.0, 3.0]), "2 columns"),
    "lengthscale guess": (dict(lengthscale="guess"), "learn"),
    "shape": (dict(scale_shape=-1.0), "scale_shape"),
    "rate": (dict(scale_rate=0.0), "scale_rate"),
    "tol": (dict(tol=-1e-3), "tol"),
    "max_iter": (dict(max_iter=0), "max_iter"),
    "kernel": (dict(kernel="cubic"), "unknown kernel"),
    "inference": (dict(inference="magic"), "inference"),
    "engine": (dict(engine="steam"), "engine"),
    "linearisation": (dict(linearisation="taylor"), "linearisation"),
    "communities": (dict(communities=0), "communities"),
    "communities, a word": (dict(communities="some"), "communities"),
    "bounds": (dict(lengthscale="learn", lengthscale_bounds=(5.0,)), "pair"),
    "bounds turned round": (dict(lengthscale="learn", lengthscale_bounds=(5.0, 1.0)), "lengthscale_bounds"),
    "confusion shape": (dict(confusion_prior=[[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]), "shape"),
    "confusion < 0": (dict(confusion_prior=[[1.0, -1.0], [1.0, 1.0]]), "positive"),
    "confusion of a source": (dict(confusion_prior={"a": [[1.0, 0.0], [1.0, 1.0]]}), "'a'"),
    "prior mean": (dict(prior_mean=[0.0, 1.0, 2.0]), "prior_mean"),
    "prior mean NaN": (dict(prior_mean=lambda X: np.full(len(X), np.nan)), "finite"),
    "states twice": (dict(states=[0, 0, 1]), r"states must be different from each other, not \[0, 0, 1\]"),
    "one state": (dict(states=[1]), "one class"),
    "labels without one seen": (dict(states=[0, 1], labels=[0, 2]), r"label 1, which is not among the labels \[0, 2\]"),
}


@pytest.mark.parametrize("case", SETTINGS)
def test_unusable_settings_raise_an_error_that_names_them(case):
    settings, message = SETTINGS[case]
    with pytest.raises(InputError, match=message):
        cf.HeatmapBCC(**settings).fit(SQUARE, SAID, WHO)


GOLD: dict[str, tuple[Any, str]] = {
    "unknown state": (([[0.0, 0.0]], ["flooded"]), "'flooded'"),
    "lengths": (([[0.0, 0.0]], [0, 1]), "1 places but 2"),
    "columns": (([[0.0, 0.0, 0.0]], [0]), "2 columns"),
    "NaN": (([[0.0, np.nan]], [0]), "finite"),
    "not a pair": ([[0.0, 0.0]], "pair"),
}


@pytest.mark.parametrize("case", GOLD)
def test_unusable_gold_raises_an_error_that_says_why(case):
    gold, message = GOLD[case]
    with pytest.raises(InputError, match=message):
        cf.HeatmapBCC().fit(SQUARE, SAID, WHO, gold=gold)


QUESTIONS = {
    "predict: columns": (lambda m: m.predict_proba([[1.0, 2.0, 3.0]]), "features"),
    "predict: NaN": (lambda m: m.predict_rate([[1.0, np.nan]]), "NaN"),
    "suggest: score": (lambda m: m.suggest(SQUARE, 2, score="hope"), "score"),
    "suggest: cost": (lambda m: m.suggest(SQUARE, 2, cost=[1.0, -1.0, 1.0, 1.0, 1.0, 1.0]), "cost"),
    "suggest: costs": (lambda m: m.suggest(SQUARE, 2, cost=[1.0]), "cost"),
    "suggest: n": (lambda m: m.suggest(SQUARE, 0), "n must"),
    "suggest: source": (lambda m: m.suggest(SQUARE, 2, source="nobody"), "nobody"),
    "suggest: too many": (lambda m: m.suggest(np.zeros((5000, 2)), 2), "4000"),
    "explain: places": (lambda m: m.explain(SQUARE), "one place"),
    "explain: state": (lambda m: m.explain([0.0, 0.0], state=7), "7"),
    "partial_fit: columns": (lambda m: m.partial_fit([[1.0]], [1], ["a"]), "features"),
}


@pytest.mark.parametrize("case", QUESTIONS)
def test_unusable_questions_raise_an_error_that_says_why(case):
    model = cf.HeatmapBCC(lengthscale=2.0).fit(SQUARE, SAID, WHO)
    ask, message = QUESTIONS[case]
    with pytest.raises(InputError, match=message):
        ask(model)


@pytest.mark.parametrize("ask", ["predict", "predict_proba", "predict_rate", "predict_latent", "explain", "suggest"])
def test_asking_an_unfitted_model_raises_not_fitted(ask):
    with pytest.raises(NotFittedError, match="not fitted"):
        getattr(cf.HeatmapBCC(), ask)(SQUARE)


def sensible(model, places):
    for p in (model.predict_proba(places), model.predict_rate(places)[0]):
        assert np.isfinite(p).all() and p.min() >= 0.0
        np.testing.assert_allclose(p.sum(1), 1.0, atol=1e-9)
    mean, variance = model.predict_latent(places)
    assert np.isfinite(mean).all() and np.isfinite(variance).all() and variance.min() >= 0.0
    assert np.isfinite(model.scale_).all() and np.isfinite(model.confusion_).all() and np.isfinite(model.bound_)


HOW = [dict(), dict(inference="vb"), dict(engine="spectral"), dict(inference="vb", linearisation="ekf")]
each = pytest.mark.parametrize("how", HOW, ids=lambda h: "-".join(h.values()) or "default")


@each
def test_one_report_gives_a_sensible_map(how):
    model = cf.HeatmapBCC(lengthscale=2.0, states=[0, 1], **how).fit([[0.0, 0.0]], [1], ["a"])
    p = model.predict_proba([[0.0, 0.0], [1.0, 0.0], [50.0, 0.0]])[:, 1]
    sensible(model, SQUARE)
    far = 0.02 if how.get("inference") == "vb" else 0.1  # one report says a little about the level too
    assert 0.5 < p[0] < 0.9 and p[0] > p[1] > p[2] - 1e-6 and p[2] == pytest.approx(0.5, abs=far)


@each
def test_reports_that_all_say_the_same_give_a_sensible_map(how):
    with pytest.warns(DataWarning, match="All reports say 1"):
        model = cf.HeatmapBCC(lengthscale=2.0, states=[0, 1], **how).fit(SQUARE, np.ones(6, dtype=int), WHO)
    sensible(model, SQUARE)
    assert (model.predict_proba(SQUARE)[:, 1] > 0.5).all()


@each
def test_reports_at_a_single_place_give_a_sensible_map(how):
    X = np.tile([[3e5, 5e6]], (40, 1))
    y = np.array([1] * 30 + [0] * 10)
    model = cf.HeatmapBCC(lengthscale=2.0, **how).fit(X, y, np.arange(40) % 8)
    sensible(model, X[:1] + np.array([[0.0, 0.0], [1.0, 0.0], [1e6, 0.0]]))
    # Three of four say so. The one-state model is sure of one state; instruments stay near the share.
    assert model.predict_proba(X[:1])[0, 1] > 0.65


@each
def test_a_report_far_from_all_others_leaves_the_map_sensible(how):
    X = np.vstack([SQUARE, [[1e6, 1e6]]])
    if how.get("engine") == "spectral":  # asked for by name, so it says why not, and what to take
        with pytest.raises(InputError, match="inducing"):
            cf.HeatmapBCC(lengthscale=2.0, **how).fit(X, np.append(SAID, 1), np.append(WHO, "a"))
        return
    model = cf.HeatmapBCC(lengthscale=2.0, **how).fit(X, np.append(SAID, 1), np.append(WHO, "a"))
    sensible(model, np.vstack([X, [[5e5, 5e5]]]))


@pytest.mark.parametrize("lengthscale", [1e-9, 1e-3, 1e5, 1e12])
@pytest.mark.parametrize("how", HOW[:2], ids=["collapsed", "vb"])
def test_lengthscales_much_longer_or_shorter_than_the_map_give_sensible_maps(lengthscale, how):
    model = cf.HeatmapBCC(lengthscale=lengthscale, **how).fit(SQUARE, SAID, WHO)
    sensible(model, np.vstack([SQUARE, SQUARE + 0.5]))


def test_a_source_that_repeats_itself_very_often_leaves_the_map_sensible():
    """One source says the same of one place again and again: finite, and the rest of the map hardly notices."""
    X = np.vstack([np.tile(SQUARE[:1], (200_000, 1)), SQUARE])
    y = np.concatenate([np.ones(200_000, dtype=int), SAID])
    model = cf.HeatmapBCC(lengthscale=2.0).fit(X, y, np.concatenate([np.full(200_000, "spam"), WHO]))
    sensible(model, SQUARE)
    assert model.predict_proba(SQUARE[-1:])[0, 1] > 0.5


def test_single_precision_and_integers_are_as_good():
    reference = cf.HeatmapBCC(lengthscale=2.0).fit(SQUARE, SAID, WHO).predict_proba(SQUARE)
    for kind in (np.float32, np.int64, np.int8):
        model = cf.HeatmapBCC(lengthscale=2.0).fit(SQUARE.astype(kind), SAID.astype(np.int8), WHO)
        np.testing.assert_allclose(model.predict_proba(SQUARE.astype(kind)), reference, atol=1e-12)


def test_places_that_nearly_coincide_give_a_sensible_map():
    X = np.vstack([SQUARE, SQUARE + 1e-9, SQUARE - 1e-12])
    model = cf.HeatmapBCC(lengthscale=2.0, kernel="rbf").fit(X, np.tile(SAID, 3), np.tile(WHO, 3))
    sensible(model, X)


def test_a_lengthscale_cannot_be_learned_from_one_place_but_that_is_no_error():
    model = cf.HeatmapBCC(lengthscale="learn").fit(np.zeros((4, 2)), [0, 1, 1, 1], list("abcd"))
    sensible(model, SQUARE)
    each: Any = ["learn", "learn"]
    by_column = cf.HeatmapBCC(lengthscale=each).fit(SQUARE * [1.0, 0.0], SAID, WHO)
    sensible(by_column, SQUARE)


def test_two_sources_who_always_contradict_each_other_leave_it_open():
    X = np.repeat(SQUARE, 2, axis=0)
    model = cf.HeatmapBCC(lengthscale=2.0).fit(X, np.tile([0, 1], 6), np.tile(["a", "b"], 6))
    np.testing.assert_allclose(model.predict_proba(SQUARE), 0.5, atol=0.02)
