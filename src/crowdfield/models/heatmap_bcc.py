"""HeatmapBCC: who can be trusted, and what is true everywhere, learned at the same time."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from os import PathLike
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from crowdfield.data import Reports
from crowdfield.errors import InputError
from crowdfield.inference.kernels import Kernel
from crowdfield.models import comparison, counted, forgetting, grades, inexact, learning, problem, scored, storage
from crowdfield.models.base import Array, validated_reports
from crowdfield.models.covariates import Given
from crowdfield.models.queries import MapQueries
from crowdfield.models.scored import Scores

PriorMean = float | Sequence[float] | Callable[[Array], ArrayLike]
LengthScale = float | Literal["learn"] | Sequence[float | Literal["learn"]] | NDArray[np.float64]


class HeatmapBCC(MapQueries):
    """Bayesian classifier combination with a Gaussian process prior on the state of every place.

    It learns two things at the same time: how reliable each source is, and how the true state varies over the map.

    Parameters
    ----------
    kernel : {"matern12", "matern32", "matern52", "rbf"} or Kernel, default="matern32"
        How similar two places are by their distance. Change it when borders are known to be sharp ("matern12") or
        the state to vary very smoothly ("rbf"). A Kernel brings its own length-scale: see
        `crowdfield.inference.kernels.space_time` for maps in time.
    lengthscale : float, "learn", or a sequence of these, default=20.0
        The distance, in the units of the columns of X, over which places say something about each other. Always
        set it: to a number you know (the width of a flood plain), to one number per column, or to "learn". "learn"
        fits one for all columns, or one for space and one for time with a space-time kernel; ["learn", "learn"]
        fits one per column; numbers beside "learn" are kept.
    confusion_prior : None, array_like [J, L], or mapping, default=None
        Pseudo-counts of the confusion matrices: one row per state, one column per label. With None the prior is
        learned from the whole crowd, starting at a weakly diagonal one (2 where label and state agree, 1 elsewhere),
        which is the prior itself with ``inference="vb"``. Give ``{source: [J, L], ...}`` for sources you know
        something about beforehand; the key None stands for all others. 20 or more pseudo-counts in every row mark a
        source as trusted.
    scale_shape : float, default=1.0
        Shape of the gamma prior on the inverse scale ς of the latent functions. There is rarely a reason to change it.
    scale_rate : float or None, default=None
        Rate of that prior: a larger rate allows more extreme probabilities before any report. None is 4 for the
        one-state model: its log odds then have a prior standard deviation of about 2, so that places where the state
        is almost certain are expected. With three or more states, whose log odds are differences of two functions, 2
        gives the same. It is 1 for the instrument model, and for ``inference="vb"``, as in the paper.
    prior_mean : float, sequence of float, or callable, default=0.0
        Prior mean of the latent functions: a number, one per state, or a function of places [M, D] that returns [M]
        (two states) or [M, J]. With two states the latent function is the log odds of the second state. With the
        default the level is learned too (not with ``inference="vb"``); any other value fixes it. Change it when the
        overall rate is known, or varies over the map in a known way.
    states : sequence or None, default=None
        What can be true, in the order of the columns of `predict_proba`. By default the labels seen, sorted. **Name two
        states as [ordinary, in question]**, for example ["undamaged", "damaged"]: the one-state model then expects
        the second to be the rarer one, because reports alone cannot tell a rare state with an alarmed crowd from a
        common state with a careless one. States that are not named, and three or more, are treated alike, and so are
        all where `confusion_prior` says how the crowd errs.
    labels : sequence or None, default=None
        What can be said. By default the states and any other labels seen. Labels that are no state ("unsure") are
        allowed.
    inference : {"auto", "collapsed", "vb", "gibbs"}, default="auto"
        How the posterior of the one-state model is found. "auto" is "collapsed". Choose "gibbs" to check the fast
        answer by sampling, "vb" for the paper's own algorithm.
    engine : {"auto", "exact", "inducing", "spectral"}, default="auto"
        How the Gaussian process is represented. "auto" chooses by the number of places and columns; name one to
        compare engines.
    linearisation : {"polya_gamma", "ekf"}, default="polya_gamma"
        Only for ``inference="vb"``: how the likelihood is made Gaussian. "ekf" is the paper's.
    communities : int, "learn", or None, default=None
        Number of groups of like-minded sources that share a learned prior. None is 1, one prior for the whole crowd,
        unless `confusion_prior` gives one for all sources: then their matrices have nothing in common. "learn"
        compares the two and more groups by the objective; use it when the crowd falls into groups, such as careful
        people and guessers.
    lengthscale_bounds : (float, float) or None, default=None
        The range in which a length-scale is learned. By default it follows from the distances between places.
    lengthscale_prior : (float, float) or None, default=None
        Shape and rate of a gamma prior on a length-scale that is learned.
    max_iter : int, default=200
        The largest number of sweeps. Raise it when a ConvergenceWarning says so.
    tol : float, default=1e-4
        Sweeps end when log odds, scales and confusion matrices change by less than this. From about 20,000 reports on,
        they may also end when the objective no longer changes measurably (docs/inference.md).
    random_state : int, numpy.random.Generator or None, default=None
        Used by ``inference="gibbs"``, and to pick inducing points or places to learn a length-scale from where there
        are very many. All else is deterministic.
    reports_model : {"auto", "one_state", "instrument"}, default="auto"
        "one_state" is the paper's model: reports about a place are independent given its hidden state. "instrument":
        sources read a latent appearance, each with a sensitivity and a lean, which suits real crowds that are fooled
        together. "auto" takes the instrument model where it predicts left-out reports clearly better. If it does not,
        and matrices that have nothing in common predict them clearly better than a common prior, it takes those.
    covariates : callable, mapping, or None, default=None
        Covariates of places, for the instrument model: a function of places [M, D] that returns [M, C], or
        ``{name: function that returns [M]}``. `crowdfield.io.read_covariates` makes one from rasters. Values are
        standardised inside.
    ordered : bool, default=False
        Whether the states are grades, in the order given, which the instrument model reads on one scale
        (docs/instrument.md, "Grades"). `predict_grade` and `predict_at_least` then say more.

    Attributes
    ----------
    classes_ : ndarray [J]
        The states, in the order of the columns of all predictions.
    sources_seen_ : ndarray [S]
        The sources, in the order of `confusion_`.
    confusion_ : ndarray [S, J, L]
        Expected confusion matrices: row j is what a source says when the state is j.
    places_ : ndarray [N, D]
        The distinct places that were reported on or checked. A place that was reported with several accuracies is there
        once for each.
    posterior_ : ndarray [N, J]
        State probabilities of these places.
    reports_model_, inference_, engine_ : str
        What was used, where the parameters left it open.
    reports_model_reason_ : str
        Why `reports_model_` was used, as a clause that follows "because". If the chosen model could not be fitted and
        the other one was used instead, it says so, and a `FallbackWarning` is given.
    model_comparison_ : Comparison or None
        What ``reports_model="auto"`` compared, where it did.
    lengthscale_ : ndarray [D]
        The length-scale of each column, as given or learned.
    scale_ : ndarray [1]
        A typical value of the inverse scale ς of the latent functions. For "collapsed" it is the geometric mean of
        q(ς), for "vb" and "gibbs" the mean, and for the instrument model one over the learned variance of the smooth
        part.
    bound_, bound_history_, bound_terms_ : float, ndarray, dict
        The objective that the fit maximised, after every sweep, and its named parts. Only with ``inference="vb"``
        and ``linearisation="polya_gamma"`` is it a lower bound of the log evidence that never falls. For "collapsed"
        it is an approximation of one, and may end a little below its highest value (0.25 nats, or 5e-5 of it). For
        the instrument model it is a lower bound of the log probability of reports and sources, and rises with every
        accepted step. Gibbs has none.
    n_iter_, converged_ : int, bool
        How many sweeps were made, and whether the fit settled.

    See Also
    --------
    IBCC : confusion matrices without a field between the places.
    GPClassifier : a field without confusion matrices.

    Examples
    --------
    Ten sources, of which half guess; the east is flooded:

    >>> import numpy as np
    >>> import crowdfield as cf
    >>> rng = np.random.default_rng(0)
    >>> places = rng.uniform(0, 10, (300, 2))
    >>> flooded = places[:, 0] > 5
    >>> source = rng.integers(0, 10, 300)
    >>> said = np.where(rng.random(300) < np.where(source < 5, 0.95, 0.5), flooded, ~flooded)
    >>> model = cf.HeatmapBCC(lengthscale=3.0).fit(places, said, sources=source)
    >>> model.predict([[1.0, 5.0], [9.0, 5.0]])
    array([False,  True])
    >>> bool((model.predict_proba([[9.0, 5.0]])[0, 1] > 0.8))
    True
    """

    # Beside what MapQueries declares:
    labels_seen_: NDArray[Any]
    sources_seen_: NDArray[Any]
    reports_model_reason_: str
    model_comparison_: comparison.Comparison | None
    engine_: str
    bound_: float
    bound_history_: Array
    bound_terms_: dict[str, float]
    n_iter_: int
    converged_: bool
    lengthscale_log_sd_: Array
    lengthscale_tried_: Array
    _compared_reports: int  # the number of reports when the models were last compared
    _learned_reports: int  # the number of reports when length-scale and communities were last learned
    _tasks: NDArray[np.int64] | None

    def __init__(
        self,
        *,
        kernel: str | Kernel = "matern32",
        lengthscale: LengthScale = 20.0,
        confusion_prior: ArrayLike | Mapping[Any, ArrayLike] | None = None,
        scale_shape: float = 1.0,
        scale_rate: float | None = None,
        prior_mean: PriorMean = 0.0,
        states: Sequence[Hashable] | None = None,
        labels: Sequence[Hashable] | None = None,
        inference: str = "auto",
        engine: str = "auto",
        linearisation: str = "polya_gamma",
        communities: int | str | None = None,
        lengthscale_bounds: tuple[float, float] | None = None,
        lengthscale_prior: tuple[float, float] | None = None,
        max_iter: int = 200,
        tol: float = 1e-4,
        random_state: int | np.random.Generator | None = None,
        reports_model: str = "auto",
        covariates: Given | None = None,
        ordered: bool = False,
    ):
        self.kernel = kernel
        self.lengthscale = lengthscale
        self.confusion_prior = confusion_prior
        self.scale_shape = scale_shape
        self.scale_rate = scale_rate
        self.prior_mean = prior_mean
        self.states = states
        self.labels = labels
        self.inference = inference
        self.engine = engine
        self.linearisation = linearisation
        self.communities = communities
        self.lengthscale_bounds = lengthscale_bounds
        self.lengthscale_prior = lengthscale_prior
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.reports_model = reports_model
        self.covariates = covariates
        self.ordered = ordered

    # --- learning -----------------------------------------------------------------------------------------------

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sources: ArrayLike | None = None,
        gold: tuple[ArrayLike, ArrayLike] | None = None,
        tasks: ArrayLike | None = None,
        accuracy: ArrayLike | None = None,
        scores: Scores | None = None,
        counts: ArrayLike | None = None,
        areas: ArrayLike | None = None,
    ) -> Self:
        """Learn from reports, one row per report.

        Parameters
        ----------
        X : array_like [R, D]
            Where each report is about: easting and northing in metres, or any columns in one unit.
        y : array_like [R]
            What each report says.
        sources : array_like [R], optional
            Who says it. By default all reports come from one source.
        gold : (array_like [G, D], array_like [G]), optional
            Checked places and their known states.
        tasks : array_like [R], optional
            What each report is about, where several things share a place: points of a photo, floors of a house.
        accuracy : float or array_like [R], optional
            Accuracy of the places, in the units of X: the radius that contains the true place with a probability of
            68 %. NaN means unknown; such places are treated as exact (docs/accuracy.md).
        scores : array_like [R] or [R, J], mapping or DataFrame, optional
            With two states, the probability that each report's label is right: a classifier's score, a volunteer's
            confidence. Or the probability of every state, with columns in the order of the states (`classes_`) or
            named after them. NaN for reports that have only a label. Used by the instrument model (docs/scores.md).
        counts : int or array_like [R] of int, optional
            How many identical reports each row stands for, as in "seen by 12"; a row costs no more than one report
            (docs/counts.md).
        areas : bool or array_like [R] of bool, optional
            Which reports are about all of the area that `accuracy` reaches (a tile, a village), rather than about one
            place somewhere in it (docs/accuracy.md).

        Returns
        -------
        HeatmapBCC
            The estimator itself.

        Examples
        --------
        >>> import crowdfield as cf
        >>> X, said, by = cf.testing.example_crowd()
        >>> cf.HeatmapBCC(lengthscale=3.0, reports_model="one_state").fit(X, said, by).confusion_.shape
        (6, 2, 2)
        """
        problem.check_settings(self)
        reports, states = validated_reports(self, X, y, sources, states=self.states, labels=self.labels)
        grades.check_order(self.ordered, self.states, states)
        reports = _with_columns(reports, states, accuracy, areas, scores, counts)
        about = _task_codes(tasks, len(reports))
        learning.learn(self, reports, states, problem.gold(gold, states, self.n_features_in_), tasks=about)
        return self

    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sources: ArrayLike | None = None,
        *,
        classes: Sequence[Hashable] | None = None,
        accuracy: ArrayLike | None = None,
        scores: Scores | None = None,
        counts: ArrayLike | None = None,
        areas: ArrayLike | None = None,
    ) -> Self:
        """Add reports: starts from the current fit, and ends where a fit to all reports would.

        A length-scale that is learned is kept until there are a quarter more reports than when it was learned.

        Parameters
        ----------
        X, y, sources, accuracy, scores, counts, areas
            As for `fit`: the new reports only.
        classes : sequence, optional
            The states, as scikit-learn names them on the first call; `states` of the constructor takes precedence.

        Examples
        --------
        With `model` of the class's example:

        >>> len(model.partial_fit([[9.5, 9.5]], [True], sources=[0]).reports_)
        301
        """
        problem.check_settings(self)
        if not hasattr(self, "classes_"):
            named = classes if self.states is None else self.states
            reports, states = validated_reports(self, X, y, sources, states=named, labels=self.labels)
            grades.check_order(self.ordered, named, states)
            reports = _with_columns(reports, states, accuracy, areas, scores, counts)
            learning.learn(self, reports, states, problem.gold(None, states, self.n_features_in_))
            return self
        labels = list(self.labels_seen_)
        new, _ = validated_reports(self, X, y, sources, states=list(self.classes_), labels=labels, reset=False)
        new = _with_columns(new, tuple(self.classes_.tolist()), accuracy, areas, scores, counts)
        joined, states = self.reports_.join(new), tuple(self.classes_.tolist())
        learning.learn(self, joined, states, self._gold_, warm=True, added=len(new))
        return self

    def resume(self, progress: Callable[[int, float, float], None] | None = None) -> Self:
        """Go on with a fit that had not converged, for at most `max_iter` more sweeps.

        Parameters
        ----------
        progress : callable, optional
            Called after each sweep with its number, the objective and the largest change. If it raises an exception,
            the fit ends, and the estimator stays as it was.

        Examples
        --------
        With `model` of the class's example:

        >>> bool(model.resume().converged_)
        True
        """
        check_is_fitted(self, "classes_")
        states = tuple(self.classes_.tolist())
        learning.learn(self, self.reports_, states, self._gold_, warm=True, progress=progress)
        return self

    def forget(self, source: Hashable = None, rows: ArrayLike | None = None) -> Self:
        """Remove reports and fit again: all of one source (a retracted or abusive one), or rows in the order given.

        Examples
        --------
        With `model` of the class's example:

        >>> 7 in model.forget(source=7).sources_seen_[model.reports_.source]
        False
        """
        check_is_fitted(self, "classes_")
        kept = forgetting.kept(self.reports_, source, rows)
        learning.learn(self, self.reports_.take(kept), tuple(self.classes_.tolist()), self._gold_, warm=True)
        return self

    def forget_before(self, now: float, influence: float = 0.01) -> Self:
        """In a stream: remove reports that are too old to influence the map of `now`.

        Time is the last column of X. A report is dropped when its correlation with its own place now, k(now − then), is
        below `influence`. What was learned about the sources from it is lost with it.

        Examples
        --------
        >>> import numpy as np
        >>> import crowdfield as cf
        >>> from crowdfield.inference.kernels import space_time
        >>> kernel = space_time("matern32", 3.0, "matern12", 2.0)
        >>> hours = np.arange(20.0)
        >>> X = np.column_stack([hours % 5, hours % 3, hours])
        >>> model = cf.HeatmapBCC(kernel=kernel, reports_model="one_state").fit(X, hours % 2 > 0)
        >>> len(model.forget_before(now=19.0, influence=0.05).reports_)  # those of the last six hours
        6
        """
        check_is_fitted(self, "classes_")
        if not 0.0 < influence < 1.0:
            raise InputError(f"influence must lie between 0 and 1, not {influence!r}.")
        old = forgetting.too_old(self.reports_.places, self._posed.kernel, now, influence)
        return self.forget(rows=np.flatnonzero(old)) if old.any() else self

    # --- keeping ------------------------------------------------------------------------------------------------

    def save(self, path: str | PathLike[str]) -> None:
        """Write the fitted model to one file: arrays and JSON in a zip, no pickle (docs/model-file.md).

        Examples
        --------
        With `model` of the class's example:

        >>> model.save("flood.crowdfield")
        >>> cf.HeatmapBCC.load("flood.crowdfield").predict([[9.0, 5.0]])
        array([ True])
        """
        check_is_fitted(self, "classes_")
        storage.save(self, path)

    @classmethod
    def load(cls, path: str | PathLike[str], covariates: Given | None = None) -> Self:
        """Read a model that `save` wrote; it predicts the same and can be continued with `partial_fit`.

        covariates: those that it was fitted with, for places at which the file does not hold them.

        Examples
        --------
        With `model` of the class's example:

        >>> model.save("flood.crowdfield")
        >>> again = cf.HeatmapBCC.load("flood.crowdfield")
        >>> len(again.reports_)
        300
        """
        return storage.load(cls, path, covariates)


def _with_columns(
    reports: Reports,
    states: Sequence[Hashable],
    accuracy: ArrayLike | None,
    areas: ArrayLike | None,
    scores: Scores | None,
    counts: ArrayLike | None,
) -> Reports:
    """The reports with their optional columns."""
    placed = inexact.with_areas(inexact.with_accuracy(reports, accuracy), areas)
    return counted.with_counts(scored.with_scores(placed, scores, states), counts)


def _task_codes(tasks: ArrayLike | None, count: int) -> NDArray[np.int64] | None:
    if tasks is None:
        return None
    values = np.asarray(tasks)
    if values.shape != (count,):
        raise InputError(f"tasks must name one thing per report: {count} reports, but shape {values.shape}.")
    return np.asarray(np.unique(values, return_inverse=True)[1], dtype=np.int64).ravel()
