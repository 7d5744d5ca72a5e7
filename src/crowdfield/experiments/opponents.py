"""Methods of other people, in our contract: crowd-kit's Dawid–Skene, and IBCC followed by GPBoost.

They are optional (`pip install 'crowdfield[bench]'`); `missing()` says which are not installed, and those are skipped.
"""

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crowdfield.data import Reports
from crowdfield.models.base import Array, as_classes, find_sites
from crowdfield.models.ibcc import IBCC

NEEDS = {"Dawid–Skene (crowd-kit)": "crowdkit", "IBCC → GPBoost": "gpboost"}


def missing() -> dict[str, str]:
    """Opponents that cannot run here, and the module each needs."""
    return {name: module for name, module in NEEDS.items() if find_spec(module) is None}


def available(lengthscale: float, confusion_prior: Any, proportion_prior: Any) -> dict[str, Callable[[], Any]]:
    """Makers of the opponents that can run here."""
    makers: dict[str, Callable[[], Any]] = {
        "Dawid–Skene (crowd-kit)": DawidSkene,
        "IBCC → GPBoost": lambda: GPBoost(lengthscale, confusion_prior, proportion_prior),
    }
    return {name: make for name, make in makers.items() if name not in missing()}


class DawidSkene:
    """Maximum likelihood aggregation at each place; elsewhere the class proportions, as for IBCC."""

    def fit(self, X: ArrayLike, y: ArrayLike, sources: ArrayLike) -> Self:
        import pandas as pd
        from crowdkit.aggregation import DawidSkene as Theirs

        reports = Reports.from_arrays(X, y, sources, labels=(0, 1))
        self.places_, site = reports.sites()
        table = pd.DataFrame({"task": site, "worker": reports.source, "label": reports.label})
        theirs = Theirs(n_iter=100).fit(table)
        proba = theirs.probas_.reindex(columns=[0, 1], fill_value=0.0).sort_index()
        self.classes_ = as_classes((0, 1))
        self.posterior_: Array = proba.to_numpy(dtype=float)
        self.proportions_ = self.posterior_.mean(axis=0)
        return self

    def predict_proba(self, X: NDArray[np.float64]) -> Array:
        where = find_sites(self.places_, np.asarray(X, dtype=float))
        return np.where((where >= 0)[:, None], self.posterior_[where], self.proportions_)


class GPBoost:
    """What a geostatistician would do today: aggregate with IBCC, then a latent Gaussian process with GPBoost.

    Its rounded IBCC labels are the observations (GPBoost takes no soft ones); the variance is learned, the
    length-scale given.
    """

    def __init__(self, lengthscale: float, confusion_prior: Any, proportion_prior: Any):
        self.lengthscale = lengthscale
        self.ibcc = IBCC(confusion_prior=confusion_prior, proportion_prior=proportion_prior, states=(0, 1))

    def fit(self, X: ArrayLike, y: ArrayLike, sources: ArrayLike) -> Self:
        import gpboost

        self.ibcc.fit(X, y, sources)
        self.classes_ = as_classes((0, 1))
        label = (self.ibcc.posterior_[:, 1] > 0.5).astype(float)
        self.model_ = gpboost.GPModel(
            gp_coords=self.ibcc.places_,
            cov_function="matern",
            cov_fct_shape=1.5,
            likelihood="bernoulli_logit",
            num_parallel_threads=1,
        )
        # GPBoost's range is our length-scale over √3.
        start = np.array([1.0, self.lengthscale / np.sqrt(3.0)])
        self.model_.fit(
            y=label,
            X=np.ones((len(label), 1)),
            params={
                "init_cov_pars": start,
                "estimate_cov_par_index": np.array([1, 0]),
                "trace": False,
            },
        )
        return self

    def predict_proba(self, X: NDArray[np.float64]) -> Array:
        places = np.asarray(X, dtype=float)
        out = self.model_.predict(
            gp_coords_pred=places, X_pred=np.ones((len(places), 1)), predict_response=True, predict_var=False
        )
        p = np.clip(np.asarray(out["mu"], dtype=float), 0.0, 1.0)
        return np.column_stack([1.0 - p, p])
