"""crowdfield: maps you can trust, from reports you can't.

The names below are the public API; each is imported when it is first used, so that ``import crowdfield`` and the
command line start fast.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_WHERE = {
    "CrowdfieldError": "errors",
    "Grid": "data.grid",
    "Heatmap": "data.heatmap",
    "Reports": "data.reports",
    "HeatmapBCC": "models.heatmap_bcc",
    "IBCC": "models.ibcc",
    "GPClassifier": "models.gp",
    "IBCCGP": "models.ibcc_gp",
    "KernelDensity": "models.baselines",
    "MajorityVote": "models.baselines",
    "NearestNeighbours": "models.baselines",
    "SVM": "models.baselines",
    "assess": "pipeline.assessing",
    "check_model": "pipeline.checking",
}
_MODULES = ("datasets", "distributed", "experiments", "io", "metrics", "pipeline", "plot", "silence", "simulate")

__all__ = sorted([*_WHERE, *_MODULES])


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        return getattr(import_module(f"crowdfield.{_WHERE[name]}"), name)
    if name in _MODULES:
        return import_module(f"crowdfield.{name}")
    raise AttributeError(f"module 'crowdfield' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *__all__]
