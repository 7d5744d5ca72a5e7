"""The instrument model over Dask: reports and features stay with the workers, a few numbers per place travel.

The iteration is that of one process (`inference.instrument`). What it needs of the places (`Observed`, `Design`) are
sums over blocks of places, and here every partition computes its own. The driver holds the places and their Gaussian
sites, but no reports.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from itertools import pairwise
from operator import add
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crowdfield.data import Reports
from crowdfield.distributed.partitions import write_places
from crowdfield.distributed.reading import hold
from crowdfield.errors import InputError
from crowdfield.inference import blur
from crowdfield.inference.data import Data
from crowdfield.inference.fields.basis import Basis
from crowdfield.inference.instrument import bases, iterate, selection
from crowdfield.inference.instrument import model as instrument
from crowdfield.inference.instrument.fitting import Observed, Progress, State
from crowdfield.inference.instrument.grid import Array
from crowdfield.inference.instrument.iterate import Policy
from crowdfield.inference.instrument.joint_information import Information, LocalInformation
from crowdfield.inference.instrument.linear import Columns, Design, Weights
from crowdfield.inference.instrument.link import Checks, Link
from crowdfield.inference.instrument.methods import method_for
from crowdfield.inference.instrument.model import Fitted, Problem
from crowdfield.inference.instrument.passes import Sums
from crowdfield.inference.instrument.selection import Learned, Reported
from crowdfield.inference.posed import Posed
from crowdfield.inference.threads import one_blas_thread
from crowdfield.models.instrument import InstrumentSetup, set_up, why_not
from crowdfield.models.learning import log_gamma_density
from crowdfield.models.problem import Gold

if TYPE_CHECKING:
    from distributed import Client, Future

    from crowdfield.models.heatmap_bcc import HeatmapBCC


def refuse(model: HeatmapBCC, states: tuple[Any, ...], labels: tuple[Any, ...]) -> None:
    """Raise an error for what the instrument model cannot do over Dask."""
    reason = why_not(model, states, labels)
    if reason is None and model.covariates is not None:
        reason = "covariates are standardised over all places, which no worker has"
    if reason is None and len(states) > 2 and not model.ordered:
        reason = "over Dask it reads two states or ordered ones. Give ordered=True where the states are grades"
    if reason is not None:
        raise InputError(f"reports_model='instrument' cannot be used here: {reason}.")


class Part(NamedTuple):
    """The places of one partition, prepared for a basis."""

    observed: Observed
    design: Design


@dataclass(frozen=True)
class Parts:
    """Blocks of places on the workers, in the order of the places."""

    client: Client
    parts: list[Future]  # of Part
    ends: NDArray[np.int64]  # [parts + 1] the first place of each, and how many there are

    def each(self, task: Callable[..., Any], *shared: Any, of_places: Sequence[Array] = ()) -> list[Future]:
        """A task for every partition: what is the same for all, and its own rows of arrays over places."""
        sent = [self.client.submit(hold, value, pure=False) for value in shared]
        return [
            self.client.submit(task, part, *sent, *(values[first:end] for values in of_places), pure=False)
            for part, (first, end) in zip(self.parts, pairwise(self.ends.tolist()), strict=True)
        ]

    def gather(self, task: Callable[..., Any], *shared: Any, of_places: Sequence[Array] = ()) -> list[Any]:
        found: list[Any] = self.client.gather(self.each(task, *shared, of_places=of_places))
        return found

    def total(self, task: Callable[..., Any], *shared: Any, of_places: Sequence[Array] = ()) -> Array:
        """In the order of the partitions, so that equal inputs give equal sums."""
        return np.asarray(reduce(add, self.gather(task, *shared, of_places=of_places)))


class DesignElsewhere(Design):
    """Features held by the workers."""

    def __init__(self, basis: Basis, columns: Columns, X: Array, parts: Parts):
        self.basis, self.columns, self.X, self.parts = basis, columns, X, parts
        self.offset = blur.averaged(columns.offset_at, X, basis.dimension)
        self.lost, self.phi = np.zeros(len(X)), None
        self.size = basis.size + len(columns.sd)

    @property
    def is_dense(self) -> bool:
        return self.prefers_dense(len(self.X), self.basis)

    def project(self, values: Array) -> Array:
        return self.parts.total(_project, of_places=[values])

    def gram(self, lam: Array) -> Array:
        return self.parts.total(_gram, of_places=[lam])

    def summarised(self, values: Array, lam: Array) -> tuple[Array, Array]:
        grams, projections = zip(*self.parts.gather(_summarised, of_places=[values, lam]), strict=True)
        return np.asarray(reduce(add, grams)), np.asarray(reduce(add, projections))

    def moments(self, q: Weights) -> tuple[Array, Array]:
        mean, variance = zip(*self.parts.gather(_moments, q), strict=True)
        return np.concatenate(mean), np.concatenate(variance)


class ObservedElsewhere(Observed):
    """Reports held by the workers; `votes` refers to them."""

    @property
    def n_sites(self) -> int:
        return int(self.votes.ends[-1])

    def pass_over(self, state: State, mean: Array, variance: Array, nugget: Array) -> Sums:
        return Sums.joined(self.votes.gather(_pass_over, _light(state), of_places=[mean, variance, nugget]))

    def at_sites(
        self, state: State, mean: Array, variance: Array, nugget: Array, truth_link: Link
    ) -> tuple[Array, Array]:
        found = self.votes.gather(_at_sites, _light(state), truth_link, of_places=[mean, variance, nugget])
        truth, appearances = zip(*found, strict=True)
        return np.concatenate(truth), np.concatenate(appearances)

    def information(self, design: Design, state: State, nugget: Array, appearances: Array) -> Information:
        found = self.votes.each(_information, _light(state), of_places=[nugget, appearances])
        return InformationElsewhere(replace(self.votes, parts=found))


class InformationElsewhere:
    """The information of all partitions' reports about sources and field, added up."""

    def __init__(self, parts: Parts):
        self._parts, self.parameters = parts, parts.total(_parameters)

    def gram(self) -> Array:
        return self._parts.total(LocalInformation.gram)

    def projected(self) -> Array:
        return self._parts.total(LocalInformation.projected)

    def moved(self, step: Array) -> Array:
        return np.concatenate(self._parts.gather(LocalInformation.moved, step))


class Found(NamedTuple):
    """A fit, its problem as the estimator keeps it, and how the length-scale was learned."""

    setup: InstrumentSetup
    fitted: Fitted
    lengthscale: Learned | None


def fit(
    model: HeatmapBCC,
    client: Client,
    data: list[Future],
    names: Reports,
    states: tuple[Any, ...],
    posed: Posed,
    sites_to: tuple[str, list[str], list[str]] | None,
    progress: Progress | None,
) -> Found:
    """names: reports of nobody, with the names of all labels and sources. sites_to: a directory that receives P(t) of
    every place, and the names of the columns of coordinates and of states.
    """
    settings = client.submit(hold, (model, names, states, posed.kernel, posed.mean_at), pure=False)
    setups = [client.submit(_set_up_part, part, settings) for part in data]
    surveys: list[_Survey] = client.gather([client.submit(_survey, part) for part in setups])
    ends = np.concatenate([[0], np.cumsum([len(each.X) for each in surveys])])
    checks = Checks(
        np.concatenate([each.checks.site + first for each, first in zip(surveys, ends[:-1], strict=True)]),
        np.concatenate([each.checks.said for each in surveys]),
    )
    X, like = np.concatenate([each.X for each in surveys]), surveys[0].problem
    problem = like._replace(X=X, observed=like.one_appearance._replace(checks=checks))
    learned = None
    if posed.free:
        problem, learned = _with_lengthscale(problem, Parts(client, setups, ends), posed)
    with one_blas_thread():
        basis = bases.choose(problem.engine, problem.kernel, X, problem.rng())
        laid_out = client.submit(hold, basis, pure=False)
        parts = Parts(client, [client.submit(_part, part, laid_out) for part in setups], ends)
        observed = ObservedElsewhere(*problem.one_appearance._replace(votes=parts))
        design = DesignElsewhere(basis, problem.columns, X, parts)
        policy = Policy(tol=model.tol, max_iter=model.max_iter)
        started = problem._replace(observed=observed).start()
        settled = iterate.run(method_for(observed, design, problem.prior), started, policy, progress=progress)
        fitted = instrument.finished(problem._replace(observed=observed), design, settled, policy)
    assert isinstance(fitted, Fitted)
    if sites_to is not None:
        client.gather(
            [
                client.submit(write_places, X[first:end], fitted.site_states[first:end], *_file(sites_to, i))
                for i, (first, end) in enumerate(pairwise(ends.tolist()))
            ]
        )
    # Nothing of the cluster is kept.
    here = replace(fitted, problem=problem, design=Design(basis, problem.columns, X[:0]))
    return Found(surveys[0].without_reports(problem), here, learned)


def _file(sites_to: tuple[str, list[str], list[str]], i: int) -> tuple[str, list[str], list[str]]:
    directory, places, states = sites_to
    return f"{directory}/part.{i:05d}.parquet", places, states


def _with_lengthscale(problem: Problem, parts: Parts, posed: Posed) -> tuple[Problem, Learned]:
    """Learn the length-scale on the same places as a single process would: their reports are sent to the driver."""
    rng, X = problem.rng(), problem.X
    limits = posed.lengthscale_bounds or selection.search_range(blur.coordinates(problem.kernel, X), rng)
    kept = selection.thinned(problem.observed, X, rng, selection.SEARCH_SITES)
    at = np.searchsorted(kept, parts.ends)
    rows = [kept[a:b] - first for a, b, first in zip(at[:-1], at[1:], parts.ends[:-1], strict=True)]
    tasks = [parts.client.submit(_taken, part, own, pure=False) for part, own in zip(parts.parts, rows, strict=True)]
    found: list[tuple[Reported, Checks]] = parts.client.gather(tasks)
    columns = [
        np.concatenate([reported[i] + (at[p] if i == 0 else 0) for p, (reported, _) in enumerate(found)])
        for i in range(4)
    ]
    reported, like = Reported(*columns), problem.one_appearance
    checks = Checks(
        np.concatenate([own.site + at[p] for p, (_, own) in enumerate(found)]),
        np.concatenate([own.said for _, own in found]),
    )
    observed = Observed.of(*reported, len(kept), like.n_sources, like.scores, checks, like.state_scores)
    part = problem._replace(X=X[kept], reported=reported, observed=observed)
    log_prior = None if posed.lengthscale_prior is None else partial(log_gamma_density, *posed.lengthscale_prior)
    with one_blas_thread():
        learned = selection.search(part, part.start(), limits, log_prior, rng)
    return problem._replace(kernel=problem.kernel.with_lengthscale(learned.lengthscale)), learned


# --- tasks ------------------------------------------------------------------------------------------------------------


def _set_up_part(data: Data, settings: tuple[HeatmapBCC, Reports, tuple[Any, ...], Any, Any]) -> InstrumentSetup:
    """The problem of the reports of a partition, as in a single process."""
    model, names, states, kernel, mean_at = settings
    known = np.flatnonzero(data.known >= 0)
    gold = Gold(data.X[known], data.known[known].astype(np.int64))
    codes = data.source.astype(np.int64), data.label.astype(np.int64)
    reports = replace(names, places=data.X[data.site], source=codes[0], label=codes[1])
    return set_up(model, reports, states, gold, kernel, mean_at, None)


class _Survey(NamedTuple):
    """What the driver needs of a partition: its places and checks, and the problem without reports."""

    X: Array
    checks: Checks
    problem: Problem
    order: NDArray[np.int64]

    def without_reports(self, problem: Problem) -> InstrumentSetup:
        nothing = np.empty(0, dtype=np.int64)
        crowd = nothing.astype(bool)
        return InstrumentSetup(problem, problem.X[:0], nothing, self.order, nothing, nothing, crowd, None)


def _survey(setup: InstrumentSetup) -> _Survey:
    problem = setup.problem
    nothing = Reported(*(column[:0] for column in problem.reported))
    without = problem._replace(X=problem.X[:0], reported=nothing, observed=problem.observed.with_reports(*nothing))
    return _Survey(problem.X, problem.observed.checks, without, setup.order)


def _taken(setup: InstrumentSetup, kept: NDArray[np.int64]) -> tuple[Reported, Checks]:
    reported, observed = selection.at_places(setup.problem.observed, setup.problem.reported, kept)
    return reported, observed.checks


def _part(setup: InstrumentSetup, basis: Basis) -> Part:
    return Part(setup.problem.one_appearance, Design(basis, setup.problem.columns, setup.problem.X))


def _light(state: State) -> State:
    """Sources, link and variances: what travels."""
    return state._replace(eta=state.eta[:0], lam=state.lam[:0])


def _project(part: Part, values: Array) -> Array:
    return part.design.project(values)


def _gram(part: Part, lam: Array) -> Array:
    return part.design.gram(lam)


def _summarised(part: Part, values: Array, lam: Array) -> tuple[Array, Array]:
    return part.design.summarised(values, lam)


def _moments(part: Part, q: Weights) -> tuple[Array, Array]:
    return part.design.moments(q)


def _pass_over(part: Part, state: State, mean: Array, variance: Array, nugget: Array) -> Sums:
    return part.observed.pass_over(state, mean, variance, nugget)


def _at_sites(
    part: Part, state: State, truth_link: Link, mean: Array, variance: Array, nugget: Array
) -> tuple[Array, Array]:
    return part.observed.at_sites(state, mean, variance, nugget, truth_link)


def _information(part: Part, state: State, nugget: Array, appearances: Array) -> LocalInformation:
    return LocalInformation(part.observed, part.design, state, nugget, appearances)


def _parameters(information: LocalInformation) -> Array:
    return np.asarray(information.parameters)
