"""crowdfield: maps you can trust, from reports you can't.

The names in ``__all__`` are the public API. Each is imported when it is first used, so that ``import crowdfield`` and
the command line start fast; type checkers and editors read the imports below instead.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from crowdfield import datasets as datasets
    from crowdfield import distributed as distributed
    from crowdfield import errors as errors
    from crowdfield import experiments as experiments
    from crowdfield import geography as geography
    from crowdfield import io as io
    from crowdfield import metrics as metrics
    from crowdfield import pipeline as pipeline
    from crowdfield import plot as plot
    from crowdfield import readings as readings
    from crowdfield import silence as silence
    from crowdfield import simulate as simulate
    from crowdfield import testing as testing
    from crowdfield.data.grid import Grid as Grid
    from crowdfield.data.heatmap import Heatmap as Heatmap
    from crowdfield.data.reports import Reports as Reports
    from crowdfield.errors import CrowdfieldError as CrowdfieldError
    from crowdfield.models.baselines import SVM as SVM
    from crowdfield.models.baselines import KernelDensity as KernelDensity
    from crowdfield.models.baselines import MajorityVote as MajorityVote
    from crowdfield.models.baselines import NearestNeighbours as NearestNeighbours
    from crowdfield.models.gp import GPClassifier as GPClassifier
    from crowdfield.models.heatmap_bcc import HeatmapBCC as HeatmapBCC
    from crowdfield.models.ibcc import IBCC as IBCC
    from crowdfield.models.ibcc_gp import IBCCGP as IBCCGP
    from crowdfield.pipeline.assessing import assess as assess
    from crowdfield.pipeline.checking import check_model as check_model

__version__ = "0.1.0"  # the only place where the version is written; pyproject.toml reads it from here

# public name: the module that holds it (tests/test_typing.py compares this with the imports above)
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
_MODULES = (
    "datasets",
    "distributed",
    "errors",
    "experiments",
    "geography",
    "io",
    "metrics",
    "pipeline",
    "plot",
    "readings",
    "silence",
    "simulate",
    "testing",
)

__all__ = sorted([*_WHERE, *_MODULES])


if not TYPE_CHECKING:  # hidden from type checkers, which would take any name for a public one

    def __getattr__(name: str) -> object:
        if name in _WHERE:
            return getattr(import_module(f"crowdfield.{_WHERE[name]}"), name)
        if name in _MODULES:
            return import_module(f"crowdfield.{name}")
        raise AttributeError(f"module 'crowdfield' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *__all__]
