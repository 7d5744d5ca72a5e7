"""The instrument model: against slow literal code, in its limits, and on crowds drawn from it."""

import numpy as np
import pytest
from tests import reference_instrument as reference
from tests.simulated_instrument import converged

import crowdfield as cf
from crowdfield.inference.fields.exact import ExactBasis
from crowdfield.inference.instrument import (
    fitting,
    iterate,
    left_out,
    linear,
    link,
    model,
    places,
    responses,
    selection,
)
from crowdfield.inference.instrument.grid import APPEARANCES
from crowdfield.inference.kernels import kernel
from crowdfield.models.unknown import prior_rate_sd

TWO = np.array([-0.5, 0.5])
NO_CHECKS = link.Checks(np.zeros(0, np.int64), np.zeros((0, 2)))


def crowd(seed=0, n_places=60, n_sources=8, reports=400, nugget=0.8, lengthscale=3.0):
    """Reports drawn from the model itself: places, reports and what is true of both."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 10, (n_places, 2))
    K = 2.0 * kernel("matern32", lengthscale).covariance(X, X)
    f = -0.5 + np.linalg.cholesky(K + 1e-9 * np.eye(n_places)) @ rng.standard_normal(n_places)
    g = f + np.sqrt(nugget) * rng.standard_normal(n_places)
    theta = np.stack([1.0 + 0.4 * rng.standard_normal(n_sources), 0.8 * rng.standard_normal(n_sources)], axis=1)
    site, source = rng.integers(0, n_places, reports), rng.integers(0, n_sources, reports)
    p = 1.0 / (1.0 + np.exp(-(theta[source, 0] * g[site] + theta[source, 1])))
    label = (rng.random(reports) < p).astype(int)
    return X, site, source, label, f, g, theta


def problem(X, site, source, label, n_sources, checks=NO_CHECKS, lengthscale=3.0):
    observed = fitting.Observed.of(
        site, source, label, np.ones(len(site), dtype=np.int64), len(X), n_sources, TWO, checks
    )
    rows = selection.Reported(site, source, label, np.ones(len(site), dtype=np.int64))
    return model.Problem(
        X, rows, observed, linear.Columns(), fitting.Prior(1.0, 1.0), kernel("matern32", lengthscale), "exact", 0
    )


def test_places_agree_with_one_place_at_a_time():
    rng = np.random.default_rng(1)
    theta = np.array([[1.0, 0.0], [0.3, 1.0], [-0.5, -0.2]])
    said = [[(0, 1)], [(0, 1), (1, 0), (2, 0)], []]
    mean, variance, nugget = rng.normal(size=3), rng.uniform(0.1, 2.0, 3), 0.7
    table = responses.log_responses(theta, TWO)
    likelihood = np.stack([sum((table[s, c] for s, c in r), np.zeros(len(APPEARANCES))) for r in said])
    local = places.integrate(likelihood, mean, variance, np.full(3, nugget))
    nodes, weights = np.polynomial.hermite_e.hermegauss(5)
    weights = weights / weights.sum()
    step, expected, eta = 1e-4, 0.0, np.zeros(3)
    for i in range(3):
        for x, w in zip(nodes, weights, strict=True):
            f = mean[i] + np.sqrt(variance[i]) * x
            value = [reference.place(said[i], theta, f + d, nugget)[0] for d in (-step, 0.0, step)]
            expected += w * value[1]
            gradient, curvature = (value[2] - value[0]) / (2 * step), (2 * value[1] - value[0] - value[2]) / step**2
            eta[i] += w * (gradient + curvature * mean[i])
    assert local.expected == pytest.approx(expected, abs=1e-9)
    np.testing.assert_allclose(local.eta, eta, atol=1e-5)
    np.testing.assert_allclose(local.posterior.sum(1), 1.0)


@pytest.mark.parametrize("level", [0.0, 9.0, -12.0])
def test_the_nugget_is_learned_by_the_slope_of_the_bound_also_at_the_ends_of_the_grid(level):
    rng = np.random.default_rng(3)
    mean, variance, nugget, step = level + rng.normal(0.0, 2.0, 40), rng.uniform(0.1, 2.0, 40), np.full(40, 0.7), 1e-4
    likelihood = -2.0 * np.log1p(np.exp(-APPEARANCES * np.sign(rng.normal(size=(40, 1)))))
    up, down = (places.integrate(likelihood, mean, variance, nugget * np.exp(s * step)).expected for s in (1.0, -1.0))
    at = places.integrate(likelihood, mean, variance, nugget)
    slope = 0.5 * (at.energy / nugget - at.informed).sum()
    assert (up - down) / (2.0 * step) == pytest.approx(slope, rel=1e-5)


def test_the_objective_is_the_literal_bound():
    X, site, source, label, *_ = crowd(2, n_places=12, n_sources=3, reports=40)
    asked = problem(X, site, source, label, 3)
    design = linear.Design(ExactBasis(asked.kernel, X), asked.columns, X)
    state = asked.start()
    for _ in range(3):
        at = fitting.evaluate(asked.observed, design, asked.prior, state)
        state = at.image
    at = fitting.evaluate(asked.observed, design, asked.prior, state)
    said = [[(int(s), int(c)) for s, c in zip(source[site == i], label[site == i], strict=True)] for i in range(12)]
    phi = design.features(slice(0, 12))
    mean, covariance = phi @ at.q.mean, phi @ at.q.covariance @ phi.T
    prior_covariance = phi @ np.diag(1.0 / design.precision(state.variances.smooth)) @ phi.T
    rest = responses.log_prior(state.theta, state.variances.population).sum() + link.log_prior(
        state.link, state.variances.population
    )
    # The KL between weights is that between values at the places plus a part that no report touches, here none: the
    # thirteen weights and the twelve values differ by one direction, whose posterior is its prior.
    literal = reference.bound(None, said, state.theta, mean, covariance, state.variances.nugget, prior_covariance)
    assert at.objective - rest == pytest.approx(literal, abs=1e-6)


def test_the_bound_rises_at_every_step_and_more_steps_change_nothing():
    X, site, source, label, *_ = crowd(3)
    converged(problem(X, site, source, label, 8))


def test_sources_are_recovered_and_their_intervals_hold():
    inside, total = 0, 0
    for seed in range(4, 9):
        X, site, source, label, _, _, theta = crowd(seed, n_places=150, n_sources=10, reports=3000)
        fitted = model.fit(problem(X, site, source, label, 10), None, iterate.Policy())
        sd = np.sqrt(np.einsum("sdd->sd", fitted.joint.sources))
        inside += int((np.abs(fitted.state.theta - theta) <= 1.645 * sd).sum())
        total += theta.size
        assert np.corrcoef(fitted.state.theta[:, 1], theta[:, 1])[0, 1] > 0.8
    assert 0.8 <= inside / total <= 0.98


def test_an_adversary_is_found_and_used():
    rng = np.random.default_rng(10)
    X, site, source, label, _, g, _ = crowd(10, n_places=80, n_sources=6, reports=1200)
    where = rng.integers(0, 80, 200)
    lies = (rng.random(200) > 1.0 / (1.0 + np.exp(-1.5 * g[where]))).astype(int)
    fitted = model.fit(
        problem(X, np.r_[site, where], np.r_[source, np.full(200, 6)], np.r_[label, lies], 7), None, iterate.Policy()
    )
    assert fitted.state.theta[6, 0] < 0.0


def test_left_out_reports_are_those_of_a_fit_without_them():
    X, site, source, label, *_ = crowd(11, n_places=40, n_sources=5, reports=250)
    asked = problem(X, site, source, label, 5)
    fitted = model.fit(asked, None, iterate.Policy(tol=1e-7))
    quick = left_out.log_probabilities(asked.observed, fitted.settled.at, site, source, label)
    for r in (3, 77, 150, 249):
        kept = np.arange(250) != r
        without = problem(X, site[kept], source[kept], label[kept], 5)
        start = fitted.state
        refit = model.fit(without, start, iterate.Policy(tol=1e-7), learn_variances=False)
        at = refit.settled.at
        table = responses.log_responses(at.state.theta, TWO).reshape(-1, len(APPEARANCES))
        rows = slice(int(site[r]), int(site[r]) + 1)
        likelihood = without.observed.likelihood(rows, table, at.state.link, at.state.theta)
        mean, variance = left_out_moments(at, int(site[r]))
        prior = places.marginal(mean, variance, at.state.variances.nugget)
        posterior = prior * np.exp(likelihood)
        posterior /= posterior.sum()
        exact = np.log((posterior * np.exp(table[source[r] * 2 + label[r]])).sum())
        assert quick[r] == pytest.approx(exact, abs=0.03)


def left_out_moments(at, i):
    mean, variance = left_out.cavities(at)
    return mean[i : i + 1], variance[i : i + 1]


def estimator(**settings):
    return cf.HeatmapBCC(**{"lengthscale": 3.0, "reports_model": "instrument", **settings})


def test_permuting_sources_and_states_permutes_the_answers():
    X, site, source, label, *_ = crowd(12)
    names = np.array(list("abcdefgh"))
    one = estimator(states=[0, 1]).fit(X[site], label, sources=names[source])
    other = estimator(states=[0, 1]).fit(X[site], label, sources=names[::-1][source])
    np.testing.assert_allclose(one.predict_proba(X), other.predict_proba(X), atol=2e-4)
    turned = estimator(states=[0, 1]).fit(X[site], 1 - label, sources=names[source])
    np.testing.assert_allclose(one.predict_proba(X), turned.predict_proba(X)[:, ::-1], atol=2e-3)


def test_with_gold_at_every_place_the_map_is_the_gold():
    X, site, source, label, _, g, _ = crowd(13)
    truth = (g > 0).astype(int)
    fitted = estimator(states=[0, 1]).fit(X[site], label, sources=source, gold=(X, truth))
    np.testing.assert_array_equal(fitted.predict(X), truth)


def test_one_trusted_source_turns_its_place():
    X, site, source, label, *_ = crowd(14)
    place = X[:1]
    trusted = {"chief": [[450.0, 1.0], [1.0, 450.0]]}
    names = np.array([f"v{i}" for i in range(8)])[source]
    settings = dict(states=[0, 1], confusion_prior=trusted)
    for said in (0, 1):
        fitted = estimator(**settings).fit(
            np.vstack([X[site], place]), np.r_[label, said], sources=np.r_[names, ["chief"]]
        )
        assert fitted.predict_proba(place)[0, said] > 0.9


def test_far_from_all_reports_the_map_is_the_level_and_unsure():
    X, site, source, label, *_ = crowd(15)
    fitted = estimator(states=[0, 1]).fit(X[site], label, sources=source)
    near, far = fitted.predict_rate(X)[1].mean(), fitted.predict_rate([[1e4, 1e4]])[1][0, 0]
    assert far > near and far == pytest.approx(prior_rate_sd(fitted)[1], abs=1e-9)


def test_things_at_one_place_are_told_apart_by_task():
    X, site, source, label, *_ = crowd(16, n_places=30)
    where = X[np.arange(30) // 3]  # three things share every place
    fitted = estimator(states=[0, 1]).fit(where[site], label, sources=source, tasks=site)
    assert len(fitted._instrument.site_truth) == 30 and len(fitted.places_) == 10
    together = fitted._instrument.site_truth.reshape(10, 3).mean(1)
    np.testing.assert_allclose(fitted.posterior_[:, 1], together, atol=1e-12)  # both in the order of the places


def test_a_covariate_has_a_weight_that_helps_far_away():
    rng = np.random.default_rng(17)
    X = rng.uniform(0, 10, (300, 2))
    height = lambda places: np.sin(3.0 * places[:, 0]) + 10.0  # noqa: E731
    p = 1.0 / (1.0 + np.exp(-4.0 * (height(X) - 10.0)))
    y = (rng.random(300) < p).astype(int)
    fitted = estimator(states=[0, 1], covariates=height).fit(X, y, sources=rng.integers(0, 5, 300))
    elsewhere = np.column_stack([np.linspace(100, 110, 50), np.full(50, 100.0)])
    said = fitted.predict_proba(elsewhere)[:, 1]
    assert np.corrcoef(said, height(elsewhere))[0, 1] > 0.95


def test_a_saved_model_predicts_the_same_and_can_be_updated(tmp_path):
    X, site, source, label, *_ = crowd(18)
    fitted = estimator(states=[0, 1]).fit(X[site[:300]], label[:300], sources=source[:300])
    fitted.save(tmp_path / "model")
    again = cf.HeatmapBCC.load(tmp_path / "model")
    np.testing.assert_allclose(again.predict_proba(X), fitted.predict_proba(X), atol=1e-9)
    assert again.reports_model_ == "instrument"
    whole = estimator(states=[0, 1]).fit(X[site], label, sources=source)
    again.partial_fit(X[site[300:]], label[300:], sources=source[300:])
    np.testing.assert_allclose(again.predict_proba(X), whole.predict_proba(X), atol=5e-3)


def test_explanations_add_up():
    X, site, source, label, *_ = crowd(19)
    fitted = estimator(states=[0, 1]).fit(X[site], label, sources=source)
    for place in (X[0], np.array([5.05, 5.05])):
        p = fitted.predict_proba(place[None])[0, 1]
        table = fitted.explain(place, state=1)
        assert table.log_odds.sum() == pytest.approx(np.log(p / (1 - p)), abs=1e-9)


def test_auto_reads_by_instruments_where_places_deceive_and_says_so():
    """Reports about one place agree with each other more than a hidden state explains."""
    X, site, source, label, *_ = crowd(20, n_places=240, n_sources=15, reports=3000, nugget=2.0)
    fitted = cf.HeatmapBCC(lengthscale=3.0, states=[0, 1]).fit(X[site], label, sources=source)
    assert fitted.reports_model_ == "instrument" and fitted.model_comparison_.better == "instrument"
    scores = fitted.score_reports()
    assert scores.attrs["bits"] > scores.attrs["habit_bits"] and len(scores) == 3000


def test_auto_keeps_one_state_where_it_holds():
    rng = np.random.default_rng(21)
    X = rng.uniform(0, 10, (500, 2))
    truth = (X[:, 0] > 5).astype(int)
    right = np.where(np.arange(10) < 5, 0.95, 0.5)
    source = rng.integers(0, 10, 500)
    y = np.where(rng.random(500) < right[source], truth, 1 - truth)
    assert cf.HeatmapBCC(lengthscale=3.0).fit(X, y, sources=source).reports_model_ == "one_state"


@pytest.mark.parametrize(
    ("settings", "arguments", "words"),
    [
        ({"ordered": 3}, {}, "True or False"),
        ({"inference": "vb"}, {}, "one-state"),
        ({"communities": 2}, {}, "communities"),
        ({"covariates": 3.0}, {}, "function of places"),
        ({"reports_model": "third"}, {}, "reports_model"),
        ({}, {"tasks": [1, 2]}, "one thing per report"),
    ],
)
def test_what_cannot_be_done_is_said(settings, arguments, words):
    X, site, source, label, *_ = crowd(22, reports=50)
    with pytest.raises(cf.errors.InputError, match=words):
        estimator(**settings).fit(X[site], label, sources=source, **arguments)


@pytest.mark.parametrize("sd", [0.03, 0.2, 0.8, 1.5])
def test_a_length_scale_is_as_uncertain_as_its_score_says_however_coarse_the_grid(sd):
    """With many reports all length-scales but the best of a coarse grid have hardly any probability."""
    log_l = np.log(2.0) + np.log(selection.STEP) * np.arange(-4, 5) + 0.1
    best, log_sd = selection.peak(np.column_stack([np.exp(log_l), -0.5 * ((log_l - np.log(2.0)) / sd) ** 2]))
    assert best == pytest.approx(np.log(2.0), abs=1e-9) and log_sd == pytest.approx(sd, rel=0.1)
