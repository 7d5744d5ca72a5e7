"""What we correct in the paper (docs/errata.md), one test each; the reference holds the fast code to most of them."""

import numpy as np
import pytest
from tests import reference as ref

import crowdfield as cf
from crowdfield.inference import linearise, quadrature, scale
from crowdfield.inference.data import contrast
from crowdfield.inference.fields.exact import ExactEngine
from crowdfield.inference.kernels import kernel

X = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, 2.0], [3.0, 1.0]])


def test_1_the_rate_of_the_scale_only_sees_how_far_f_is_from_its_prior_mean():
    """Σ + f̂f̂ᵀ − 2μf̂ᵀ + μμᵀ: lifting f and μ together changes nothing. With the printed −μμᵀ it would."""
    f, mu = np.array([[0.3], [-0.2], [0.9], [0.1]]), np.full((4, 1), 0.4)
    Sigma = [0.1 * np.eye(4)]
    rates = []
    for lift in (0.0, 5.0):
        p = ref.Problem(X, [], [], [], np.ones((1, 2, 2)), mu=mu + lift)
        rates.append(ref.update_scale(p, f + lift, Sigma)[1])
    assert rates[1] == pytest.approx(rates[0], abs=1e-9)
    assert rates[0] > 1.0  # never below b0: an expected square is positive
    # The engine's energy is that very quadratic form, of g = f − μ.
    engine = ExactEngine(kernel("matern32", 1.0), X)
    field = engine.posterior(engine.summarise(slice(0, 4), np.array([0.5, -0.3, 0.2, 0.1]), np.full(4, 0.25)), 1.3)
    mean, _ = engine.at_sites(field, slice(0, 4))
    K_inverse = np.linalg.inv(engine.K)
    covariance = np.linalg.inv(1.3 * K_inverse + 0.25 * np.eye(4))
    expected = np.trace(K_inverse @ (covariance + np.outer(mean, mean)))
    assert scale.update(scale.Gamma(1.0, 1.0), 4, field.energy).rate == pytest.approx(1.0 + 0.5 * expected)


@pytest.mark.parametrize(("states", "mean"), [(2, [[0.8]]), (3, [[0.5, 0.0, -1.0]])])
def test_2_the_beta_prior_has_the_moments_of_rho_and_its_two_parameters_share_the_counts(states, mean):
    C = contrast(states)
    rho, sd = quadrature.rate_moments(np.array(mean), np.full(np.shape(mean), 1.3), C)
    nu, nu_not = linearise.beta_prior(rho @ C, sd @ C)
    total = nu + nu_not
    np.testing.assert_allclose(nu / total, rho @ C, rtol=1e-12)
    np.testing.assert_allclose(nu * nu_not / (total**2 * (total + 1.0)), (sd @ C) ** 2, rtol=1e-12)
    # One observation r adds r to ν_j and 1 − r to ν_¬j: one count in all, and Q is E[ρ] − E[ρ²].
    Q, posterior_mean = ref.ekf_noise(nu, total, np.full_like(nu, 0.7))
    np.testing.assert_allclose(posterior_mean, (nu + 0.7) / (total + 1.0))
    np.testing.assert_allclose(Q, posterior_mean * (1.0 - posterior_mean) * (total + 1.0) / (total + 2.0))


@pytest.mark.parametrize("linearisation", ["polya_gamma", "ekf"])
def test_3_responsibilities_stay_soft(linearisation):
    """Two equally good sources contradict each other at one place: nobody is right, and the field stays level.
    Rounded to a hard label, as the research code does, one of them would win."""
    model = cf.HeatmapBCC(inference="vb", linearisation=linearisation, lengthscale=1.0, states=[0, 1])
    model.fit(np.zeros((2, 2)), [0, 1], sources=["a", "b"])
    np.testing.assert_allclose(model.posterior_, 0.5, atol=1e-6)
    np.testing.assert_allclose(model.predict_latent([[0.0, 0.0]])[0], 0.0, atol=1e-5)


def test_4_away_from_reports_a_state_is_as_uncertain_as_its_rate():
    """The responsibilities without reports are softmax(f̂*), which forgets var f*; E[t*] is E[ρ*]."""
    rng = np.random.default_rng(0)
    places = rng.random((40, 2)) * 5.0
    model = cf.HeatmapBCC(inference="vb", lengthscale=3.0).fit(places, (places[:, 0] > 2.5).astype(int))
    elsewhere = np.array([[0.2, 7.0], [4.8, 7.0]])
    np.testing.assert_array_equal(model.predict_proba(elsewhere), model.predict_rate(elsewhere)[0])
    plug_in = 1.0 / (1.0 + np.exp(-model.predict_latent(elsewhere)[0][:, 0]))
    assert (np.abs(model.predict_proba(elsewhere)[:, 1] - 0.5) < np.abs(plug_in - 0.5)).all()


def test_5_a_site_where_reports_say_nothing_moves_nothing_when_t_is_summed_out():
    """Mean-field q(t) q(f) adds precision ≈ ¼ at every site, whatever is known of t; the collapsed site adds none."""
    mean, variance, C = np.array([[0.4]]), np.array([[1.0]]), contrast(2)
    nothing = np.zeros((1, 2))
    assert linearise.polya_gamma(mean, variance, nothing, C).lam[0, 0] > 0.2
    known_sources = np.zeros_like(mean)
    site = linearise.collapsed(mean, variance, nothing, C, known_sources)
    assert site.lam[0, 0] <= linearise.SMALLEST_PRECISION
    assert site.eta[0, 0] == pytest.approx(site.lam[0, 0] * 0.4, abs=1e-9)
    certain = linearise.collapsed(mean, variance, np.array([[-np.inf, 0.0]]), C, known_sources)
    assert certain.lam[0, 0] > 0.15  # and a known state adds all of it
