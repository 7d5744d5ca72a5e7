"""The grid of appearances g on which everything about one place is integrated.

Integrands are products of a Gaussian and of logistic functions. On an even grid the trapezoid rule is exact to many
digits for these, as long as the Gaussian is no narrower than the spacing.
"""

from __future__ import annotations

import numpy as np

from crowdfield.arrays import Array as Array

SPACING = 1.0 / 3.0
REACH = 10.0  # logits: beyond, every response is certain to 5e-5
APPEARANCES: Array = np.arange(-round(REACH / SPACING), round(REACH / SPACING) + 1, dtype=np.float64) * SPACING
POWERS: Array = np.stack([np.ones_like(APPEARANCES), APPEARANCES, APPEARANCES**2], axis=1)  # [K, 3] 1, g, g²
LEAST_NUGGET = (0.8 * SPACING) ** 2  # smallest τ²: a narrower Gaussian would fall between the grid's points
