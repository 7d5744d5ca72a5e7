"""The type of arrays of numbers, under one name for the whole package."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
