"""What a map file holds: the same layers, under the same names, in every format."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdfield import __version__
from crowdfield.data import Heatmap

# How GeoPackages are written: version 1.2, which every GDAL of the last years opens without a warning.
GEOPACKAGE = {"driver": "GPKG", "VERSION": "1.2"}


def layers(heatmap: Heatmap) -> dict[str, NDArray[np.float32]]:
    """Named layers [rows, columns], NaN outside: probability and standard deviation of each state, entropy in bits,
    the most probable state as its number in `states`, and how many reports fell into each cell."""
    out: dict[str, NDArray[Any]] = {}
    # The state in question first: band 1 is what a GIS shows when it opens the file.
    for j in heatmap.order:
        out[f"probability_{heatmap.states[j]}"] = heatmap.probability[..., j]
    for j in heatmap.order:
        out[f"sd_{heatmap.states[j]}"] = heatmap.sd[..., j]
    if heatmap.grades is not None:
        out["expected_grade"], out["sd_grade"] = heatmap.expected_grade()
        for state in heatmap.grades[1:-1]:  # of the worst grade it is the probability itself
            out[f"at_least_{state}"] = heatmap.at_least(state).probability[..., 1]
    out["entropy"] = heatmap.entropy
    out["most_probable"] = heatmap.most_probable
    out["reports"] = np.where(heatmap.mask, heatmap.reports, np.nan)
    return {name: np.asarray(values, dtype=np.float32) for name, values in out.items()}


def description(heatmap: Heatmap) -> dict[str, Any]:
    """How the map was made, as plain JSON values: software, reference system, states, and the map's own metadata."""
    return {
        "software": f"crowdfield {__version__}",
        "crs": heatmap.grid.crs,
        "states": [plain(state) for state in heatmap.states],
        "positive": plain(heatmap.positive),
        **{str(name): plain(value) for name, value in heatmap.metadata.items()},
    }


def flat(description: Mapping[str, Any]) -> dict[str, str]:
    """The same for formats that hold only text: anything but text as JSON."""
    return {
        name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for name, value in description.items()
    }


def plain(value: Any) -> Any:
    """Only what JSON has; arrays become lists and unknown things their text."""
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple | set):
        return [plain(item) for item in value]
    if isinstance(value, float) and not np.isfinite(value):
        return None
    if value is None or isinstance(value, str | int | float | bool):
        return value
    return str(value)


def slug(name: object) -> str:
    """A name of letters, digits and underscores, as HXL attributes and XML ids want them."""
    return re.sub(r"[^a-z0-9]+", "_", str(name).lower()).strip("_") or "state"
