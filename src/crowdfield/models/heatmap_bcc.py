"""HeatmapBCC: who can be trusted, and what is true everywhere, learned at the same time."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from os import PathLike
from typing import Any, Self, cast

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from crowdfield.data import Reports
from crowdfield.errors import ConvergenceWarning, DataWarning, InputError
from crowdfield.inference import communities, confusion, explain, information, sampling, selection
from crowdfield.inference.community_sampling import CommunityPrior, summarise
from crowdfield.inference.data import contrast
from crowdfield.inference.instrument.fitting import State as InstrumentState
from crowdfield.inference.instrument.iterate import Policy
from crowdfield.inference.instrument.left_out import habits
from crowdfield.inference.instrument.model import AnyFitted, with_learned_lengthscale
from crowdfield.inference.instrument.model import fit as fit_instrument
from crowdfield.inference.instrument.sampling import Sampled
from crowdfield.inference.instrument.sampling import run as sample_instrument
from crowdfield.inference.kernels import Kernel
from crowdfield.inference.posed import Posed
from crowdfield.inference.predict import FieldPredictor, Predictor
from crowdfield.models import (
    comparison,
    grades,
    inexact,
    instrument,
    left_out,
    problem,
    sampled_instrument,
    scored,
    storage,
    totals,
)
from crowdfield.models import covariates as covariates_
from crowdfield.models import draws as draws_
from crowdfield.models import sources as sources_
from crowdfield.models.base import (
    Array,
    ReportClassifier,
    as_classes,
    validated_places,
    validated_reports,
    whole,
)
from crowdfield.models.covariates import Given
from crowdfield.models.reported import ReportedPlaces, log_likelihoods, reported_places, same_places

ROUNDING = 1e-15  # a probability this close to 0 or 1 has log odds that mean nothing
SURE = 1e-12  # a probability below this is none, where its logarithm is needed
MOST_CANDIDATES = 4000  # of `suggest`, whose joint covariance is a matrix of this size

PriorMean = float | Sequence[float] | Callable[[Array], ArrayLike]


class HeatmapBCC(ReportClassifier):
    """Bayesian classifier combination with a Gaussian process prior on the state of every place.

    It learns two things at the same time: how reliable each source is, and how the true state varies over the map.

    Parameters
    ----------
    kernel : {"matern12", "matern32", "matern52", "rbf"} or Kernel, default="matern32"
        How similar two places are by their distance. Change it when borders are known to be sharp ("matern12") or
        the state to vary very smoothly ("rbf"). A Kernel brings its own length-scale: see
        `crowdfield.inference.kernels.space_time` for maps that move.
    lengthscale : float, sequence of float, or "learn", default=20.0
        The distance, in the units of the columns of X, over which places say something about each other. Always
        set it: to a number you know (the width of a flood plain), to one number per column, or to "learn". "learn"
        fits one for all columns, or one for space and one for time with a space-time kernel; ["learn", "learn"]
        fits one per column; numbers beside "learn" stay what they are.
    confusion_prior : None, array_like [J, L], or mapping, default=None
        Pseudo-counts of the confusion matrices: one row per state, one column per label. None is weakly diagonal (2
        where label and state agree, 1 elsewhere). Give ``{source: [J, L], ...}`` for sources you know something
        about beforehand; the key None stands for all others. 20 or more pseudo-counts in every row mark a source as
        trusted.
    scale_shape, scale_rate : float, default=1.0
        Shape and rate of the gamma prior on the inverse scale ς of the latent functions. Hardly ever worth a change;
        a larger rate allows more extreme probabilities before any report.
    prior_mean : float, sequence of float, or callable, default=0.0
        Prior mean of the latent functions: a number, one per state, or a function of places [M, D] that returns [M]
        (two states) or [M, J]. With two states the latent function is the log odds of the second state. With the
        default the level is learned too (not with ``inference="vb"``); any other value fixes it. Change it when the
        overall rate is known, or varies over the map in a known way.
    states : sequence or None, default=None
        What can be true, in the order of the columns of `predict_proba`. By default the labels seen, sorted. Name them
        when the reports may lack one.
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
        Number of groups of like-minded sources that share a learned prior. Use 1 or "learn" when most sources have
        only a few reports.
    lengthscale_bounds : (float, float) or None, default=None
        The range in which a length-scale is learned. By default it follows from the distances between places.
    lengthscale_prior : (float, float) or None, default=None
        Shape and rate of a gamma prior on a length-scale that is learned.
    max_iter : int, default=200
        The largest number of sweeps. Raise it when a ConvergenceWarning says so.
    tol : float, default=1e-4
        Sweeps end when log odds, scales and confusion matrices move less than this.
    random_state : int, numpy.random.Generator or None, default=None
        Used by ``inference="gibbs"``, and to pick inducing points or places to learn a length-scale from where there
        are very many. All else is deterministic.
    reports_model : {"auto", "one_state", "instrument"}, default="auto"
        "one_state" is the paper's model: reports about a place are independent given its hidden state. "instrument":
        sources read a latent appearance, each with a sensitivity and a lean, which suits real crowds that are fooled
        together. "auto" takes whichever predicts left-out reports better.
    covariates : callable, mapping, or None, default=None
        What else is known of places, for the instrument model: a function of places [M, D] that returns [M, C], or
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
        it is an approximation of one, and may end a little below its highest value (0.25 nats, or 2e-5 of it). For
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

    reports_model_: str = "one_state"
    communities_: communities.Communities | None
    _site_sd: Array | None = None  # [N] standard deviation of every place, where some are inexact
    _predictor: Predictor
    _instrument: AnyFitted | Sampled
    _membership: Array

    def __init__(
        self,
        *,
        kernel: str | Kernel = "matern32",
        lengthscale: float | Sequence[float] | str = 20.0,
        confusion_prior: ArrayLike | Mapping[Any, ArrayLike] | None = None,
        scale_shape: float = 1.0,
        scale_rate: float = 1.0,
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
        scores: ArrayLike | None = None,
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
            How exactly the places are known, in the units of X: the radius around X that holds the true place with a
            probability of 68 %. NaN where it is not known, which is taken for exact (docs/accuracy.md).
        scores : array_like [R], optional
            How sure each report is of its own label: a classifier's probability, a volunteer's confidence. NaN where it
            just says the label. Two states only, read by the instrument model (docs/scores.md).

        Returns
        -------
        HeatmapBCC
            The estimator itself.
        """
        problem.check_settings(self)
        reports, states = validated_reports(self, X, y, sources, states=self.states, labels=self.labels)
        grades.check_order(self.ordered, self.states, states)
        reports = scored.with_scores(inexact.with_accuracy(reports, accuracy), scores)
        about = _task_codes(tasks, len(reports))
        return self._learn(reports, states, problem.gold(gold, states, self.n_features_in_), tasks=about)

    def _learn(
        self,
        reports: Reports,
        states: tuple[Any, ...],
        gold: problem.Gold,
        warm: bool = False,
        tasks: NDArray[np.int64] | None = None,
    ) -> Self:
        warn_about_one_label(reports)
        reports = inexact.rounded(reports)
        if self.inference in ("vb", "gibbs"):
            inexact.refuse(f"inference={self.inference!r}", reports)
        posed = problem.pose(self, reports, states, gold)
        if self._read_by_instruments(posed, reports, states, gold, warm, tasks):
            return self
        if self.inference == "gibbs":
            return self._sample(posed, reports, states, gold)
        start = self._earlier(posed) if warm else None
        learned = selection.lengthscale(posed, start) if problem.learns_lengthscale(self.lengthscale) else None
        if learned is not None:
            posed, start = learned.posed, learned.start
        solved = selection.solve(posed, start, max_iter=self.max_iter, tol=self.tol)
        # Nothing is stored before all has worked: a fit that fails leaves the model as it was.
        self._remember(posed, reports, states, gold)
        self._accept(solved, solved.solver.responsibilities(solved.fit.q))
        if learned is not None:
            self.lengthscale_log_sd_, self.lengthscale_tried_ = learned.log_sd, learned.tried
        return self

    def _read_by_instruments(
        self,
        posed: Posed,
        reports: Reports,
        states: tuple[Any, ...],
        gold: problem.Gold,
        warm: bool,
        tasks: NDArray[np.int64] | None,
    ) -> bool:
        """Fit the instrument model where it is asked for, or where it predicts left-out reports better."""
        reason = instrument.why_not(self, states, reports.labels)
        if posed.free not in ((), (tuple(range(reports.places.shape[1])),)):
            reason = reason or "it learns one length-scale for all columns, not one for each"
        needs = "covariates" if self.covariates is not None else "tasks" if tasks is not None else None
        needs = needs or ("ordered states" if self.ordered and len(states) > 2 else None)
        if reports.score is not None:
            needs, reason = needs or "scores", reason or scored.why_not(self, states)
        must = self.reports_model == "instrument" or needs is not None
        if needs is not None and self.reports_model == "one_state":
            raise InputError(
                f"{needs} are parts of the instrument model; reports_model='one_state' has no room for them. "
                "Leave reports_model at 'auto'" + (", or use prior_mean." if needs == "covariates" else ".")
            )
        if must and reason is not None:
            asked_by = "reports_model='instrument'" if needs is None else f"The instrument model, which {needs} need,"
            raise InputError(f"{asked_by} cannot be used here: {reason}.")
        kept = None if must else self._kept_model(reports, warm)
        if reason is not None or self.reports_model == "one_state" or kept == "one_state":
            self.model_comparison_: comparison.Comparison | None = None
            return False
        asked = instrument.ask(self, reports, states, gold, posed.kernel, posed.mean_at, tasks)
        if asked.covariates is not None:
            asked.covariates.warn_about_gaps()
        start = None
        before = getattr(self, "_instrument", None)
        if warm and before is not None and not isinstance(before, Sampled):
            start = instrument.warm_start(before, self._asked, asked)
        with instrument.quiet_blas():
            learned = None
            if posed.free:
                log_prior = None
                if posed.lengthscale_prior is not None:
                    shape, rate = posed.lengthscale_prior
                    log_prior = partial(_log_gamma, shape, rate)
                found, learned = with_learned_lengthscale(asked.problem, start, posed.lengthscale_bounds, log_prior)
                asked = asked._replace(problem=found)
            compared = None
            if not must and kept is None:
                compared = comparison.compare(self, asked, reports, states, gold)
                self._compared_reports = len(reports)
                if compared.better == "one_state":
                    self.model_comparison_ = compared
                    return False
            if self.inference == "gibbs":
                sampled = sample_instrument(asked.problem)
            else:
                fitted = fit_instrument(asked.problem, start, Policy(tol=self.tol, max_iter=self.max_iter))
        self._remember(posed.with_kernel(asked.problem.kernel), reports, states, gold)
        self.model_comparison_, self._tasks = compared, tasks
        if learned is not None:
            self.lengthscale_log_sd_, self.lengthscale_tried_ = np.array([learned.log_sd]), learned.tried
        if self.inference == "gibbs":
            sampled_instrument.keep(self, asked, sampled, states)
            return True
        self._keep_instrument(asked, fitted, states)
        settled = fitted.settled
        if not settled.converged:
            warnings.warn(
                f"HeatmapBCC had not settled after {settled.n_iter} sweeps (the last moved something by "
                f"{settled.change:.1e}). Raise max_iter, or tol if you can do with less.",
                ConvergenceWarning,
                stacklevel=5,
            )
        return True

    def _kept_model(self, reports: Reports, warm: bool) -> str | None:
        """The model that "auto" takes without a comparison, or None where one is due.

        A stream compares again only when it has grown; a few reports, or reports that all say the same, cannot tell.
        Gibbs samples the paper's model.
        """
        if self.inference == "gibbs" or _says_one_thing(reports) or len(reports) < comparison.FEWEST_REPORTS:
            return "one_state"
        if warm and len(reports) < comparison.GROWTH * getattr(self, "_compared_reports", 0):
            return self.reports_model_
        return None

    def _keep_instrument(self, asked: instrument.Asked, fitted: AnyFitted, states: tuple[Any, ...]) -> None:
        """What a fit of the instrument model leaves behind."""
        self._asked, self._instrument, self._predictor = asked, fitted, fitted
        self.reports_model_, self.inference_ = "instrument", "variational"
        self._keep_sites(asked.places)
        self.posterior_ = instrument.posterior(asked, fitted)
        self.confusion_ = instrument.confusion(asked, fitted, self.reports_, self, states)
        # Pseudo-counts of the implied matrices: as sure as the source's reports would make a Dirichlet.
        strength = 2.0 + self._reports_by_source()[:, None, None] / 2.0
        self.alpha_ = self.confusion_ * strength
        settled, variances = fitted.settled, fitted.state.variances
        self.scale_ = np.array([1.0 / variances.smooth])
        self.lengthscale_ = asked.problem.kernel.lengthscales(self.places_.shape[1]).copy()
        self.engine_, self.communities_ = fitted.design.basis.name, None
        self.bound_, self.bound_history_ = settled.at.objective, np.array(settled.history)
        self.bound_terms_ = {"objective": settled.at.objective}
        self.n_iter_, self.converged_ = settled.n_iter, settled.converged

    def at_reported_places(self) -> ReportedPlaces | None:
        """Places that were reported on, P(t) there and its standard deviation: what a map shows in their cells.

        None where the reports are not at hand.
        """
        return reported_places(self)

    def prior_rate_sds(self) -> Array:
        """The standard deviation of every ρ_j where nobody reported, under the instrument model: [J]."""
        return self._instrument.prior_rate_sds()

    def prior_rate_sd(self) -> float:
        """The same, of the second of two states."""
        return self._instrument.prior_rate_sd()

    def left_out(self) -> Array:
        """Give log P of every report's label given all other reports, in nats: [R] (of trusted sources: NaN)."""
        check_is_fitted(self, "classes_")
        reports = self.reports_
        out = np.full(len(reports), np.nan)
        if self.reports_model_ == "instrument":
            fitted = self._instrument
            out[self._asked.crowd] = draws_.left_out(self) if isinstance(fitted, Sampled) else fitted.left_out()
            return out
        if self.inference_ == "gibbs":
            return draws_.left_out(self)
        mean, variance = inexact.latent(self)
        site = inexact.report_sites(self)
        return left_out.log_probabilities(
            mean, variance, self.alpha_, self.posterior_, site, reports.source, reports.label
        )

    def score_reports(self) -> pd.DataFrame:
        """How well every report is predicted by all others: one row per report.

        `bits` is log2 P(its label | all other reports), 0 where it was certain; `habit_bits` the same by quoting its
        source's other reports alone; `votes` how many reports its place has. `.attrs["bits"]` and
        `.attrs["habit_bits"]` are the means: a map that does not beat habits knows nothing of places.
        """
        values = self.left_out() / np.log(2.0)
        reports = self.reports_
        habit = habits(reports.source, reports.label, len(reports.sources), len(reports.labels)) / np.log(2.0)
        site = inexact.report_sites(self)
        frame = pd.DataFrame(
            {
                "source": pd.Series([reports.sources[s] for s in reports.source], dtype=object),
                "label": pd.Series([reports.labels[code] for code in reports.label], dtype=object),
                "place": site,
                "votes": np.bincount(site, minlength=len(self.places_))[site],
                "bits": values,
                "habit_bits": habit,
            }
        )
        scored = np.isfinite(values)
        frame.attrs["bits"], frame.attrs["habit_bits"] = float(values[scored].mean()), float(habit[scored].mean())
        return frame

    def to_arviz(self, draws: int = 500, random_state: int | np.random.Generator | None = None) -> Any:
        """The posterior and the log likelihood of every report as ArviZ's InferenceData; needs crowdfield[arviz].

        Of Gibbs these are the draws that were kept, chain by chain; of other inferences, draws of their Gaussian
        posterior. A report's log likelihood is given the draw and the other reports about the same thing, so that
        `arviz.loo` leaves out one report (docs/checking.md).
        """
        check_is_fitted(self, "classes_")
        return draws_.to_arviz(self, whole("draws", draws), np.random.default_rng(random_state))

    def _accept(self, solved: selection.Solved, targets: Array) -> None:
        """Keep what was just learned, and how the learning went."""
        fit = solved.fit
        if not fit.converged:
            warnings.warn(
                f"HeatmapBCC had not settled after {fit.n_iter} sweeps (the last moved something by "
                f"{fit.change:.1e}). Raise max_iter, or tol if you can do with less.",
                ConvergenceWarning,
                stacklevel=4,
            )
        self._keep(solved, targets)
        self.bound_terms_, self.bound_history_ = fit.bound._asdict(), np.array(fit.history)
        self.bound_, self.n_iter_, self.converged_ = fit.bound.total, fit.n_iter, fit.converged

    def _remember(self, posed: Posed, reports: Reports, states: tuple[Any, ...], gold: problem.Gold) -> None:
        self.classes_ = as_classes(states)
        self.labels_seen_, self.sources_seen_ = as_classes(reports.labels), as_classes(reports.sources)
        self.reports_, self._gold_, self._posed = reports, gold, posed
        self._keep_sites(posed.data.X)
        self.inference_ = "collapsed" if self.inference == "auto" else self.inference
        self.reports_model_ = "one_state"

    def _keep_sites(self, sites: Array) -> None:
        """Places, and how inexact each is where some are."""
        D = self.n_features_in_
        self.places_, self._site_sd = sites[:, :D], None if sites.shape[1] == D else sites[:, D]

    def _keep(self, solved: selection.Solved, targets: Array) -> None:
        """What a solution leaves behind, whether it was found just now or read from a file."""
        q = solved.fit.q
        self._solved = solved
        self._predictor = FieldPredictor(
            q.fields, self._posed.mean_at, contrast(len(self.classes_)), self.n_features_in_
        )
        self.posterior_, self.alpha_ = targets, q.alpha
        self.confusion_ = confusion.expected_pi(q.alpha)
        self.scale_ = np.array([q.scale.mean])
        self.lengthscale_ = self._posed.kernel.lengthscales(self.places_.shape[1]).copy()
        self.engine_ = solved.solver.sites.engine.name
        self.communities_ = solved.fit.state.communities
        if self.communities_ is not None:
            self._membership = communities.memberships(self.communities_, solved.solver.counts(solved.fit))

    def _sample(self, posed: Posed, reports: Reports, states: tuple[Any, ...], gold: problem.Gold) -> Self:
        if problem.learns_lengthscale(self.lengthscale):
            raise InputError("Gibbs takes a length-scale; learn it with inference='collapsed' and pass the result.")
        rng = posed.rng()
        basis = sampling.basis_for(self.engine, posed.field_kernel, posed.data.X, rng)
        shared = None
        if posed.communities is not None:
            shared = CommunityPrior(posed.communities, posed.base, posed.prior.alpha0, ~posed.own)
        draws = sampling.run(posed.data, posed.prior, basis, rng, confusion=shared)
        self._remember(posed, reports, states, gold)
        self._predictor = sampling.SamplePredictor(draws, posed.mean_at)
        self.posterior_, self.alpha_, self.confusion_ = draws.target, draws.alpha, draws.confusion_mean
        self.scale_, self.engine_ = np.array([draws.scale.mean()]), basis.name
        self.lengthscale_ = posed.kernel.lengthscales(self.places_.shape[1]).copy()
        self.diagnostics_ = draws.diagnostics
        self.n_iter_, self.converged_ = len(draws.weights), draws.diagnostics.worst_rhat < 1.05
        self.communities_ = None
        if shared is not None:
            self.communities_, self._membership = summarise(shared, draws.confusion_states)
        return self

    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sources: ArrayLike | None = None,
        *,
        classes: Sequence[Hashable] | None = None,
        accuracy: ArrayLike | None = None,
        scores: ArrayLike | None = None,
    ) -> Self:
        """Add reports: starts from what is known, and ends where a fit to all reports would.

        Parameters
        ----------
        X, y, sources, accuracy, scores
            As for `fit`: the new reports only.
        classes : sequence, optional
            The states, as scikit-learn names them on the first call; `states` of the constructor goes before it.
        """
        problem.check_settings(self)
        if not hasattr(self, "classes_"):
            named = classes if self.states is None else self.states
            reports, states = validated_reports(self, X, y, sources, states=named, labels=self.labels)
            grades.check_order(self.ordered, named, states)
            reports = scored.with_scores(inexact.with_accuracy(reports, accuracy), scores)
            return self._learn(reports, states, problem.gold(None, states, self.n_features_in_))
        labels = list(self.labels_seen_)
        new, _ = validated_reports(self, X, y, sources, states=list(self.classes_), labels=labels, reset=False)
        new = scored.with_scores(inexact.with_accuracy(new, accuracy), scores)
        return self._learn(self.reports_.join(new), tuple(self.classes_.tolist()), self._gold_, warm=True)

    def forget(self, source: Hashable = None, rows: ArrayLike | None = None) -> Self:
        """Take reports back: all of one source (a retracted or abusive one), or rows in the order they were given."""
        check_is_fitted(self, "classes_")
        if (source is None) == (rows is None):
            raise InputError("forget takes a source or rows, one of the two.")
        kept = np.ones(len(self.reports_), dtype=bool)
        if source is not None:
            if source not in self.reports_.sources:
                raise InputError(f"there is no source {source!r} to forget.")
            kept = self.reports_.source != self.reports_.sources.index(source)
        else:
            chosen = np.asarray(rows)
            if chosen.dtype == bool and chosen.shape == kept.shape:
                chosen = np.flatnonzero(chosen)
            if chosen.ndim != 1 or (chosen.size and not np.issubdtype(chosen.dtype, np.integer)):
                raise InputError("rows must be positions among the reports, or a mask with one entry per report.")
            if chosen.size and not (chosen.min() >= 0 and chosen.max() < len(kept)):
                raise InputError(f"rows must lie between 0 and {len(kept) - 1}: the model has {len(kept)} reports.")
            kept[chosen.astype(np.int64)] = False
        if not kept.any():
            raise InputError("forgetting these would leave no reports. Fit again when there are some.")
        return self._learn(self.reports_.take(kept), tuple(self.classes_.tolist()), self._gold_, warm=True)

    def forget_before(self, now: float, influence: float = 0.01) -> Self:
        """In a stream: take back reports so old that the map of `now` hardly hears them.

        Time is the last column of X. A report is dropped when its correlation with its own place now, k(now − then), is
        below `influence`. What was learned of the sources from it goes with it.
        """
        check_is_fitted(self, "classes_")
        if not 0.0 < influence < 1.0:
            raise InputError(f"influence must lie between 0 and 1, not {influence!r}.")
        # Reports at the same moment are equally old: one look a moment, at one and the same place.
        moments, which = np.unique(self.reports_.places[:, -1], return_inverse=True)
        here = np.zeros((len(moments), self.places_.shape[1]))
        here[:, -1] = moments
        today = np.zeros((1, here.shape[1]))
        today[0, -1] = now
        old = (self._posed.kernel.covariance(here, today)[:, 0] < influence)[which] & (
            self.reports_.places[:, -1] < now
        )
        return self.forget(rows=np.flatnonzero(old)) if old.any() else self

    def _earlier(self, posed: Posed) -> Any | None:
        """What is known already, with room for new sources."""
        if not hasattr(self, "_solved") or self._posed.data.X.shape[1] < posed.data.X.shape[1]:
            return None  # the features of exact places know no others
        q = self._solved.fit.q
        return self._solved.solver.with_new_sources(q, posed.prior.alpha0[len(q.alpha0) :])

    # --- prediction ---------------------------------------------------------------------------------------------

    def predict_proba(self, X: ArrayLike) -> Array:
        """Give the probability of each state at places, E[t*].

        At a place that has reports (or was checked) it is what these and the field say; elsewhere it is E[ρ*], the
        field alone. Coordinates closer than a millionth of the length-scale are the same place.

        Parameters
        ----------
        X : array_like [M, D]
            Places.

        Returns
        -------
        ndarray [M, J]
            Probabilities in the order of `classes_`.
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
        """
        places = validated_places(self, X)
        return self._predictor.rate(places)

    def sample_rate(self, X: ArrayLike, n: int = 200, random_state: int | np.random.Generator | None = None) -> Array:
        """Joint draws of ρ [n, M, J]: every draw is one map that could be, the same field at all places.

        Mean and standard deviation over the draws are those of `predict_rate`. Totals of areas need draws: places that
        are wrong are wrong together.
        """
        return totals.sample_rate(self, validated_places(self, X), whole("n", n), np.random.default_rng(random_state))

    def totals(
        self,
        places: ArrayLike,
        areas: Any,
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
            What each place counts for, such as its households; 1 by default.
        level : float, default=0.9
            Of the intervals, from joint draws of the states of all places.
        thresholds : array_like
            Shares; the table has the probability that a state covers at least as much of the area.
        draws : int
            How many joint draws.
        random_state : int, Generator or None, default=0
            Of the draws.
        """
        found = validated_places(self, places)
        rng = np.random.default_rng(random_state)
        return totals.totals(self, found, areas, weights, level, thresholds, rng, whole("draws", draws))

    def predict_grade(self, X: ArrayLike) -> tuple[Array, Array]:
        """The expected grade and its standard deviation [M], of ordered states: 0 is the first, J − 1 the last."""
        return grades.moments(self.predict_proba(X), self._ordered_states())

    def predict_at_least(self, X: ArrayLike, state: Hashable) -> Array:
        """P(t ≥ state) [M], of ordered states."""
        return grades.at_least(self.predict_proba(X), self._ordered_states(), state)

    def _ordered_states(self) -> list[Any]:
        check_is_fitted(self, "classes_")
        if not self.ordered:
            raise InputError("the states have no order. Give states in their order, and ordered=True.")
        return list(self.classes_.tolist())

    def predict_latent(self, X: ArrayLike) -> tuple[Array, Array]:
        """Give mean and variance of the latent functions: [M, 1] with two states, else [M, J]."""
        places = validated_places(self, X)
        return self._predictor.latent(places)

    def source_table(self, level: float = 0.95) -> pd.DataFrame:
        """Who can be trusted: reports, accuracy with a credible interval, lean, informativeness in bits."""
        check_is_fitted(self, "classes_")
        if self.reports_model_ == "instrument":
            fitted = self._instrument
            if isinstance(fitted, Sampled):
                frame = sampled_instrument.source_table(self, fitted, level)
            else:
                frame = instrument.source_table(self, fitted, self.confusion_, self.classes_, level)
            return frame.sort_values("informativeness", ascending=False, kind="stable", ignore_index=True)
        frame = sources_.table(self.reports_, self.classes_, self.alpha_, level)
        frame["reports"] = self._reports_by_source()
        if self.communities_ is not None:
            m = self._membership
            frame["community"] = np.where(self.communities_.free, m.argmax(1), -1)[frame.index]
            frame["membership"] = m.max(1)[frame.index]
        return frame.sort_values("informativeness", ascending=False, kind="stable", ignore_index=True)

    def covariate_table(self, level: float = 0.95) -> pd.DataFrame:
        """What the covariates tell: one row each, its weight with a credible interval (docs/covariates.md)."""
        check_is_fitted(self, "classes_")
        if self.reports_model_ != "instrument":
            raise InputError("the one-state model has no covariates. Give covariates= and leave reports_model='auto'.")
        fitted = self._instrument
        if isinstance(fitted, Sampled):
            weights = sampled_instrument.covariate_weights(fitted, level)
        else:
            weights = covariates_.gaussian_weights(fitted, level)
        return covariates_.table(self._asked.covariates, weights, self.classes_.tolist())

    def _reports_by_source(self) -> NDArray[np.int64]:
        return np.bincount(self.reports_.source, minlength=len(self.reports_.sources))

    def explain(self, place: ArrayLike, state: Hashable | None = None) -> pd.DataFrame:
        """Which reports moved this place, by how much, in log odds of a state (by default the most probable).

        One row per report, the strongest first, then the prior and what not knowing f exactly takes away; the column
        `log_odds` sums to the log odds of `predict_proba` there. `frame.groupby("source").log_odds.sum()` gives the
        sources' shares.
        """
        x = validated_places(self, np.atleast_2d(np.asarray(place, dtype=np.float64)))
        if len(x) != 1:
            raise InputError("explain takes one place.")
        p = np.clip(self.predict_proba(x)[0], ROUNDING, 1.0 - ROUNDING)
        if state is not None and state not in self.classes_.tolist():
            raise InputError(f"state {state!r} is not one of {self.classes_.tolist()!r}.")
        j = int(p.argmax()) if state is None else self.classes_.tolist().index(state)
        site = int(same_places(self, x)[0])
        if self.inference_ == "gibbs":
            quick = "auto" if self.reports_model_ == "instrument" else "collapsed"
            raise InputError(f"draws of Gibbs cannot be divided among reports. Explain with inference={quick!r}.")
        if self.reports_model_ == "instrument":
            fitted = cast(AnyFitted, self._instrument)
            shares = instrument.shares(self._asked, fitted, x, site, j, float(p[j]))
            said = self.reports_
            return sources_.explanation(said, said.places, said.source, said.label, shares, x[0])
        shares = explain.of_state(
            self._solved.solver,
            self._solved.fit.q,
            x,
            site,
            j,
            float(p[j]),
            self._posed.mean_at(x)[0],
        )
        data = self._posed.data
        where = self.places_[data.site]
        return sources_.explanation(self.reports_, where, data.source, data.label, shares, x[0])

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
            How many to pick. Each is picked as if the ones before it had been reported on, so that a batch spreads.
        source : source, array_like [J, L], or None
            Who would report: a source seen, a confusion matrix, or by default a typical source of this crowd.
        score : {"information", "map", "state", "variance", "entropy"}
            "information": bits that a report would tell about the map. "map": how much it would settle all candidates.
            "state": bits about the place's own state, which is what the crowd should look at again.
        cost : array_like [M], optional
            The cost of going to each candidate; scores are per unit of cost.

        Returns
        -------
        rows : ndarray [n]
            Rows of `candidates`.
        scores : ndarray [n]
            Their scores, the best first.
        """
        places = validated_places(self, candidates)
        count = whole("n", n)
        if score not in information.SCORES:
            raise InputError(f"score must be one of {', '.join(information.SCORES)}, not {score!r}.")
        price = np.ones(len(places)) if cost is None else np.asarray(cost, dtype=np.float64)
        if price.shape != (len(places),) or not (price > 0).all():
            raise InputError("cost must be positive, one for each candidate.")
        if len(places) > MOST_CANDIDATES:
            raise InputError(f"suggest weighs at most {MOST_CANDIDATES} candidates; thin out the {len(places)} given.")
        mean, _ = self._predictor.latent(places)
        if mean.shape[1] == 1 and len(self.classes_) > 2:
            raise InputError("suggest does not know ordered states yet. Fit with ordered=False to ask where to look.")
        covariance = self._predictor.covariance(places)
        said = self._said_at(places)
        chosen, scores = information.greedy(
            count, mean, covariance, said, self._typical(source), contrast(len(self.classes_)), score, price
        )
        return np.array(chosen, dtype=np.int64), np.array(scores)

    def suggest_sources(
        self,
        n: int = 10,
        *,
        among: Sequence[Hashable] | None = None,
        random_state: int | np.random.Generator | None = None,
    ) -> list[Hashable]:
        """Whom to ask next: n sources (some more than once), each the best in one draw of all confusion matrices.

        Who is known to be good is asked most, who is hardly known now and then. `among` names who can be asked.
        """
        check_is_fitted(self, "classes_")
        count = whole("n", n)
        known = {source: i for i, source in enumerate(self.reports_.sources)}
        unknown = [source for source in among or () if source not in known]
        if unknown or (among is not None and not len(among)):
            raise InputError(f"among must name sources that have reported; {unknown or 'nobody'} has not.")
        rows = np.arange(len(known)) if among is None else np.array([known[source] for source in among])
        chosen = sources_.whom(self.alpha_[rows], count, np.random.default_rng(random_state))
        return [self.reports_.sources[rows[i]] for i in chosen]

    def _said_at(self, places: Array) -> Array:
        """ℓ: the log likelihood of the states by the reports at each place, [M, J]; nothing where there are none."""
        where = same_places(self, places)
        out = np.zeros((len(places), len(self.classes_)))
        if self.reports_model_ == "instrument":
            here = where >= 0
            if here.any():
                rate = self._predictor.rate(places[here])[0]
                out[here] = np.log(np.clip(self.posterior_[where[here]], SURE, 1.0)) - np.log(np.clip(rate, SURE, 1.0))
            return out
        here = where >= 0
        if here.any():
            out[here] = log_likelihoods(self)[where[here]]
        return out

    def _typical(self, source: Any) -> Array:
        if source is None:
            weight = self._reports_by_source().astype(float)
            return np.asarray(np.einsum("sjl,s->jl", self.confusion_, weight / weight.sum()))
        if isinstance(source, Hashable) and source in self.reports_.sources:
            return np.asarray(self.confusion_[self.reports_.sources.index(source)])
        matrix = np.asarray(source, dtype=object)
        if matrix.shape != self.confusion_.shape[1:]:
            raise InputError(f"{source!r} is neither a source seen nor a confusion matrix {self.confusion_.shape[1:]}.")
        rows = matrix.astype(np.float64)
        return np.asarray(rows / rows.sum(1, keepdims=True))

    # --- keeping ------------------------------------------------------------------------------------------------

    def save(self, path: str | PathLike[str]) -> None:
        """Write the fitted model to one file: arrays and JSON in a zip, no pickle (docs/model-file.md)."""
        check_is_fitted(self, "classes_")
        storage.save(self, path)

    @classmethod
    def load(cls, path: str | PathLike[str], covariates: Given | None = None) -> Self:
        """Read a model that `save` wrote; it predicts the same and can be continued with `partial_fit`.

        covariates: those that it was fitted with, for places at which the file does not hold them.
        """
        return storage.load(cls, path, covariates)

    def _restore(self, read: storage.Stored) -> None:
        self.n_features_in_ = read.reports.places.shape[1]
        posed = problem.pose(self, read.reports, read.states, read.gold)
        posed = posed.with_lengthscales(read.lengthscale)
        self.model_comparison_, self._compared_reports = None, len(read.reports)
        if read.state is None:
            solved = selection.solve(posed, None, max_iter=self.max_iter, tol=self.tol)
            self._remember(posed, read.reports, read.states, read.gold)
            self._accept(solved, solved.solver.responsibilities(solved.fit.q))
            return
        self._remember(posed, read.reports, read.states, read.gold)
        if isinstance(read.state, InstrumentState):
            self._tasks = read.tasks
            restored = instrument.restore(self, posed, read)
            self._keep_instrument(*restored, read.states)
        else:
            self._keep(selection.restore(posed, read.state), read.posterior)
        for name, value in read.learned.items():
            setattr(self, name, value)


def _task_codes(tasks: ArrayLike | None, count: int) -> NDArray[np.int64] | None:
    if tasks is None:
        return None
    values = np.asarray(tasks)
    if values.shape != (count,):
        raise InputError(f"tasks must name one thing per report: {count} reports, but shape {values.shape}.")
    return np.asarray(np.unique(values, return_inverse=True)[1], dtype=np.int64).ravel()


def _says_one_thing(reports: Reports) -> bool:
    return bool(reports.label.min() == reports.label.max())


def _log_gamma(shape: float, rate: float, length: float) -> float:
    return float((shape - 1.0) * np.log(length) - rate * length)


def warn_about_one_label(reports: Reports) -> None:
    """Warn where all reports say the same: neither the length-scale nor the other states can be learned then."""
    if len(reports) > 1 and reports.label.min() == reports.label.max():
        warnings.warn(
            f"All reports say {reports.labels[int(reports.label[0])]!r}. Neither the length-scale nor the other states "
            "can be learned from them: they come from the priors.",
            DataWarning,
            stacklevel=4,
        )
