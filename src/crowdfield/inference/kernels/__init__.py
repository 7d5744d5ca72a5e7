"""Kernels: the covariance of the field at two places. `radial` has functions of the distance, `combined` the others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from crowdfield.arrays import Array as Array
from crowdfield.errors import InputError
from crowdfield.inference.kernels.combined import Product as Product
from crowdfield.inference.kernels.combined import WithLevel as WithLevel
from crowdfield.inference.kernels.radial import RBF as RBF
from crowdfield.inference.kernels.radial import Kernel as Kernel
from crowdfield.inference.kernels.radial import Matern as Matern
from crowdfield.inference.kernels.radial import Matern12 as Matern12
from crowdfield.inference.kernels.radial import Matern32 as Matern32
from crowdfield.inference.kernels.radial import Matern52 as Matern52
from crowdfield.inference.kernels.radial import Radial as Radial

__all__ = ["RBF", "Kernel", "Matern", "Matern12", "Matern32", "Matern52", "Product", "Radial", "space_time"]

KERNELS: dict[str, type[Radial]] = {"matern12": Matern12, "matern32": Matern32, "matern52": Matern52, "rbf": RBF}


def kernel(name: str | Kernel, lengthscale: float | Sequence[float] | Array | None = None) -> Kernel:
    """A kernel by name, or one that is a kernel already, with its length-scale."""
    if isinstance(name, Kernel):
        return name if lengthscale is None else name.with_lengthscale(np.asarray(lengthscale, float))
    if name not in KERNELS:
        raise InputError(f"unknown kernel {name!r}: choose one of {', '.join(KERNELS)}, or pass a Kernel.")
    return KERNELS[name]().with_lengthscale(np.asarray(1.0 if lengthscale is None else lengthscale, float))


def space_time(
    space: str | Kernel = "matern32",
    lengthscale: float = 1.0,
    time: str | Kernel = "matern12",
    timescale: float = 1.0,
) -> Product:
    """Make a kernel of easting, northing and time: reports are informative about what is near in space and in time.

    Parameters
    ----------
    space : str or Kernel, default="matern32"
        The kernel of the first two columns.
    lengthscale : float, default=1.0
        Its length-scale, in the units of these columns.
    time : str or Kernel, default="matern12"
        The kernel of the third column. Matérn 1/2 is a Markov process: it suits a truth that can change at any moment.
    timescale : float, default=1.0
        Its length-scale, in the unit of that column; infinity ignores time.

    Returns
    -------
    Product
        For ``HeatmapBCC(kernel=...)``.

    Examples
    --------
    Places are alike over 3 km and 6 hours:

    >>> from crowdfield.inference.kernels import space_time
    >>> space_time("matern32", 3_000.0, "matern12", 6.0).lengthscales(3)
    array([3000., 3000.,    6.])
    """
    return Product((kernel(space, lengthscale), kernel(time, timescale)), ((0, 1), (2,)))
