"""The instrument model, slow and literal: one place at a time, dense matrices, plain sums. Two labels."""

import numpy as np

from crowdfield.inference.instrument.grid import APPEARANCES


def says(theta, label, g):
    """P(label | g) of the two-parameter logistic."""
    p = 1.0 / (1.0 + np.exp(-(theta[0] * g + theta[1])))
    return p if label == 1 else 1.0 - p


def place(reports, theta, f, nugget):
    """log L(f) of one place, and the posterior of its appearance.   reports: (source, label) pairs"""
    prior = np.array([np.exp(-0.5 * (g - f) ** 2 / nugget) for g in APPEARANCES])
    prior /= prior.sum()
    joint = np.array(
        [
            w * np.prod([says(theta[s], label, g) for s, label in reports])
            for w, g in zip(prior, APPEARANCES, strict=True)
        ]
    )
    return float(np.log(joint.sum())), joint / joint.sum()


def bound(K, reports, theta, mean, covariance, nugget, prior_covariance):
    """Σ_i E[log L_i(f)] − KL(q(f) ‖ p(f)) with q(f) = N(mean, covariance) at the places."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(5)
    weights = weights / weights.sum()
    expected = 0.0
    for i, said in enumerate(reports):
        for x, w in zip(nodes, weights, strict=True):
            expected += w * place(said, theta, mean[i] + np.sqrt(covariance[i, i]) * x, nugget)[0]
    inverse = np.linalg.inv(prior_covariance)
    n = len(mean)
    kl = 0.5 * (
        np.trace(inverse @ covariance)
        + mean @ inverse @ mean
        - n
        - np.linalg.slogdet(covariance)[1]
        + np.linalg.slogdet(prior_covariance)[1]
    )
    return expected - kl


def softmax(logits):
    weights = [np.exp(x) for x in logits]
    return [w / sum(weights) for w in weights]


def grade_probabilities(theta, count, g):
    """P(grade | g): log odds of neighbouring grades rise by α √(J − 1) per unit of g."""
    own = [0.0, *theta[1:-1], 0.0]
    score = [j - (count - 1) / 2 for j in range(count)]
    lean = theta[-1] / (count - 1)
    return softmax([score[j] * (np.sqrt(count - 1) * theta[0] * g + lean) + own[j] for j in range(count)])


def graded_place(reports, ell, theta, truth, f, nugget):
    """log L(f) of one place with grades.   ell [J]: what is known of its state, or None"""
    count = len(truth)
    prior = np.array([np.exp(-0.5 * (g - f) ** 2 / nugget) for g in APPEARANCES])
    prior /= prior.sum()
    total = 0.0
    for w, g in zip(prior, APPEARANCES, strict=True):
        value = np.prod([grade_probabilities(theta[s], count, g)[label] for s, label in reports])
        if ell is not None:
            value *= sum(
                p * np.exp(x - max(ell)) for p, x in zip(grade_probabilities(truth, count, g), ell, strict=True)
            )
        total += w * value
    return float(np.log(total))


def graded_bound(reports, known, theta, truth, mean, covariance, nugget, prior_covariance):
    """Σ_i E[log L_i(f)] − KL(q(f) ‖ p(f)) for grades."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(5)
    weights = weights / weights.sum()
    expected = 0.0
    for i, said in enumerate(reports):
        for x, w in zip(nodes, weights, strict=True):
            f = mean[i] + np.sqrt(covariance[i, i]) * x
            expected += w * graded_place(said, known.get(i), theta, truth, f, nugget)
    return expected - gaussian_kl(mean, covariance, prior_covariance)


def gaussian_kl(mean, covariance, prior_covariance):
    """KL(N(mean, covariance) ‖ N(0, prior_covariance))."""
    inverse = np.linalg.inv(prior_covariance)
    logs = np.linalg.slogdet(prior_covariance)[1] - np.linalg.slogdet(covariance)[1]
    return 0.5 * (np.trace(inverse @ covariance) + mean @ inverse @ mean - len(mean) + logs)


def tilted_expectation(label_weights, mean, covariance):
    """Lower bound of E[Σ y_l z_l − log Σ exp z], z ~ N(mean, covariance), by many steps towards the least bound."""
    p = np.full(len(mean), 1.0 / len(mean))

    def exponents(p):
        centred = np.eye(len(mean)) - p
        return centred @ mean + 0.5 * np.array([c @ covariance @ c for c in centred])

    for _ in range(300):
        p = p + 0.2 * (np.array(softmax(exponents(p))) - p)
    return float(label_weights @ mean - p @ mean - np.log(np.exp(exponents(p)).sum()))


def several_bound(phi, offset_precision, eta, lam, nugget, reports, theta, scores, checks, truth, state_scores):
    """The objective of states without an order, with all weights and nuggets in one dense Gaussian.

    phi [N, m]; offset_precision [m]; eta [N, F]; lam [N, F, F]; reports: (site, source, label); checks: (site, ℓ)
    """
    N = len(phi)
    F = eta.shape[1]
    G = np.hstack([np.kron(phi, np.eye(F)), np.eye(N * F)])  # g of place 0, 1, …; weights of feature 0, 1, …
    prior = np.diag(np.concatenate([1.0 / np.repeat(offset_precision, F), np.full(N * F, nugget)]))
    sites = np.zeros((N * F, N * F))
    for i in range(N):
        sites[i * F : (i + 1) * F, i * F : (i + 1) * F] = lam[i]
    covariance = np.linalg.inv(np.linalg.inv(prior) + G.T @ sites @ G)
    mean = covariance @ G.T @ eta.ravel()
    g, V = (G @ mean).reshape(N, F), G @ covariance @ G.T
    total = -gaussian_kl(mean, covariance, prior)
    for site, source, label in reports:
        own = V[site * F : (site + 1) * F, site * F : (site + 1) * F]
        z = theta[source, 0] * scores @ g[site] + theta[source, 1:]
        total += tilted_expectation(np.eye(len(scores))[label], z, theta[source, 0] ** 2 * scores @ own @ scores.T)
    for site, ell in checks:
        own = V[site * F : (site + 1) * F, site * F : (site + 1) * F]
        h = truth[0] * state_scores @ g[site] + truth[1:]
        spread = truth[0] ** 2 * state_scores @ own @ state_scores.T
        total += np.log(np.exp(h + ell - max(ell)).sum()) + tilted_expectation(np.zeros(len(h)), h, spread)
    return total
