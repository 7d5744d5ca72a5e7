"""Expectations under Gaussian latent functions, by fixed nodes: deterministic and symmetric in the states."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, ndtri, roots_genlaguerre

from crowdfield.arrays import Array as Array

BLOCK_ENTRIES = 1 << 22
MOST_CORNERS = 8  # functions: a cube has 256 corners then
RADII = 2  # spheres of nodes for more than three functions
ROWS = 1 << 12  # places at a time where each has Q nodes: so that intermediate arrays stay in the cache
# Gauss–Hermite nodes that give expectations of a logistic function of N(·, sd²) to 10⁻⁷, up to an sd (its poles are at
# ±iπ, so the narrower the Gaussian, the fewer). Wider ones get what `nodes` says.
ENOUGH = ((0.15, 3), (0.27, 4), (0.35, 6), (0.6, 9), (0.85, 12))


def softmax(logits: Array, axis: int = -1) -> Array:
    """exp(logits) / Σ exp(logits) along an axis; −inf is a state that is ruled out."""
    if axis == -1 and logits.shape[-1] == 2:  # the same, several times faster: NumPy reduces short axes slowly
        gap = logits[..., 1] - logits[..., 0]
        return np.stack([expit(-gap), expit(gap)], axis=-1)
    shifted = np.exp(logits - logits.max(axis=axis, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=axis, keepdims=True))


def logsumexp(logits: Array, axis: int = -1) -> Array:
    """log Σ exp(logits) along an axis."""
    if axis == -1 and logits.shape[-1] == 2:
        return np.asarray(np.logaddexp(logits[..., 0], logits[..., 1]))
    top = logits.max(axis=axis, keepdims=True)
    return np.asarray(np.squeeze(top, axis) + np.log(np.exp(logits - top).sum(axis=axis)))


def enough_nodes(widest: float, fine: bool = False) -> tuple[Array, Array]:
    """Nodes [Q] and weights [Q] for one function whose standard deviation is at most `widest`."""
    for sd, order in ENOUGH:
        if widest <= sd:
            return _gauss_hermite(order)
    mesh, weights = nodes(1, fine)
    return mesh[:, 0], weights


def by_nodes(sd: Array) -> Iterator[tuple[slice | NDArray[np.int64], Array, Array]]:
    """Rows of one function's standard deviations [n] that need the same nodes, a few thousand at a time, with these
    nodes [Q] and weights [Q]: few wide Gaussians do not make the others expensive.
    """
    if len(sd) <= ROWS:  # too few to be worth telling apart
        yield slice(None), *enough_nodes(float(sd.max(initial=0.0)))
        return
    kind = np.zeros(len(sd), dtype=np.uint8)
    for most, _ in ENOUGH:
        kind += sd > most  # faster than a search where there are few kinds
    kinds = np.flatnonzero(np.bincount(kind))
    for one in kinds:
        rows = None if len(kinds) == 1 else np.flatnonzero(kind == one)
        count = len(sd) if rows is None else len(rows)
        x, w = enough_nodes(ENOUGH[one][0] if one < len(ENOUGH) else np.inf)
        for start in range(0, count, ROWS):
            part = slice(start, start + ROWS)
            yield part if rows is None else rows[part], x, w


@lru_cache
def _gauss_hermite(order: int) -> tuple[Array, Array]:
    """Nodes and weights for a standard normal: [order], [order]."""
    x, w = np.polynomial.hermite_e.hermegauss(order)
    return x, w / w.sum()


@lru_cache
def nodes(functions: int, fine: bool = False) -> tuple[Array, Array]:
    """Nodes [Q, F] and weights [Q] for a standard normal in F dimensions.

    One function: Gauss–Hermite. Up to three: its tensor product. More: spheres of nodes that any permutation maps onto
    themselves (`_spheres`), or, where fine ones are asked for, a scrambled Sobol sequence with its mirror image, mapped
    to normals. All weights are positive, so that nothing can turn negative.
    """
    if functions <= 3:
        order = {1: (20, 48), 2: (9, 21), 3: (5, 11)}[functions][fine]
        x, w = _gauss_hermite(order)
        mesh = np.stack(np.meshgrid(*[x] * functions, indexing="ij"), -1).reshape(-1, functions)
        weights = np.prod(np.stack(np.meshgrid(*[w] * functions, indexing="ij"), -1), -1).ravel()
    elif symmetric(functions, fine):
        mesh, weights = _spheres(functions)
    else:
        from scipy.stats import qmc  # takes long to load, and few models need it

        uniform = qmc.Sobol(functions, scramble=True, seed=20170919).random_base2(9 if fine else 6)
        half = ndtri(uniform)
        mesh = np.concatenate([half, -half])
        weights = np.full(len(mesh), 1.0 / len(mesh))
    mesh.setflags(write=False)
    weights.setflags(write=False)
    return mesh, weights


def symmetric(functions: int, fine: bool) -> bool:
    """Whether the nodes of so many functions are the same in any order of the functions."""
    return functions <= 3 or (functions <= MOST_CORNERS and not fine)


def _spheres(n: int) -> tuple[Array, Array]:
    """The ends of the axes and the corners of a cube, on spheres of several radii.

    On one sphere they integrate polynomials of degree 5; the radii are those of Gauss' rule for the length of a
    standard normal vector (r² / 2 has a gamma distribution of shape n / 2). No node depends on the order of the
    functions, so that an iteration that uses them sees a smooth objective.
    """
    corners = np.array(list(product((-1.0, 1.0), repeat=n))) / np.sqrt(n)
    directions = np.concatenate([np.eye(n), -np.eye(n), corners])
    share = np.concatenate([np.full(2 * n, 1.0 / (n * (n + 2))), np.full(2**n, n / (n + 2) / 2**n)])
    half, weight = roots_genlaguerre(RADII, 0.5 * n - 1.0)
    mesh = (np.sqrt(2.0 * half)[:, None, None] * directions).reshape(-1, n)
    return mesh, np.outer(weight / weight.sum(), share).ravel()


def latent_nodes(mean: Array, variance: Array, fine: bool = False) -> tuple[Array, Array]:
    """Values of f at the nodes [n, Q, F], with weights [Q].

    The fine nodes of more than three functions are not symmetric in the states. Giving them out in the order of the
    means makes them so: permuting the states permutes the answer.
    """
    mesh, weights = nodes(mean.shape[1], fine)
    sd = np.sqrt(variance)
    if symmetric(mean.shape[1], fine):
        return mean[:, None, :] + sd[:, None, :] * mesh, weights
    rank = np.argsort(np.argsort(mean, axis=1, kind="stable"), axis=1)
    return mean[:, None, :] + sd[:, None, :] * mesh.T[rank].transpose(0, 2, 1), weights


def rate_moments(mean: Array, variance: Array, C: Array) -> tuple[Array, Array]:
    """E[ρ] and its standard deviation, ρ = softmax(f Cᵀ).   [M, F] -> [M, J], [M, J]"""
    if mean.shape[1] == 1:
        return _binary_rate_moments(mean[:, 0], np.sqrt(variance[:, 0]))
    expected, sd = np.empty((len(mean), len(C))), np.empty((len(mean), len(C)))
    rows = max(1, BLOCK_ENTRIES // (len(nodes(mean.shape[1], True)[1]) * len(C)))
    for start in range(0, len(mean), rows):
        part = slice(start, start + rows)
        f, w = latent_nodes(mean[part], variance[part], fine=True)
        rho = softmax(f @ C.T)
        expected[part] = np.einsum("nqj,q->nj", rho, w)
        # Around the mean rather than E[ρ²] − E[ρ]²: no cancellation where ρ is nearly certain.
        sd[part] = np.sqrt(np.einsum("nqj,q->nj", (rho - expected[part][:, None]) ** 2, w))
    return expected, sd


def _binary_rate_moments(mean: Array, sd: Array) -> tuple[Array, Array]:
    """E[ρ] and its standard deviation for two states: as many nodes as the widest Gaussian of a block needs."""
    expected, deviation = np.empty((len(mean), 2)), np.empty((len(mean), 2))
    for start in range(0, len(mean), ROWS):
        part = slice(start, start + ROWS)
        x, w = enough_nodes(float(sd[part].max()), fine=True)
        f = mean[part, None] + sd[part, None] * x
        rho = expit(f)
        # Each state from its own sum: subtracting the other from one would turn a probability of 1e-17 into zero.
        expected[part, 0], expected[part, 1] = expit(-f) @ w, rho @ w
        rho -= expected[part, 1:]
        deviation[part] = np.sqrt(np.square(rho, out=rho) @ w)[:, None]
    return expected, deviation
