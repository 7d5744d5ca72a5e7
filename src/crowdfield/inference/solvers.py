"""The methods behind one interface: what solves a posed problem, over sites that may be in other processes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Protocol

import numpy as np

from crowdfield.inference import confusion, iterate, linearise, settle, vb
from crowdfield.inference.communities import Communities
from crowdfield.inference.fields.base import Array
from crowdfield.inference.fields.features import FeatureEngine
from crowdfield.inference.fields.other_kernels import WeightsLikelihood
from crowdfield.inference.fields.seen import REACHED, SeenBasis, seen_part
from crowdfield.inference.iterate import Fit, Progress
from crowdfield.inference.joint import seen, sums, updating
from crowdfield.inference.joint import state as joint
from crowdfield.inference.joint.method import Method as JointMethod
from crowdfield.inference.posed import Posed
from crowdfield.inference.scale import Gamma
from crowdfield.inference.sites import Sites
from crowdfield.inference.threads import quiet_blas

Anywhere = Callable[[Callable[[Sites, Any], Any], Any], Any]  # sums a function of sites and q over all sites


class Solver(Protocol):
    """A method laid over the sites of a problem."""

    @property
    def sites(self) -> Sites:
        """The sites of this process."""
        ...

    def run(self, start: Any, max_iter: int, tol: float, progress: Progress | None = None) -> Fit:
        """Iterate until nothing moves by more than `tol`, or for `max_iter` sweeps."""
        ...

    def with_communities(self, communities: Communities | None) -> Solver:
        """The same method with another prior over the sources' confusion matrices."""
        ...

    def in_state(self, state: Any) -> Any:
        """The q of a state in which an earlier fit ended."""
        ...

    def warm_start(self, earlier: Fit) -> Any:
        """The state to start from after a fit of fewer reports, another length-scale or engine."""
        ...

    def counts(self, fit: Fit) -> Array:
        """Expected counts of every source: [S, J, L]."""
        ...

    def responsibilities(self, q: Any) -> Array:
        """q(t) at the sites of this process: [N, J]."""
        ...

    def at_sites(self, q: Any) -> tuple[Callable[[Sites, Any], Array], Any]:
        """A function that gives q(t) at any sites, and as much of q as it needs."""
        ...

    def local(self, q: Any, b: int) -> linearise.Local:
        """q(t) and the Gaussian sites of one block."""
        ...

    def log_pi(self, q: Any) -> Array:
        """E[log π] [S, J, L]: how far every report is believed."""
        ...

    def weights_likelihood(self, fit: Fit) -> WeightsLikelihood | None:
        """The Gaussian likelihood of a fit's weights, to compare kernels by; None if the method has none."""
        ...

    def with_new_sources(self, earlier: Fit, alpha0: Array) -> Fit:
        """An earlier fit extended by new sources with the prior [S_new, J, L]."""
        ...


@dataclass(frozen=True)
class JointSolver:
    """Sources and field in one Gaussian posterior ("collapsed")."""

    sites: Sites
    method: JointMethod

    def run(self, start: Any, max_iter: int, tol: float, progress: Progress | None = None) -> Fit:
        """Iterate until nothing moves by more than `tol`, or for `max_iter` sweeps."""
        with quiet_blas(self.method.engine.size):
            return iterate.run(self.method, start=start, max_iter=max_iter, tol=tol, progress=progress)

    def with_communities(self, communities: Communities | None) -> JointSolver:
        """The same method with another prior over the sources' confusion matrices."""
        return replace(self, method=replace(self.method, communities=communities))

    def in_state(self, state: joint.State) -> joint.Posterior:
        """The q of a state in which an earlier fit ended."""
        with quiet_blas(
            self.method.engine.size
        ):  # as when it was fitted: sums in another order differ in the last digit
            return self.method.assemble(state)

    def warm_start(self, earlier: Fit) -> joint.State | joint.Known:
        """The state to start from after a fit of fewer reports, another length-scale or engine."""
        with quiet_blas(self.method.engine.size):
            return self.method.warm_start(earlier)

    def counts(self, fit: Fit) -> Array:
        """Expected counts of every source: [S, J, L]."""
        return np.asarray(fit.q.alpha - fit.q.alpha0).clip(0.0)

    def responsibilities(self, q: joint.Posterior) -> Array:
        """q(t) at the sites of this process: [N, J]."""
        return sums.responsibilities(self.sites, joint.table(q))

    def at_sites(self, q: joint.Posterior) -> tuple[Callable[[Sites, Any], Array], Any]:
        """A function that gives q(t) at any sites, and as much of q as it needs."""
        return sums.responsibilities, joint.table(q)

    def local(self, q: joint.Posterior, b: int) -> linearise.Local:
        """q(t) and the Gaussian sites of one block."""
        return sums.local(self.sites, joint.table(q), b).site

    def log_pi(self, q: joint.Posterior) -> Array:
        """E[log π] [S, J, L]: how far every report is believed."""
        return q.moments.log_pi

    def weights_likelihood(self, fit: Fit) -> WeightsLikelihood | None:
        """The Gaussian likelihood of a fit's weights, to compare kernels by; None if the method has none."""
        return self.method.likelihood(fit.state)

    def with_new_sources(self, earlier: Fit, alpha0: Array) -> Fit:
        """An earlier fit extended by new sources with the prior [S_new, J, L]."""
        state = joint.with_new_sources(earlier.state, alpha0)
        return earlier._replace(state=state, q=joint.posterior_with_new_sources(earlier.q, alpha0))


@dataclass(frozen=True)
class LocalJointSolver(JointSolver):
    """The same over sites of this process, which iterates in the weights that the sites see if these are few."""

    @cached_property
    def _seen(self) -> Sites | None:
        """The sites with the features that they see; None if transforms of all features are faster."""
        engine = self.sites.engine
        if not isinstance(engine, FeatureEngine) or len(engine.blocks) != 1:
            return None
        basis = seen_part(engine.basis, engine.points(engine.blocks[0]), engine.n_sites)
        data = self.sites.data
        return None if basis is None else Sites(data, self.sites.prior, FeatureEngine(basis, data.X))

    def warm_start(self, earlier: Fit) -> joint.State | joint.Known:
        """The state to start from after a fit of fewer reports, another length-scale or engine."""
        start = super().warm_start(earlier)
        if not isinstance(start, joint.Known) or earlier.sites is None or self._seen is not None:
            return start
        return start._replace(sums=updating.updated(earlier.sites, self.sites, joint.table(start.q)))

    def run(self, start: Any, max_iter: int, tol: float, progress: Progress | None = None) -> Fit:
        """Iterate until nothing moves by more than `tol`, or for `max_iter` sweeps."""
        return self._run(start, max_iter, tol, progress)._replace(sites=self.sites)

    def _run(self, start: Any, max_iter: int, tol: float, progress: Progress | None) -> Fit:
        sites = None if tol < REACHED else self._seen
        if sites is None:
            return super().run(start, max_iter, tol, progress)
        engine = sites.engine
        assert isinstance(engine, FeatureEngine) and isinstance(engine.basis, SeenBasis)
        method = replace(self.method, engine=engine, sweep=partial(_here, sites, sums.sweep))
        with quiet_blas(engine.size):
            first = None if start is None else seen.reduced(start, engine.basis)
            fit = iterate.run(method, start=first, max_iter=max_iter, tol=tol, progress=progress)
            found = seen.whole(self.method, fit, engine.basis) if fit.converged or fit.n_iter >= max_iter else None
        if found is None:  # it stalled in these weights, or is not a fit in all of them
            return super().run(start, max_iter, tol, progress)
        if found.change < tol or not found.converged or found.n_iter >= max_iter:
            return found
        more = super().run(joint.Known(found.state, found.q), max_iter - found.n_iter, tol, progress)
        return more._replace(history=found.history + more.history, n_iter=found.n_iter + more.n_iter)


@dataclass(frozen=True)
class MeanFieldSolver:
    """The paper's mean-field variational Bayes ("vb")."""

    sites: Sites
    iteration: vb.Iteration

    def run(self, start: Any, max_iter: int, tol: float, progress: Progress | None = None) -> Fit:
        """Iterate until nothing moves by more than `tol`, or for `max_iter` sweeps."""
        with quiet_blas(self.iteration.engine.size):
            return settle.run(self.iteration, start=start, max_iter=max_iter, tol=tol, progress=progress)

    def with_communities(self, communities: Communities | None) -> MeanFieldSolver:
        """The same method with another prior over the sources' confusion matrices."""
        return replace(self, iteration=replace(self.iteration, communities=communities))

    def in_state(self, state: vb.State) -> vb.Posterior:
        """The q of a state in which an earlier fit ended."""
        with quiet_blas(self.iteration.engine.size):
            return self.iteration.assemble(state)

    def warm_start(self, earlier: Fit) -> vb.State:
        """The state to start from after a fit of fewer reports, another length-scale or engine."""
        with quiet_blas(self.iteration.engine.size):
            return self.iteration.warm_start(earlier.q)

    def counts(self, fit: Fit) -> Array:
        """Expected counts of every source: [S, J, L]."""
        return np.asarray(fit.state.counts)

    def responsibilities(self, q: vb.Posterior) -> Array:
        """q(t) at the sites of this process: [N, J]."""
        return vb.responsibilities(self.sites, self.iteration.scheme, q)

    def at_sites(self, q: vb.Posterior) -> tuple[Callable[[Sites, Any], Array], Any]:
        """A function that gives q(t) at any sites, and as much of q as it needs."""
        return self.iteration.scheme.responsibilities, q

    def local(self, q: vb.Posterior, b: int) -> linearise.Local:
        """q(t) and the Gaussian sites of one block."""
        return vb.local(self.sites, self.iteration.scheme, q, self.sites.blocks[b])

    def log_pi(self, q: vb.Posterior) -> Array:
        """E[log π] [S, J, L]: how far every report is believed."""
        return confusion.expected_log_pi(q.alpha)

    def weights_likelihood(self, fit: Fit) -> WeightsLikelihood | None:
        """The Gaussian likelihood of a fit's weights, to compare kernels by; None if the method has none."""
        return None  # the paper compares the bounds of fits

    def with_new_sources(self, earlier: Fit, alpha0: Array) -> Fit:
        """An earlier fit extended by new sources with the prior [S_new, J, L]."""
        q = earlier.q
        more = q._replace(alpha=np.concatenate([q.alpha, alpha0]), alpha0=np.concatenate([q.alpha0, alpha0]))
        return earlier._replace(q=more)


def _here(sites: Any, one: Any, q: Any) -> Any:
    """A sum over sites of this process; a function of the module, so that it can be pickled."""
    return one(sites, q)


def over(posed: Posed, sites: Sites, anywhere: Anywhere | None = None) -> Solver:
    """The method that was asked for, over these sites, or over sites of other processes with the same engine."""
    total = partial(_here, sites) if anywhere is None else anywhere
    prior, engine = Gamma(posed.prior.shape, posed.prior.rate), sites.engine
    if posed.method == "joint":
        sweep = partial(total, sums.sweep)
        solver = LocalJointSolver if anywhere is None else JointSolver
        return solver(sites, JointMethod(engine, posed.prior.alpha0, prior, sweep, base=posed.base))
    scheme = vb.SCHEMES[posed.method]
    iteration = vb.Iteration(
        engine,
        scheme,
        posed.prior.alpha0,
        prior,
        posed.prior.mean.shape[1],
        partial(total, scheme.sweep),
        base=posed.base,
    )
    return MeanFieldSolver(sites, iteration)


def here(posed: Posed) -> Solver:
    """All sites in this process."""
    return over(posed, Sites(posed.data, posed.prior, posed.engine()))


def for_search(posed: Posed) -> Solver:
    """A solver with few features, to compare length-scales by."""
    return over(posed, Sites(posed.data, posed.prior, posed.search_engine()))


def for_start(posed: Posed) -> Solver:
    """A solver with few features that leaves sources and field uncoupled: its fit is where another starts."""
    solver = for_search(posed)
    assert isinstance(solver, JointSolver)
    return replace(solver, method=replace(solver.method, most_covariances=0))
