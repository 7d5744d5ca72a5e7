"""Fits that continue one another: how the first is made, what of it is fixed, and how later ones follow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdfield.data import Grid, Reports
from crowdfield.inference.kernels import Kernel
from crowdfield.pipeline.fit_arguments import as_arguments
from crowdfield.pipeline.fusing import build_model
from crowdfield.pipeline.settings import Settings

# A search sees at least this many reports of every label, where there are as many (judgement).
FEWEST_OF_EACH_LABEL = 5


def learn(
    settings: Settings,
    reports: Reports,
    grid: Grid,
    *,
    most: int | None = None,
    reports_model: str = "auto",
    fit: Callable[[Any, Reports], Any] | None = None,
) -> Any:
    """The model that `fuse` fits to these reports, which are in the grid's reference system.

    Reports whose places have the hour as a third column are fitted in space and time (docs/space-time.md).
    fit: what fits the model to all reports, as in `fuse`; by default this process.
    reports_model: as in `HeatmapBCC`, where the kind of model is not to be found out.
    most: from more reports than this, the length-scale and the kind of model are found on about so many of them,
    spread evenly over their order, and then kept for the fit to all: a search is many fits.
    """
    if most is None or len(reports) <= most:
        return (fit or _fitted)(build_model(settings, reports, grid).set_params(reports_model=reports_model), reports)
    part = reports.take(_sample_rows(reports.label, most))
    found = _fitted(build_model(settings, part, grid).set_params(reports_model=reports_model), part)
    reach = np.ravel(found.lengthscale_)
    held = replace(settings, lengthscale=float(reach[0]))
    model = build_model(held, reports, grid).set_params(reports_model=found.reports_model_)
    return (fit or _fitted)(_with_lengthscale(model, reach), reports)


def _sample_rows(labels: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """Rows that are spread evenly, and a few more of each label that is rare among them: where all say the same,
    neither a length-scale nor a kind of model can be found."""
    rows = _spread(np.arange(len(labels)), most)
    rare = [code for code in np.unique(labels) if np.sum(labels[rows] == code) < FEWEST_OF_EACH_LABEL]
    return np.unique(
        np.concatenate([rows, *(_spread(np.flatnonzero(labels == code), FEWEST_OF_EACH_LABEL) for code in rare)])
    )


def _spread(rows: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    at = np.linspace(0, len(rows) - 1, min(most, len(rows)))
    return np.asarray(rows[np.unique(at.astype(np.int64))])


def hold(model: Any) -> Any:
    """Fix the length-scale and the kind of model that a fit has found, so that later fits do not search again."""
    return _with_lengthscale(model, np.ravel(model.lengthscale_)).set_params(reports_model=str(model.reports_model_))


def _with_lengthscale(model: Any, reach: NDArray[np.float64]) -> Any:
    """The model with fixed length-scales. A kernel of space and time has its own, which would count instead."""
    alike = bool((reach == reach[0]).all())
    if isinstance(model.kernel, Kernel):
        model.set_params(kernel=model.kernel.with_lengthscale(reach))
    return model.set_params(lengthscale=float(reach[0]) if alike else reach.tolist())


def update(model: Any, reports: Reports, *, sweeps: int, tolerance: float) -> Any:
    """The same model with more reports, continued from its state for at most `sweeps` sweeps."""
    hold(model).set_params(max_iter=sweeps, tol=tolerance)
    return model.partial_fit(**as_arguments(model, reports))


def settle(model: Any, sweeps: int, progress: Callable[[int, float, float], None] | None = None) -> Any:
    """The same model after at most `sweeps` more sweeps over its reports; progress as in `HeatmapBCC.resume`."""
    return hold(model).set_params(max_iter=sweeps).resume(progress)


def _fitted(model: Any, reports: Reports) -> Any:
    return model.fit(**as_arguments(model, reports))
