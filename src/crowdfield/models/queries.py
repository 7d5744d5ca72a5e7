"""Queries of a fitted model: predictions, totals, tables, explanations and suggestions."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from crowdfield.errors import InputError
from crowdfield.inference.instrument.sampling import Sampled
from crowdfield.models import covariates as covariates_
from crowdfield.models import draws as draws_
from crowdfield.models import explaining, grades, instrument, left_out, sampled_instrument, suggesting, totals
from crowdfield.models import sources as sources_
from crowdfield.models.base import Array, ReportClassifier, validated_places, whole
from crowdfield.models.reported import ReportedPlaces, reported_places, same_places

if TYPE_CHECKING:
    from arviz import InferenceData

    from crowdfield.data import Reports
    from crowdfield.inference.communities import Communities
    from crowdfield.inference.instrument.model import AnyFitted
    from crowdfield.inference.posed import Posed
    from crowdfield.inference.predict import Predictor
    from crowdfield.inference.selection import Solved
    from crowdfield.models.problem import Gold


class MapQueries(ReportClassifier):
    """Queries of a fitted model. HeatmapBCC sets the attributes declared here; the methods only read them."""

    # Constructor arguments that queries depend on.
    confusion_prior: ArrayLike | Mapping[Any, ArrayLike] | None
    ordered: bool
    # What was learned (HeatmapBCC's docstring has the shapes).
    reports_: Reports
    places_: Array
    posterior_: Array
    alpha_: Array
    confusion_: Array
    lengthscale_: Array
    scale_: Array
    reports_model_: str = "one_state"
    inference_: str
    communities_: Communities | None
    _gold_: Gold
    _site_reach: Array | None = None  # [N, 1 or 2] the columns of `blur` beside coordinates, where some are inexact
    _membership: Array  # [S, communities]
    _predictor: Predictor
    _posed: Posed
    _solved: Solved  # by the one-state model
    _last_draws: totals.LastDraws  # of the one-state model, by totals
    _setup: instrument.InstrumentSetup  # by the instrument model, as is the next
    _instrument: AnyFitted | Sampled

    # --- prediction ---------------------------------------------------------------------------------------------

    def predict_proba(self, X: ArrayLike) -> Array:
        """Give the probability of each state at places, E[t*].

        At a place that has reports (or was checked), it combines these with the field; elsewhere it is E[ρ*], the
        field alone. Coordinates closer than a millionth of the length-scale count as the same place.

        Parameters
        ----------
        X : array_like [M, D]
            Places.

        Returns
        -------
        ndarray [M, J]
            Probabilities in the order of `classes_`.

        Examples
        --------
        With `model` of the class's example:

        >>> model.predict_proba([[1.0, 5.0], [9.0, 5.0]]).argmax(axis=1)
        array([0, 1])
        """
        places = validated_places(self, X)
        where = same_places(self, places)
        out = np.empty((len(places), len(self.classes_)))
        elsewhere = where < 0
        out[~elsewhere] = self.posterior_[where[~elsewhere]]
        if elsewhere.any():
            out[elsewhere] = self._predictor.rate(places[elsewhere])[0]
        return out

    def predict_rate(self, X: ArrayLike) -> tuple[Array, Array]:
        """Give E[ρ*] and its standard deviation, the state probabilities by the field alone.

        Parameters
        ----------
        X : array_like [M, D]
            Places.

        Returns
        -------
        mean, sd : ndarray [M, J]
            In the order of `classes_`.

        Examples
        --------
        With `model` of the class's example:

        far from all reports nothing is known:

        >>> mean, sd = model.predict_rate([[9.0, 5.0], [90.0, 90.0]])
        >>> bool(sd[0, 1] < 0.1 < sd[1, 1])
        True
        """
        places = validated_places(self, X)
        return self._predictor.rate(places)

    def sample_rate(self, X: ArrayLike, n: int = 200, random_state: int | np.random.Generator | None = None) -> Array:
        """Joint draws of ρ [n, M, J]: each draw is one possible map, from one draw of the field at all places.

        Mean and standard deviation over the draws are those of `predict_rate`. Totals of areas need joint draws,
        because errors at neighbouring places are correlated.

        Examples
        --------
        With `model` of the class's example:

        >>> model.sample_rate([[1.0, 5.0], [9.0, 5.0]], n=50, random_state=0).shape
        (50, 2, 2)
        """
        return totals.sample_rate(self, validated_places(self, X), whole("n", n), np.random.default_rng(random_state))

    def totals(
        self,
        places: ArrayLike,
        areas: ArrayLike | Sequence[ArrayLike] | Mapping[Hashable, ArrayLike],
        weights: ArrayLike | None = None,
        level: float = 0.9,
        thresholds: ArrayLike = totals.THRESHOLDS,
        *,
        draws: int = totals.DRAWS,
        random_state: int | np.random.Generator | None = 0,
    ) -> pd.DataFrame:
        """How much of each area is in which state, with intervals (docs/totals.md). One row per area.

        Parameters
        ----------
        places : array_like [M, D]
            For example the cells of a map, or houses.
        areas : array_like [M], matrix [A, M], list or dict
            The area of each place (numbers or names; None or NaN for outside). Where areas overlap, a matrix (boolean,
            or the share of the place in the area), or a list or dict of masks or row numbers.
        weights : array_like [M], optional
            The weight of each place, such as its households; 1 by default.
        level : float, default=0.9
            Coverage of the intervals, which come from joint draws of the states of all places.
        thresholds : array_like
            Shares; the table has the probability that a state covers at least that share of the area.
        draws : int
            How many joint draws.
        random_state : int, Generator or None, default=0
            Of the draws.

        Examples
        --------
        With `model` of the class's example:

        >>> half = np.where(places[:, 1] > 5, "north", "south")
        >>> table = model.totals(places, half, random_state=0)
        >>> sorted(table["area"])
        ['north', 'south']
        >>> bool((table["share_low_True"] < table["share_True"]).all())
        True
        """
        found = validated_places(self, places)
        rng = np.random.default_rng(random_state)
        return totals.totals(self, found, areas, weights, level, thresholds, rng, whole("draws", draws))

    def predict_grade(self, X: ArrayLike) -> tuple[Array, Array]:
        """The expected grade and its standard deviation [M], of ordered states: 0 is the first, J − 1 the last.

        Examples
        --------
        >>> import crowdfield as cf
        >>> X, said, by = [[0.0], [1.0], [9.0]] * 6, ["none", "minor", "major"] * 6, list("abc") * 6
        >>> model = cf.HeatmapBCC(lengthscale=2.0, states=["none", "minor", "major"], ordered=True).fit(X, said, by)
        >>> mean, sd = model.predict_grade([[0.0], [9.0]])
        >>> bool(mean[0] < mean[1])
        True
        """
        return grades.moments(self.predict_proba(X), self._ordered_states())

    def predict_at_least(self, X: ArrayLike, state: Hashable) -> Array:
        """P(t ≥ state) [M], of ordered states.

        Examples
        --------
        >>> import crowdfield as cf
        >>> X, said, by = [[0.0], [1.0], [9.0]] * 6, ["none", "minor", "major"] * 6, list("abc") * 6
        >>> model = cf.HeatmapBCC(lengthscale=2.0, states=["none", "minor", "major"], ordered=True).fit(X, said, by)
        >>> west, east = model.predict_at_least([[0.0], [9.0]], "minor")
        >>> bool(west < east)
        True
        """
        return grades.at_least(self.predict_proba(X), self._ordered_states(), state)

    def _ordered_states(self) -> list[Any]:
        check_is_fitted(self, "classes_")
        if not self.ordered:
            raise InputError("the states have no order. Give states in their order, and ordered=True.")
        return list(self.classes_.tolist())

    def predict_latent(self, X: ArrayLike) -> tuple[Array, Array]:
        """Give mean and variance of the latent functions: [M, 1] with two states, else [M, J].

        Examples
        --------
        With `model` of the class's example:

        with two states, the log odds of the second:

        >>> mean, variance = model.predict_latent([[9.0, 5.0]])
        >>> mean.shape, bool(mean[0, 0] > 0)
        ((1, 1), True)
        """
        places = validated_places(self, X)
        return self._predictor.latent(places)

    def source_table(self, level: float = 0.95) -> pd.DataFrame:
        """Who can be trusted: reports, accuracy with a credible interval, lean, informativeness in bits.

        Examples
        --------
        With `model` of the class's example:

        sources 0 to 4 are reliable, the others guess:

        >>> sorted(model.source_table()["source"].head(5))
        [0, 1, 2, 3, 4]
        """
        check_is_fitted(self, "classes_")
        if self.reports_model_ == "instrument":
            fitted = self._instrument
            if isinstance(fitted, Sampled):
                frame = sampled_instrument.source_table(self, fitted, level)
            else:
                frame = instrument.source_table(self, fitted, self.confusion_, self.classes_, level)
            frame["reports"] = self._reports_by_source()
            return frame.sort_values("informativeness", ascending=False, kind="stable", ignore_index=True)
        frame = sources_.table(self.reports_, self.classes_, self.alpha_, level)
        frame["reports"] = self._reports_by_source()
        if self.communities_ is not None:
            m = self._membership
            frame["community"] = np.where(self.communities_.free, m.argmax(1), -1)[frame.index]
            frame["membership"] = m.max(1)[frame.index]
        return frame.sort_values("informativeness", ascending=False, kind="stable", ignore_index=True)

    def covariate_table(self, level: float = 0.95) -> pd.DataFrame:
        """The weight of each covariate with a credible interval, one row each (docs/covariates.md).

        Examples
        --------
        >>> import numpy as np
        >>> import crowdfield as cf
        >>> rng = np.random.default_rng(0)
        >>> X = rng.uniform(0, 10, (200, 2))
        >>> high = X[:, 0] > 5
        >>> model = cf.HeatmapBCC(lengthscale=3.0, covariates={"height": lambda places: places[:, 0]})
        >>> table = model.fit(X, ~high, rng.integers(0, 5, 200)).covariate_table()
        >>> bool(table["weight"][0] < 0)  # the higher, the less often flooded
        True
        """
        check_is_fitted(self, "classes_")
        if self.reports_model_ != "instrument":
            raise InputError("the one-state model has no covariates. Give covariates= and leave reports_model='auto'.")
        fitted = self._instrument
        if isinstance(fitted, Sampled):
            weights = sampled_instrument.covariate_weights(fitted, level)
        else:
            weights = covariates_.gaussian_weights(fitted, level)
        return covariates_.table(self._setup.covariates, weights, self.classes_.tolist())

    def _reports_by_source(self) -> NDArray[np.int64]:
        return self.reports_.tally(self.reports_.source, len(self.reports_.sources))

    # --- the reports --------------------------------------------------------------------------------------------

    def at_reported_places(self) -> ReportedPlaces | None:
        """The reported places, P(t) there and its standard deviation, as a map shows them in their cells.

        None for a model that does not hold its reports (one fitted over Dask).

        Examples
        --------
        With `model` of the class's example:

        >>> model.at_reported_places().probability.shape
        (300, 2)
        """
        return reported_places(self)

    def left_out(self) -> Array:
        """Give log P of every report's label given all other reports, in nats: [R] (of trusted sources: NaN).

        Examples
        --------
        With `model` of the class's example:

        >>> model.left_out().shape
        (300,)
        """
        check_is_fitted(self, "classes_")
        return left_out.of_model(self)

    def score_reports(self) -> pd.DataFrame:
        """How well every report is predicted by all others: one row per report.

        `bits` is log2 P(its label | all other reports), 0 where it was certain; `habit_bits` is the same using only the
        label frequencies of its source's other reports; `votes` is the number of reports at its place. `.attrs["bits"]`
        and `.attrs["habit_bits"]` are the means: a map no better than habits has learned nothing about places.

        Examples
        --------
        With `model` of the class's example:

        >>> scores = model.score_reports()
        >>> scores.attrs["bits"] > scores.attrs["habit_bits"]  # the map predicts better than habits
        True
        """
        check_is_fitted(self, "classes_")
        return left_out.table(self)

    def to_arviz(self, draws: int = 500, random_state: int | np.random.Generator | None = None) -> InferenceData:
        """The posterior and the log likelihood of every report as ArviZ's InferenceData; needs crowdfield[arviz].

        For Gibbs these are the draws that were kept, chain by chain; for other methods, draws of their Gaussian
        posterior. A report's log likelihood is conditional on the draw and on the other reports about the same thing,
        so that `arviz.loo` leaves out one report (docs/checking.md).

        Examples
        --------
        With `model` of the class's example:

        >>> data = model.to_arviz(20, random_state=0)
        >>> data.posterior.sizes["draw"]
        20
        """
        check_is_fitted(self, "classes_")
        return draws_.to_arviz(self, whole("draws", draws), np.random.default_rng(random_state))

    # --- why, and what to ask next ------------------------------------------------------------------------------

    def explain(self, place: ArrayLike, state: Hashable | None = None) -> pd.DataFrame:
        """Which reports decided this place, and by how much, in log odds of a state (by default the most probable).

        One row per report, the strongest first, then the prior, then the shrinkage due to the uncertainty of f; the
        column `log_odds` sums to the log odds of `predict_proba` there. `frame.groupby("source").log_odds.sum()` gives
        the contribution of each source.

        Examples
        --------
        With `model` of the class's example:

        >>> table = model.explain([9.0, 5.0])
        >>> bool(table["log_odds"].sum() > 0)  # flooded
        True
        """
        return explaining.explain(self, place, state)

    def suggest(
        self,
        candidates: ArrayLike,
        n: int = 10,
        *,
        source: Hashable | ArrayLike | None = None,
        score: str = "information",
        cost: ArrayLike | None = None,
    ) -> tuple[NDArray[np.int64], Array]:
        """Say where to look next: the rows of the best `n` candidates in order, and their scores.

        Parameters
        ----------
        candidates : array_like [M, D]
            Places where somebody could look; at most 4,000.
        n : int
            How many to pick. Each is picked as if those before it had been reported on, so that they spread out.
        source : source, array_like [J, L], or None
            Who would report: a source seen, a confusion matrix, or by default a typical source of this crowd.
        score : {"information", "map", "state", "variance", "entropy"}
            "information": expected information, in bits, that a report gives about the field. "map": how much it would
            reduce the uncertainty of all candidates. "state": expected information about the place's own state, to
            choose places that the crowd should check again.
        cost : array_like [M], optional
            The cost of going to each candidate; scores are per unit of cost.

        Returns
        -------
        rows : ndarray [n]
            Rows of `candidates`.
        scores : ndarray [n]
            Their scores, the best first.

        Examples
        --------
        With `model` of the class's example:

        the most informative place is the one farthest from all reports:

        >>> rows, scores = model.suggest([[1.0, 1.0], [5.0, 5.0], [90.0, 90.0]], n=2)
        >>> int(rows[0])
        2
        """
        return suggesting.places_to_look(self, candidates, n, source, score, cost)

    def suggest_sources(
        self,
        n: int = 10,
        *,
        among: Sequence[Hashable] | None = None,
        random_state: int | np.random.Generator | None = None,
    ) -> list[Hashable]:
        """Whom to ask next: n sources (some more than once), each the best in one draw of all confusion matrices.

        This is Thompson sampling: good sources are asked most, and little-known ones now and then. `among` limits the
        choice to these sources.

        Examples
        --------
        With `model` of the class's example:

        >>> all(source < 5 for source in model.suggest_sources(3, random_state=0))  # those who do not guess
        True
        """
        check_is_fitted(self, "classes_")
        return suggesting.whom_to_ask(self, n, among, np.random.default_rng(random_state))
