"""IBCC against the stored gold of the paper's authors, its limits and its bound."""

import warnings
from typing import Any

import numpy as np
import pytest

import crowdfield as cf
from crowdfield.errors import ConvergenceWarning, InputError
from crowdfield.models.base import find_sites


@pytest.fixture
def items():
    """Ten sources on 200 items of three states; sources 8 and 9 say 'a' to everything."""
    rng = np.random.default_rng(3)
    truth = rng.integers(0, 3, 200)
    item, source = rng.integers(0, 200, 1600), rng.integers(0, 10, 1600)
    label = np.where(rng.random(1600) < 0.6, truth[item], rng.integers(0, 3, 1600))
    label[source >= 8] = 0
    return item[:, None].astype(float), np.array(list("abc"))[label], source, np.array(list("abc"))[truth]


def test_reproduces_the_stored_gold_of_tacloban(data_folder):
    """The authors' gold is IBCC stopped after 13 iterations: theirs and ours agree to rounding there."""
    crowd = np.load(data_folder / "prn" / "prn_crowdlabels_structural_damage_3_0.npy")
    p, x, y = (np.load(data_folder / "prn" / f"prn_gold_{part}_structural_damage_3.npy") for part in "pxy")
    model = cf.IBCC(confusion_prior=[[19, 1], [15, 5]], proportion_prior=[100, 100], max_iter=13)
    with pytest.warns(ConvergenceWarning, match="not converged"):
        model.fit(crowd[:, 1:3], crowd[:, 3], sources=crowd[:, 0])
    cells = np.column_stack([x, y])
    assert np.abs(model.predict_proba(cells) - p).max() < 1e-12
    # Run to the end, no cell moves by a hundredth.
    model.set_params(max_iter=1000).fit(crowd[:, 1:3], crowd[:, 3], sources=crowd[:, 0])
    assert np.abs(model.predict_proba(cells) - p).max() < 0.01


def test_bound_never_falls_and_more_iterations_change_nothing(items):
    X, y, sources, _ = items
    model = cf.IBCC().fit(X, y, sources)
    assert np.diff(model.bound_history_).min() > -1e-9 * abs(model.bound_)
    longer = cf.IBCC(tol=1e-12, max_iter=5 * model.n_iter_)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        longer.fit(X, y, sources)
    assert np.abs(longer.predict_proba(X) - model.predict_proba(X)).max() < 1e-4


def test_knowing_the_sources_beats_counting_votes(items):
    X, y, sources, truth = items
    every = np.arange(200.0)[:, None]
    votes = (cf.MajorityVote().fit(X, y, sources).predict(every) == truth).mean()
    assert (cf.IBCC().fit(X, y, sources).predict(every) == truth).mean() >= votes + 0.02


def test_elsewhere_it_says_the_class_proportions(items):
    X, y, sources, _ = items
    model = cf.IBCC().fit(X, y, sources)
    np.testing.assert_allclose(model.predict_proba([[-1.0], [0.5]]), np.tile(model.proportions_, (2, 1)))
    np.testing.assert_allclose(model.proportions_.sum(), 1.0)


def test_permuting_states_permutes_everything(items):
    X, y, sources, _ = items
    swap = {"a": "c", "b": "a", "c": "b"}
    model, other = cf.IBCC().fit(X, y, sources), cf.IBCC().fit(X, [swap[v] for v in y], sources)
    order = [2, 0, 1]  # where a, b and c went
    np.testing.assert_allclose(other.predict_proba(X)[:, order], model.predict_proba(X), atol=1e-9)
    np.testing.assert_allclose(other.confusion_[:, order][:, :, order], model.confusion_, atol=1e-9)


def test_one_trusted_source_decides():
    X = np.zeros((6, 2))
    y, sources = [1, 1, 1, 1, 1, 0], ["a", "b", "c", "d", "e", "expert"]
    prior = {"expert": [[450, 1], [1, 450]]}
    assert cf.IBCC().fit(X, y, sources).predict(X[:1]) == [1]
    assert cf.IBCC(confusion_prior=prior).fit(X, y, sources).predict(X[:1]) == [0]


def test_there_may_be_more_labels_than_states():
    """A label that is no state ('unsure') says what its sources make of it."""
    rng = np.random.default_rng(5)
    truth = rng.integers(0, 2, 300)
    item = rng.integers(0, 300, 3000)
    sure = np.where(rng.random(3000) < 0.8, truth[item], 1 - truth[item])
    y = np.array(["no", "yes", "unsure"])[np.where((truth[item] == 1) & (rng.random(3000) < 0.5), 2, sure)]
    model = cf.IBCC(states=["no", "yes"]).fit(item[:, None].astype(float), y)
    assert model.confusion_.shape == (1, 2, 3)
    assert list(model.labels_seen_) == ["no", "yes", "unsure"]
    assert model.confusion_[0, 1, 2] > 0.4 and model.confusion_[0, 0, 2] < 0.05


def test_repeated_reports_count_every_time():
    """One source's ten equal reports at a place weigh as ten: the model knows no other reading."""
    X = np.zeros((12, 1))
    y, sources = [0] * 10 + [1, 1], [0] * 10 + [1, 2]
    assert cf.IBCC().fit(X, y, sources).predict_proba(X[:1])[0, 0] > 0.9


def test_find_sites_is_exact():
    rng = np.random.default_rng(6)
    reports = cf.Reports.from_arrays(rng.integers(0, 6, (200, 3)).astype(float), np.zeros(200, int))
    sites = reports.sites().places
    np.testing.assert_array_equal(find_sites(sites, sites), np.arange(len(sites)))
    wanted = rng.integers(-1, 7, (500, 3)).astype(float)
    slow = [next((i for i, s in enumerate(sites) if (s == x).all()), -1) for x in wanted]
    np.testing.assert_array_equal(find_sites(sites, wanted), slow)


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "negative prior": (dict(confusion_prior=[[2, -1], [1, 2]]), "positive pseudo-counts"),
    "prior shape": (dict(confusion_prior=[[2, 1, 1], [1, 2, 1]]), "shape"),
    "prior words": (dict(confusion_prior=[["a", "b"], ["c", "d"]]), "must be numbers"),
    "unknown source's bad prior": (dict(confusion_prior={"nobody": [[1, 2]]}), "nobody"),
    "zero proportion": (dict(proportion_prior=0.0), "proportion_prior"),
    "proportions of three": (dict(proportion_prior=[1, 1, 1]), "proportion_prior"),
    "tol": (dict(tol=-1.0), "tol"),
    "max_iter": (dict(max_iter=0), "max_iter"),
    "states twice": (dict(states=[0, 0]), "different from each other"),
    "label not named": (dict(labels=[0, 2]), "label 1"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_parameters_are_named(case):
    parameters, message = BAD[case]
    with pytest.raises(InputError, match=message):
        cf.IBCC(**parameters).fit(np.arange(4.0)[:, None], [0, 1, 0, 1], ["a", "b", "a", "b"])
