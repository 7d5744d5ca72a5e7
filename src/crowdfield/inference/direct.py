"""A Gaussian process classifier that treats labels as true states: every label is a draw from ρ at its place.

The paper's baseline "GP", and the second half of "IBCC+GP". It is the field of HeatmapBCC without the confusion
matrices, so it runs on the same engines and the same iteration; labels may be soft (votes need not be whole numbers).
"""

import numpy as np

from crowdfield.inference import linearise, settle, vb
from crowdfield.inference.data import Array, Block, Data, Prior, contrast
from crowdfield.inference.fields.base import Engine
from crowdfield.inference.iterate import Fit
from crowdfield.inference.scale import Gamma
from crowdfield.inference.sites import Sites


def polya_gamma(mean: Array, variance: Array, votes: Array, C: Array) -> linearise.Local:
    """Sites of Σ_j v_ij log ρ_ij: that of one known state, counted v_i = Σ_j v_ij times.   votes [n, J]"""
    total = votes.sum(axis=1, keepdims=True)
    a, lam, log_normaliser = linearise.normaliser_bound(mean, variance)
    eta = votes @ C + total * (lam * a - 0.5)
    bound = float((votes * (mean @ C.T)).sum() - (total[:, 0] * log_normaliser).sum())
    return linearise.Local(votes, eta, total * lam, bound, np.zeros_like(lam))  # no missing information


def fit(
    engine: Engine, X: Array, votes: Array, prior_mean: Array, scale_prior: Gamma, max_iter: int, tol: float
) -> Fit:
    """q(f) and q(ς) given votes [N, J] at places X [N, D] with prior means [N, F]."""
    J = votes.shape[1]
    nothing = np.empty(0, dtype=np.int32)
    known = np.full(len(X), -1, dtype=np.int32)
    data = Data(X, nothing, nothing, nothing, n_sources=1, n_labels=1, n_states=J, known=known, repeats=None)
    # One source that never reports: its confusion matrix stays at the prior and adds nothing to the bound.
    alpha0 = np.ones((1, J, 1))
    sites = Sites(data, Prior(alpha0, scale_prior.shape, scale_prior.rate, prior_mean), engine)

    def local(sites: Sites, q: vb.Posterior, block: Block, mean: Array, variance: Array) -> linearise.Local:
        return polya_gamma(mean, variance, votes[block.sites], contrast(J))

    iteration = vb.Iteration.over(sites, vb.SCHEMES["polya_gamma"]._replace(local=local))
    return settle.run(iteration, max_iter=max_iter, tol=tol)
