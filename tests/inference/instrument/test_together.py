"""Sources and field moved together, predictions of further reports, and the choice between the two models."""

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from tests.inference.instrument.test_instrument import crowd, problem

import crowdfield as cf
from crowdfield.errors import InputError
from crowdfield.inference.fields.spectral import SpectralBasis
from crowdfield.inference.instrument import coupled, iterate, linear, link, model
from crowdfield.inference.instrument.responses import Population
from crowdfield.inference.instrument.selection import Reported
from crowdfield.inference.kernels import kernel
from crowdfield.models import comparison


def test_newtons_step_is_zero_after_convergence():
    X, site, source, label, *_ = crowd(31)
    asked = problem(X, site, source, label, 8)
    fitted = model.fit(asked, None, iterate.Policy(tol=1e-8, max_iter=400))
    at = fitted.settled.at
    step = coupled.image(asked.observed, fitted.design, at).image
    np.testing.assert_allclose(step.theta, at.state.theta, atol=1e-5)
    np.testing.assert_allclose(step.eta, at.state.eta, atol=1e-4)


def test_fits_converge_when_sources_report_on_separate_parts_of_the_map():
    """Leaning sources and a high field explain the same reports: in turn, sources and field would creep."""
    rng = np.random.default_rng(32)
    photos, points = 30, 12
    X = np.repeat(rng.uniform(0, 1000, (photos, 2)), points, axis=0) + rng.uniform(0, 1, (photos * points, 2))
    source = np.repeat(np.arange(photos), points)
    g = np.repeat(2.0 * rng.standard_normal(photos), points) + rng.standard_normal(photos * points)
    lean = 2.0 * rng.standard_normal(photos)
    everybody = rng.choice(photos * points, 100, replace=False)  # and a few places that a common source saw too
    site = np.concatenate([np.arange(photos * points), everybody])
    by = np.concatenate([source, np.full(100, photos)])
    said = g[site] + np.append(lean, 0.0)[by]
    label = (rng.random(len(site)) < 1.0 / (1.0 + np.exp(-said))).astype(int)
    fitted = model.fit(problem(X, site, by, label, photos + 1, lengthscale=2.0), None, iterate.Policy())
    assert fitted.settled.converged and fitted.settled.n_iter < 60
    assert (np.diff(fitted.settled.history) > -1e-6).all()


def test_columns_are_projected_as_by_the_features_themselves():
    rng = np.random.default_rng(35)
    X, columns = rng.uniform(0, 30, (9000, 2)), linear.Columns(lambda X: X[:, :1], 1)
    design = linear.Design(SpectralBasis(kernel("matern32", 1.0), X), columns, X)
    assert not design.is_dense
    values = sp.random(len(X), 60, density=0.02, format="csr", random_state=rng, data_rvs=rng.standard_normal)
    expected = design.features(slice(None)).T @ values.toarray()
    # Single precision is enough for the coupling of sources and field.
    np.testing.assert_allclose(design.project_columns(values), expected, atol=1e-5 * np.abs(expected).max())


def test_what_a_source_would_say_sums_to_one():
    X, site, source, label, *_ = crowd(33)
    fitted = model.fit(problem(X, site, source, label, 8), None, iterate.Policy())
    places, sources = np.repeat(np.arange(60), 8), np.tile(np.arange(8), 60)
    no, yes = (
        fitted.log_probabilities(Reported(places, sources, np.full(480, said), np.ones(480, dtype=np.int64)))
        for said in (0, 1)
    )
    np.testing.assert_allclose(np.exp(no) + np.exp(yes), 1.0, atol=1e-9)


def test_the_choice_between_models_is_deterministic():
    X, site, source, label, *_ = crowd(34, n_places=80, reports=300)
    found = [cf.HeatmapBCC(lengthscale=3.0, states=[0, 1]).fit(X[site], label, sources=source) for _ in range(2)]
    assert found[0].model_comparison_ == found[1].model_comparison_
    assert found[0].model_comparison_.one_state > found[0].model_comparison_.habits


def test_few_reports_do_not_choose_between_models():
    X, site, source, label, *_ = crowd(35, n_places=30, reports=comparison.FEWEST_REPORTS - 1)
    fitted = cf.HeatmapBCC(lengthscale=3.0, states=[0, 1]).fit(X[site], label, sources=source)
    assert fitted.reports_model_ == "one_state" and fitted.model_comparison_ is None


def test_a_stream_compares_again_when_it_has_grown():
    X, site, source, label, *_ = crowd(36, n_places=60, reports=260)
    fitted = cf.HeatmapBCC(lengthscale=3.0, states=[0, 1]).fit(X[site[:200]], label[:200], sources=source[:200])
    assert fitted.model_comparison_ is not None
    fitted.partial_fit(X[site[200:230]], label[200:230], sources=source[200:230])
    assert fitted.model_comparison_ is None
    fitted.partial_fit(X[site[230:]], label[230:], sources=source[230:])
    assert fitted.model_comparison_ is not None


def test_a_confusion_prior_of_one_source_needs_the_one_state_model():
    X, site, source, label, *_ = crowd(37)
    prior = {3: [[8.0, 2.0], [4.0, 6.0]]}
    auto = cf.HeatmapBCC(lengthscale=3.0, states=[0, 1], confusion_prior=prior)
    assert auto.fit(X[site], label, sources=source).reports_model_ == "one_state"
    with pytest.raises(InputError, match="confusion_prior says of 3"):
        cf.HeatmapBCC(reports_model="instrument", states=[0, 1], confusion_prior=prior).fit(
            X[site], label, sources=source
        )


def difference(bits, standard_error=0.01):
    return comparison.Difference(bits, standard_error)


@pytest.mark.parametrize(
    ("separate", "instrument", "taken"),
    [
        (difference(0.0), difference(0.0), "one_state"),
        (difference(0.015), difference(0.015), "one_state"),  # within two standard errors
        (difference(0.025), difference(-0.1), "separate"),
        (difference(0.025), difference(0.015), "separate"),
        (difference(0.025), difference(0.025), "instrument"),  # better by so much than the better of the two
        (difference(-0.1), difference(0.025), "instrument"),
        (difference(0.008, 0.001), difference(0.009, 0.001), "one_state"),  # certain, but not to be noticed
        (difference(0.012, 0.001), difference(0.009, 0.001), "separate"),
        (difference(0.0), difference(-np.inf, 0.0), "one_state"),  # the instrument model could not be fitted
        (difference(-np.inf, 0.0), difference(0.0), "one_state"),
        (difference(0.0), difference(np.inf, 0.0), "instrument"),  # only the instrument model could be fitted
        (difference(np.inf, 0.0), difference(0.0), "separate"),
    ],
)
def test_the_one_state_model_stays_unless_another_predicts_better_by_two_standard_errors_and_some_bits(
    separate, instrument, taken
):
    found = comparison.Comparison(-0.8, -0.8, -0.8, -0.9, separate, instrument)
    assert found.better == taken
    assert found.better_one_state == ("separate" if separate.beyond > 0 else "one_state")


@pytest.mark.parametrize(
    ("separate", "instrument", "clear"),
    [
        (difference(-0.1), difference(0.1), True),  # far better: further reports would not change it
        (difference(-0.1), difference(-0.1), True),  # far worse
        (difference(-0.1), difference(0.02), False),  # on the border: better by two standard errors
        (difference(0.02), difference(-0.1), False),  # which of the one-state models is open
        (difference(0.02), difference(0.1), True),  # but not where the instrument model is better than either
        (difference(0.0, 0.0), difference(0.0, 0.0), True),  # without separate matrices to compare with
        (difference(-0.1), difference(-np.inf, 0.0), True),
        (difference(0.1), difference(np.inf, 0.0), True),
    ],
)
def test_a_comparison_is_clear_when_further_reports_would_hardly_change_the_choice(separate, instrument, clear):
    found = comparison.Comparison(-0.8, -0.8, -0.8, -0.9, separate, instrument)
    assert bool(found.is_clear) == clear


def predictions(*models, counts=None, seed=0):
    """log P of 400 left-out reports under instruments, one state, separate matrices and habits: means in bits given."""
    rng = np.random.default_rng(seed)
    logs = [np.log(2.0) * (mean + 0.05 * rng.standard_normal(400)) for mean in models]
    return np.column_stack([*logs, np.ones(400) if counts is None else counts])


def test_the_instrument_model_is_compared_with_the_better_of_the_two_one_state_models():
    found = comparison._summarised(predictions(-0.55, -0.80, -0.50, -0.90))
    assert found.better == "separate" and found.instrument_gain.bits == pytest.approx(found.instrument - found.separate)
    found = comparison._summarised(predictions(-0.55, -0.50, -0.80, -0.90))
    assert found.better == "one_state" and found.instrument_gain.bits == pytest.approx(
        found.instrument - found.one_state
    )
    assert found.separate_gain.bits == pytest.approx(found.separate - found.one_state)
    # Habits are shown, not compared: a model that predicts no better than them is not replaced for that alone.
    assert comparison._summarised(predictions(-0.80, -0.80, -0.80, -0.60)).better == "one_state"


def test_a_difference_is_in_bits_per_report_with_the_standard_error_of_its_mean():
    predicted = predictions(-0.70, -0.80, -0.80, -0.90)
    found = comparison._summarised(predicted)
    gain = (predicted[:, 0] - predicted[:, 1]) / np.log(2.0)
    assert found.instrument_gain.bits == pytest.approx(gain.mean())
    assert found.instrument_gain.standard_error == pytest.approx(gain.std() / np.sqrt(400))
    # A row that counts twice is two reports that were predicted as a whole: more weight, not more certainty.
    twice = comparison._summarised(predictions(-0.70, -0.80, -0.80, -0.90, counts=np.full(400, 2.0)))
    np.testing.assert_allclose(twice.instrument_gain, found.instrument_gain)


def test_a_model_that_cannot_be_fitted_is_not_chosen():
    predicted = predictions(-0.70, -0.80, -0.80, -0.90)
    for column, better in ((0, "one_state"), (1, "instrument"), (2, "instrument")):
        failed = predicted.copy()
        failed[:, column] = -np.inf
        found = comparison._summarised(failed)
        assert found.better == better
    failed = predicted.copy()
    failed[:, 0] = -np.inf
    assert comparison._summarised(failed).instrument_gain == (-np.inf, 0.0)
    failed = predicted.copy()
    failed[:, 2] = -np.inf
    assert comparison._summarised(failed).separate_gain == (-np.inf, 0.0)
    failed[:, 1] = -np.inf  # neither one-state model
    assert comparison._summarised(failed).better == "instrument"
    failed[:, 0] = -np.inf  # nor any other: the choice stays what it is without a comparison
    assert comparison._summarised(failed).better == "one_state"


def test_sources_without_reports_keep_their_prior_and_cost_nothing():
    """The covariances of field and sources together, against the inverse of the whole precision."""
    rng = np.random.default_rng(0)
    S, d, J, m = 6, 2, 2, 5
    p = S * d + J
    half = rng.normal(size=(m + p, m + p))
    precision = half @ half.T + np.eye(m + p)
    silent = m + np.r_[2 * d : 3 * d, 4 * d : 5 * d]  # two sources of whom no report tells
    precision[silent] = precision[:, silent] = 0.0
    precision[silent, silent] = 3.0
    state = SimpleNamespace(
        theta=np.zeros((S, d)),
        link=link.start(Population(np.ones(2), np.ones(2)), np.array([-0.5, 0.5])),
        variances=None,
    )
    at = SimpleNamespace(state=state, q=SimpleNamespace(mean=np.zeros(m)))
    found = coupled.solved(at, precision[:m, :m], precision[:m, m:], precision[m:, m:])
    expected = np.linalg.inv(precision)
    np.testing.assert_allclose(found.q.covariance, expected[:m, :m], atol=1e-12)
    for s in range(S):
        rows = slice(m + s * d, m + (s + 1) * d)
        np.testing.assert_allclose(found.sources[s], expected[rows, rows], atol=1e-12)
