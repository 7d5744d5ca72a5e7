"""What a format needs before it can be written: a library, a reference system."""

from importlib import import_module
from typing import Any

from crowdfield.data import Heatmap
from crowdfield.errors import InputError, MissingDependencyError


def library(name: str, extra: str = "geo") -> Any:
    """An optional library; if it is not installed, an error that names the extra of crowdfield that includes it."""
    try:
        return import_module(name)
    except ImportError:
        raise MissingDependencyError(
            f"this format needs {name}, which is not installed. Install it with: pip install 'crowdfield[{extra}]'"
        ) from None


def reference_system(heatmap: Heatmap, format: str) -> str:
    """The map's reference system; an error if it has none."""
    if heatmap.grid.crs is None:
        raise InputError(
            f"{format} needs to know where on Earth the map lies, and its grid has no reference system. "
            "Give the grid a crs, for example 'EPSG:32736'."
        )
    return heatmap.grid.crs
