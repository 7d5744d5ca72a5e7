"""Joint draws of sources and field from the Gaussian q, moved to the exact posterior by sweeps of the Gibbs sampler.

q is too sure of how far the field varies. Its Gaussian sites are made at one amplitude, where the logistic function is
steep; a field of twice the amplitude with less accurate sources explains the reports nearly as well, but under these
sites looks unlikely. Totals of districts feel it most, because their places share the amplitude and the level.

Every draw of q is the start of a Markov chain of its own, whose stationary distribution is the exact posterior of the
same model with the same basis. No sweep takes the distribution of the draws farther from it (in Kullback–Leibler
divergence), so that as many sweeps are made as are affordable, and none if one is too expensive. A sweep draws the
field once, which is most of its work, and then moves several times along the ridge of amplitude and accuracy: together
with what all sources have in common (`ridge`), and alone. The former moves learn their length and direction from the
other chains, which are independent but for that.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from crowdfield.inference import field_draws
from crowdfield.inference.communities import Communities
from crowdfield.inference.community_sampling import CommunityPrior
from crowdfield.inference.confusion_prior import FixedPrior
from crowdfield.inference.data import Data, Prior
from crowdfield.inference.fields.base import Array
from crowdfield.inference.fields.basis import Basis
from crowdfield.inference.fields.features import FeatureField
from crowdfield.inference.gibbs import Sampler, State
from crowdfield.inference.joint.rows import Layout
from crowdfield.inference.joint.state import Posterior
from crowdfield.inference.quadrature import logsumexp
from crowdfield.inference.ridge import Ridge
from crowdfield.inference.sampling import FIRST_STEP, LONGEST_STEP, TARGET_ACCEPTANCE
from crowdfield.inference.threads import one_blas_thread

MOST_SWEEPS = 15  # after which mean and spread of ς no longer change (docs/benchmarks/totals.md)
ALONG_RIDGE = 5  # moves of each kind along the ridge per sweep: they take a third of its time
MOST_WORK = 1.5e11  # floating-point operations of all sweeps of all draws together: a few seconds
OVERHEAD = 1e4  # operations per place, report and entry of a confusion matrix that take as long as a sweep's other work
CHAINS = 25  # draws processed together: their arrays fit into the processor's cache


class JointDraws(NamedTuple):
    """n draws of the field's weights, of ς and of the confusion matrices."""

    basis: Basis
    weights: Array  # [n, F, m]
    scale: Array  # [n]
    log_pi: Array  # [n, S, J, L]


def affordable_sweeps(data: Data, functions: int, features: int, size: int) -> int:
    """How many sweeps of `size` draws are affordable: fewer for more places, reports, features or sources."""
    tables = data.n_sources * data.n_states * data.n_labels
    drawing_fields = functions * features**2 * (data.n_sites + features)
    each = drawing_fields + OVERHEAD * (data.n_sites + len(data.site) + tables)
    return int(min(MOST_SWEEPS, MOST_WORK // (size * each)))


def refined(
    data: Data,
    prior: Prior,
    q: Posterior,
    size: int,
    rng: np.random.Generator,
    crowd: tuple[CommunityPrior, Communities] | None = None,
) -> JointDraws | None:
    """Draws of q after as many sweeps as are affordable; None if none is, or if q has no weights of a basis.

    crowd: the prior of the sources' communities, which are drawn too, and the communities of q, which they start from.
    """
    fields = [field for field in q.fields if isinstance(field, FeatureField)]
    if len(fields) < len(q.fields):
        return None
    sweeps = affordable_sweeps(data, len(fields), len(fields[0].mean), size)
    if not sweeps:
        return None
    basis = fields[0].basis
    start = of_q(q, size, rng)
    sampler = Sampler(data, prior, basis, FixedPrior(q.alpha0) if crowd is None else crowd[0])
    blocks = [slice(first, min(first + CHAINS, size)) for first in range(0, size, CHAINS)]
    with one_blas_thread():
        parts = [
            moved(sampler, start, part, sweeps, own, None if crowd is None else crowd[1])
            for part, own in zip(blocks, rng.spawn(len(blocks)), strict=True)
        ]
    return JointDraws(
        basis,
        np.concatenate([state.weights for state in parts]),
        np.concatenate([state.scale for state in parts]),
        np.concatenate([state.log_pi for state in parts]).transpose(0, 1, 3, 2),
    )


def moved(
    sampler: Sampler,
    start: JointDraws,
    part: slice,
    sweeps: int,
    rng: np.random.Generator,
    communities: Communities | None = None,
) -> State:
    """The states of chains after some sweeps, from a part of these draws and from the communities, if there are any."""
    weights, scale = start.weights[part], start.scale[part]
    tables = np.ascontiguousarray(start.log_pi[part].transpose(0, 1, 3, 2))
    shared = None
    if isinstance(sampler.confusion, CommunityPrior) and communities is not None:
        shared = sampler.confusion.at(communities, len(scale), rng)
    state = State(weights, scale, tables, shared, sampler.design.evaluate(weights))
    step_size, ridge = np.full((2, len(scale)), FIRST_STEP), Ridge(sampler)
    for sweep in range(sweeps):
        state, info = sampler.step(state, rng, step_size)
        for _ in range(ALONG_RIDGE):
            state, _ = ridge.step(state, rng)
            state, _ = sampler.step_along_ridge(state, rng, step_size[1])
        if sweep < sweeps // 2:  # then the steps are held, as a Markov chain needs
            surplus = info.accepted.mean(axis=1, keepdims=True) - TARGET_ACCEPTANCE
            step_size = np.minimum(step_size * np.exp(surplus / np.sqrt(1.0 + sweep)), LONGEST_STEP)
    return state


def of_q(q: Posterior, size: int, rng: np.random.Generator) -> JointDraws:
    """Draws of the joint Gaussian: the weights, then every source given them; ς from its own distribution."""
    fields = [field for field in q.fields if isinstance(field, FeatureField)]
    drawn = [field_draws.gaussian(field.mean, field.covariance, size, rng) for field in fields]
    weights = np.stack(drawn).transpose(2, 0, 1)  # [n, F, m]
    nodes = fields[0].scale
    scale = rng.choice(nodes.nodes, size, p=nodes.weights / nodes.weights.sum())
    layout = Layout.of(*q.alpha0.shape[1:])
    S, F, d = q.left.shape[:3]
    root = np.linalg.cholesky(q.left)
    v = np.einsum("sfde,nsfe->nsfd", root, rng.standard_normal((size, S, F, d)))
    if len(q.slope):
        away = weights - np.stack([field.mean for field in fields])
        v[:, q.position >= 0] += np.einsum("sfdm,nfm->nsfd", q.slope, away)
    logits = layout.unstack(v.reshape(size * S, F, d)).reshape(size, *q.logits.shape) + q.logits
    logits = np.concatenate([np.zeros((*logits.shape[:-1], 1)), logits], axis=-1)
    return JointDraws(fields[0].basis, weights, scale, logits - logsumexp(logits, -1)[..., None])
