"""Many functions, each evaluated at places of its own, on a lattice of frequencies in one or two dimensions.

Every source has a function of its own, which is needed at the places of its reports. A wave of a lattice is a product
of one wave per axis, e^{i k·θ} = e^{i k₁ θ₁} e^{i k₂ θ₂}, so the features of a place are an outer product of two short
vectors, and a function at the places of its group is a product of small matrices: nothing of size reports × features is
formed. Groups of about the same size are handled together, padded to the largest of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crowdfield.inference.fields.base import Array

Complex = NDArray[np.complex64]
Codes = NDArray[np.int64]

SINGLE = np.complex64  # single precision is enough for the coupling of sources and field, in half the time
MOST_ENTRIES = 1 << 14  # places processed at a time, padding included: their waves stay in the cache
MOST_KEPT = 1 << 22  # entries of waves that are kept for the next pass: 32 MB
LEAST_FILLED = 0.7  # share of its batch's largest group that a group must have


class Lattice(NamedTuple):
    """One half of a lattice of frequencies, k₁ ≥ 0, as positions in a box [n₁, n₂]."""

    axes: tuple[int, int]  # the largest k₁ and |k₂|
    position: Codes  # [H] of every frequency in the flattened box
    amplitude: Array  # [2H − 1]: of the constant, the cosines and the sines

    @classmethod
    def of(cls, k: Codes, amplitude: Array) -> Lattice:
        """k [H, D], D = 1 or 2, the zeroth frequency first."""
        first, second = k[:, 0], k[:, 1] if k.shape[1] == 2 else np.zeros(len(k), np.int64)
        reach = int(np.abs(second).max())
        return cls((int(first.max()), reach), first * (2 * reach + 1) + second + reach, amplitude)

    def boxes(self, weights: Array) -> Complex:
        """Functions Σ a cos + b sin as coefficients of which the real part is meant.   [G, m] -> [G, n₁, n₂]"""
        scaled, H = weights * self.amplitude, len(self.position)
        out = np.zeros((len(weights), (self.axes[0] + 1) * (2 * self.axes[1] + 1)), SINGLE)
        out[:, self.position] = scaled[:, :H]
        out[:, self.position[1:]] -= 1j * scaled[:, H:]
        return out.reshape(len(weights), self.axes[0] + 1, -1)

    def weights(self, boxes: Complex) -> Array:
        """Sums of waves as sums of features.   [G, n₁, n₂] -> [G, m]"""
        kept = boxes.reshape(len(boxes), -1)[:, self.position]
        return np.asarray(np.concatenate([kept.real, kept.imag[:, 1:]], axis=1) * self.amplitude)

    def waves(self, angles: Array) -> tuple[Complex, Complex]:
        """e^{i k₁ θ₁} and e^{i k₂ θ₂} of places.   [D, ...] -> [n₁, ...], [n₂, ...]"""
        one = _powers(_unit(angles[0]), self.axes[0])
        if len(angles) == 1:
            return one, np.ones((1, *one.shape[1:]), SINGLE)
        half = _powers(_unit(angles[1]), self.axes[1])
        return one, np.concatenate([half[:0:-1].conj(), half])


def _unit(angle: Array) -> Complex:
    """e^{iθ}."""
    single, out = angle.astype(np.float32), np.empty(angle.shape, SINGLE)
    np.cos(single, out=out.real)
    np.sin(single, out=out.imag)
    return out


def _powers(z: Complex, most: int) -> Complex:
    """1, z, z², …: [most + 1, ...]."""
    out = np.empty((most + 1, *z.shape), SINGLE)
    out[0] = 1.0
    for k in range(1, most + 1):
        np.multiply(out[k - 1], z, out=out[k])
    return out


class Batch(NamedTuple):
    """Groups of about one size."""

    groups: Codes  # [g]
    members: Codes  # [g, n] rows of the table of places; a repeated one where there are fewer
    present: NDArray[np.bool_]  # [g, n]


def batches(group: Codes, count: int) -> Iterator[Batch]:
    """Rows of a table by the group that each belongs to [R], the largest groups first."""
    # NumPy sorts short integers in linear time.
    order = np.argsort(group.astype(np.uint16) if count < 1 << 16 else group, kind="stable")
    size = np.bincount(group, minlength=count)
    start = np.concatenate([[0], np.cumsum(size)[:-1]])
    by_size = np.argsort(-size, kind="stable")[: int(np.count_nonzero(size))]
    falling = -size[by_size]
    at = 0
    while at < len(by_size):
        largest = int(size[by_size[at]])
        alike = int(np.searchsorted(falling, -LEAST_FILLED * largest, side="right"))
        end = min(alike, at + max(1, MOST_ENTRIES // largest))
        chosen = by_size[at:end]
        step = np.arange(largest)
        present = step < size[chosen, None]
        yield Batch(chosen, order[start[chosen, None] + np.where(present, step, 0)], present)
        at = end


class Places(NamedTuple):
    """Places of groups, in batches, with their waves where these are few enough to keep."""

    lattice: Lattice
    angles: Array  # [D, R]
    n_groups: int  # G
    batches: list[Batch]
    kept: list[tuple[Complex, Complex]] | None

    @classmethod
    def of(cls, lattice: Lattice, angles: Array, group: Codes, count: int) -> Places:
        """angles [D, R], group [R]"""
        found = list(batches(group, count))
        entries = sum(batch.members.size for batch in found) * (lattice.axes[0] + 2 * lattice.axes[1] + 2)
        few = entries <= MOST_KEPT
        return cls(lattice, angles, count, found, [lattice.waves(angles[:, b.members]) for b in found] if few else None)

    def waves(self) -> Iterator[tuple[Batch, Complex, Complex]]:
        """Every batch with the waves of its places."""
        for i, batch in enumerate(self.batches):
            yield batch, *(self.lattice.waves(self.angles[:, batch.members]) if self.kept is None else self.kept[i])

    def evaluate(self, weights: Array) -> Array:
        """The function of its group at every place.   weights [G, m] -> [R]"""
        out = np.empty(self.angles.shape[1])
        for batch, one, two in self.waves():
            along = self.lattice.boxes(weights[batch.groups]) @ two.swapaxes(0, 1)  # [g, n₁, n]
            along *= one.swapaxes(0, 1)
            values = along.sum(1).real
            out[batch.members[batch.present]] = values[batch.present]
        return out

    def project(self, values: Array) -> Array:
        """Σ v φ(x) over the places of every group.   values [R] -> [G, m]"""
        out = np.zeros((self.n_groups, len(self.lattice.amplitude)))
        for batch, one, two in self.waves():
            weighted = one * np.where(batch.present, values[batch.members], 0.0).astype(np.float32)
            out[batch.groups] = self.lattice.weights(weighted.swapaxes(0, 1) @ np.moveaxis(two, 0, -1))
        return out
