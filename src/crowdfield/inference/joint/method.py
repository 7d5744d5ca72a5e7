"""q from a state, the objective, and the step to the next state.

A state is a quadratic model of the objective around a centre: the curvature of every source (complete less missing
information), of the field, and of the two together (B), and the gradient there. `assemble` computes its optimum,

    Q_s = (information)⁻¹     G_s = Q_s B_sᵀ     Cov(w) = (ςI + ΦᵀΛΦ − Σ_s B_s Q_s B_sᵀ)⁻¹     ŵ, v̂: one Newton step,

and a pass over the sites gives the gradient, the curvature and the objective at the new q. Steps may be shortened: the
curvature is then mixed with the last one and the gradient scaled, so that a short step changes little.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from crowdfield.inference import communities as communities_
from crowdfield.inference.communities import Communities
from crowdfield.inference.fields.base import Array, Engine, Field, Statistics
from crowdfield.inference.fields.features import Diagonal, FeatureEngine, FeatureField
from crowdfield.inference.fields.marginal import LostInformation
from crowdfield.inference.fields.other_kernels import WeightsLikelihood
from crowdfield.inference.iterate import Fit
from crowdfield.inference.joint import rows, starting
from crowdfield.inference.joint.objective import objective
from crowdfield.inference.joint.rows import Layout
from crowdfield.inference.joint.state import (
    MOST_COVARIANCES,
    Evaluated,
    Known,
    Posterior,
    Rows,
    State,
    has_weights_of,
    pack,
    readout,
    table,
    unpack,
)
from crowdfield.inference.joint.sums import Sums, Table
from crowdfield.inference.scale import Gamma

FARTHEST_MOVE = 2.0  # largest change of a source's logits in one step, because Newton's step overshoots
FIRST_PRECISION = 1.0  # smallest ς at the start, because a field without a prior diverges
SIDE_BY_SIDE = 0.5  # damping of EM steps of several functions, which overshoot if each holds the others fixed
FEW_COVARIANCES = 1 << 17  # entries of B: with fewer, all sources are coupled from the start


@dataclass(frozen=True)
class Method:
    """The joint method over sources, priors and engine; the sites may be in other processes."""

    engine: Engine
    alpha0: Array  # [S, J, L]; with communities, of the sources that have a prior of their own
    scale_prior: Gamma
    sweep: Callable[[Table], Sums]
    communities: Communities | None = None  # to start with
    base: Array | None = None  # [J, L] the prior that communities start from
    most_covariances: int = MOST_COVARIANCES  # entries of B; with more, only the most influential sources are coupled

    @property
    def layout(self) -> Layout:
        """Which rows of the confusion matrices depend on which function."""
        return Layout.of(*self.alpha0.shape[1:])

    # --- where to start --------------------------------------------------------------------------------------------

    def prior(self) -> State:
        """The state of the prior, before any report."""
        functions, size = len(self.layout.rows), self.engine.size
        nothing = tuple(self.engine.empty() for _ in range(functions))
        centre, before = tuple(np.zeros(size) for _ in range(functions)), self.dirichlet_rows(self.alpha0, self.alpha0)
        precision = max(self.scale_prior.mean, FIRST_PRECISION)
        state = State(self.alpha0, before, nothing, centre, 1.0, precision, self.communities)
        log_pi = rows.moments(state.rows.logits, rows.of_dirichlet(state.alpha0)[1]).log_pi
        return self._with_communities(state, log_pi, None)

    def dirichlet_rows(self, alpha: Array, alpha0: Array) -> Rows:
        """Rows as if all states were known: the information of the reports, and that of the prior."""
        logits, covariance = rows.of_dirichlet(alpha)
        information = self.layout.block(np.asarray(np.linalg.inv(covariance)))
        share = self.layout.block(
            np.broadcast_to((alpha0.sum(-1) / alpha.sum(-1))[..., None, None], covariance.shape).copy()
        )
        none = np.zeros((0, len(self.layout.rows), self.layout.size, self.engine.size))
        gradient, nowhere = np.zeros(information.shape[:3]), np.full(len(alpha), -1, dtype=np.int64)
        return Rows(logits, share * information, (1.0 - share) * information, gradient, none, nowhere)

    def init(self, sweeps: int) -> State:
        """Some EM steps from the prior; then the coupling of sources and field is added, if it costs little."""
        state = self.prior()
        for i in range(sweeps):
            state = self._em_step(state, 1.0 - i / sweeps)
        return self._with_room(state) if sweeps else state

    def _with_room(self, state: State) -> State:
        """The state with the coupling of sources and field, if it costs little."""
        dear = len(self.alpha0) * len(self.layout.rows) * self.layout.size * self.engine.size > FEW_COVARIANCES
        return state if dear else self.joined(state)

    def _em_step(self, state: State, complete: float) -> State:
        """Sources and field from the expected states, as if these were known; ς as it is.

        From far away Newton's steps overshoot, because reports that say little about the state have hardly any
        curvature: the field then swings from a map of one state to that of the other. EM's steps are short enough.
        """
        left = rows.covariance_of(state.rows.prior, state.rows.reports)
        fields = [self.engine.posterior(s, state.precision) for s in state.statistics]
        q = self._posterior(state, left, fields, [], None)
        sums = self.sweep(table(q)._replace(complete=complete))
        state = self._with_communities(state, q.moments.log_pi, sums)
        share = 1.0 if len(q.fields) == 1 else SIDE_BY_SIDE
        both = zip(state.statistics, sums.statistics, strict=True)
        return state._replace(
            rows=self.dirichlet_rows(state.alpha0 + sums.counts, state.alpha0),
            statistics=tuple(old.towards(new, share) for old, new in both),
            centre=tuple(_weights(f) for f in q.fields),
        )

    def is_whole(self, state: State) -> bool:
        return bool(len(state.rows.projected)) or not self._most_coupled()

    def _most_coupled(self) -> int:
        """How many sources may be coupled to the field."""
        if not isinstance(self.engine, FeatureEngine) or not self.layout.size:
            return 0
        return self.most_covariances // (len(self.layout.rows) * self.layout.size * self.engine.size)

    def joined(self, state: State) -> State:
        """The same state with the most influential sources coupled to the field."""
        if self.is_whole(state):
            return state
        S, (F, d) = len(self.alpha0), state.rows.gradient.shape[1:]
        chosen, position = np.arange(S), np.full(S, -1, dtype=np.int64)
        most = self._most_coupled()
        if most < S:
            at = self.evaluate(state)
            variance = np.einsum("sfld,sfde,sfle->slf", at.q.directions, at.q.left, at.q.directions)
            influence = (variance * at.sums.missing**2).sum((1, 2))
            chosen = np.sort(np.argsort(-influence, kind="stable")[:most])
        position[chosen] = np.arange(len(chosen))
        nothing = np.zeros((len(chosen), F, d, self.engine.size))
        return state._replace(rows=state.rows._replace(position=position, projected=nothing))

    def warm_start(self, earlier: Fit) -> State | Known:
        """The state to start from after an earlier fit (of fewer reports, another length-scale or engine).

        With the same features it is the state in which that fit ended: its q, and a model of the objective that the
        first step here replaces. If the sources and their priors are the same, so is q.

        With other features, a fit that did not couple sources and field is followed by one that does not yet.
        """
        if not has_weights_of(earlier.q, self.engine):
            state, sources_anew = starting.elsewhere(self, earlier.q)
            return self.joined(state) if len(earlier.q.slope) and not sources_anew else self._with_room(state)
        state = earlier.state._replace(alpha0=self.alpha0, communities=self.communities)
        if np.array_equal(state.rows.position, earlier.q.position):  # the same sources
            if self.communities is None and np.allclose(self.alpha0, earlier.q.alpha0):
                return Known(state, earlier.q)
            if self.communities is not None and self.communities.equals(earlier.state.communities):
                return Known(earlier.state, earlier.q)
        return self._with_communities(state, earlier.q.moments.log_pi, None)

    # --- q from a state --------------------------------------------------------------------------------------------

    def evaluate(self, start: State | Known) -> Evaluated:
        state, q, sums = start if isinstance(start, Known) else (start, self.assemble(start), None)
        sums = self.sweep(table(q)) if sums is None else sums
        return Evaluated(state, q, sums, objective(state, q, sums, self.base))

    def assemble(self, state: State) -> Posterior:
        """The q of a state: the field with ς integrated, then the sources given it."""
        left = rows.covariance_of(state.rows.prior, state.rows.reports)
        if not isinstance(self.engine, FeatureEngine):
            fields = self.engine.posterior_integrated(state.statistics, *self.scale_prior, near=state.precision)
            return self._posterior(state, left, fields, [s.linear for s in state.statistics], None)
        parts, slope = self._weights_likelihood(state, left)
        fields = self.engine.posterior_of(parts, *self.scale_prior, near=state.precision)
        return self._posterior(state, left, fields, [part.V @ part.p for part in parts], slope)

    def likelihood(self, state: State) -> WeightsLikelihood | None:
        """The Gaussian likelihood of the weights under a state; None for an engine without weights."""
        if not isinstance(self.engine, FeatureEngine):
            return None
        parts, _ = self._weights_likelihood(state, rows.covariance_of(state.rows.prior, state.rows.reports))
        return WeightsLikelihood(self.engine.basis, parts, self.scale_prior, state.precision)

    def _weights_likelihood(self, state: State, left: Array) -> tuple[list[Diagonal], Array | None]:
        """The likelihood of the weights of every function, and the slopes G = Q Bᵀ of the coupled sources. left: Q."""
        assert isinstance(self.engine, FeatureEngine)
        if not len(state.rows.projected):
            return [self.engine.diagonal(s) for s in state.statistics], None
        coupled = left[state.rows.position >= 0]
        slope = coupled @ state.rows.projected
        return [self._with_sources_marginalised(state, coupled[:, f], slope, f) for f in range(slope.shape[1])], slope

    def _with_sources_marginalised(self, state: State, left: Array, slope: Array, f: int) -> Diagonal:
        """The likelihood of function f's weights with the coupled sources marginalised: B Q Bᵀ is subtracted."""
        assert isinstance(self.engine, FeatureEngine)
        m = self.engine.size
        half = np.linalg.cholesky(left).swapaxes(-1, -2) @ state.rows.projected[:, f]
        half, G = half.reshape(-1, m), slope[:, f].reshape(-1, m)
        d, V = self.engine.eigen(state.statistics[f], lost=half)  # HᵀH = B Q Bᵀ
        kept = np.maximum(d, 0.0)  # no direction is more uncertain than under the prior
        coupled = state.rows.position >= 0
        answer = V @ ((kept - d) * (V.T @ state.centre[f])) - half.T @ (half @ state.centre[f])
        pull = G.T @ state.rows.gradient[coupled, f].ravel()
        b = state.statistics[f].linear + state.length * answer + pull
        return Diagonal(kept, V.T @ b, V, LostInformation(half, kept - d))

    def _posterior(
        self, state: State, left: Array, fields: Sequence[Field], linear: Sequence[Array], slope: Array | None
    ) -> Posterior:
        """The joint q of sources and field. left: the covariance of the logits given the field."""
        layout, r = self.layout, state.rows
        move = np.einsum("sfde,sfe->sfd", left, r.gradient)
        slope = np.zeros((0, *r.projected.shape[1:])) if slope is None else slope
        coupled, shared, added = r.position >= 0, np.empty_like(slope), np.zeros_like(left)
        for f, field in enumerate(fields if len(slope) else ()):
            assert isinstance(field, FeatureField)
            G, prior = slope[:, f], layout.block(rows.of_dirichlet(state.alpha0[coupled])[1])[:, f]
            answer = (G.reshape(-1, G.shape[-1]) @ field.covariance).reshape(G.shape)
            through_field = np.einsum("sdm,sem->sde", answer, G)
            kept = rows.share_that_may_be_added(prior, through_field)
            slope[:, f], shared[:, f], added[coupled, f] = kept * G, kept * answer, kept**2 * through_field
            move[coupled, f] += slope[:, f] @ (field.mean - state.centre[f])
        position = r.position if len(slope) else np.full(len(left), -1, dtype=np.int64)
        logits, covariance = r.logits + layout.unstack(move), layout.unblock(left + added)
        moments = rows.moments(logits, covariance)
        return Posterior(
            state.alpha0,
            logits,
            covariance,
            moments,
            layout.directions(moments.pi),
            left,
            slope,
            shared,
            position,
            tuple(fields),
            Gamma(1.0, 1.0 / fields[0].scale.geometric_mean),
            tuple(linear),
        )

    # --- the next state --------------------------------------------------------------------------------------------

    def step(self, at: Evaluated, length: float) -> State:
        """Newton's step from a q, or a part of it."""
        state, q, sums = at.state, at.q, at.sums
        state = self._with_communities(state, q.moments.log_pi, sums, length)
        alpha0 = state.alpha0
        prior = self.layout.block(alpha0.sum(-1)[..., None, None] * q.moments.fisher)
        reports = self.layout.block(sums.counts.sum(-1)[..., None, None] * q.moments.fisher)
        h = q.directions
        reports -= np.einsum("slf,sfld,sfle->sfde", sums.missing, h, h)
        gradient = self._gradient(alpha0, q, sums)
        farthest = np.abs(np.einsum("sfde,sfe->sfd", rows.covariance_of(prior, reports), gradient)).max(-1, initial=0.0)
        gradient *= np.minimum(1.0, FARTHEST_MOVE / np.maximum(farthest, 1e-12))[..., None]

        def mixed(old: Array, new: Array) -> Array:
            return (1.0 - length) * old + length * new

        projected = state.rows.projected
        if len(projected):
            labels, coupled = h.shape[2], q.position >= 0
            B = sums.projected.reshape(len(projected), labels, *sums.projected.shape[1:])
            projected = mixed(projected, np.einsum("sfld,slfm->sfdm", h[coupled], B))
        new_rows = Rows(
            q.logits,
            mixed(state.rows.prior, prior),
            mixed(state.rows.reports, reports),
            length * gradient,
            projected,
            state.rows.position,
        )
        return state._replace(
            rows=new_rows,
            statistics=tuple(self._mixed_statistics(at, f, length) for f in range(len(q.fields))),
            centre=tuple(_weights(f) for f in q.fields),
            length=length,
            precision=float(np.exp(mixed(np.log(state.precision), np.log(q.scale.mean)))),
        )

    def _gradient(self, alpha0: Array, q: Posterior, sums: Sums) -> Array:
        """Gradient of the objective in the logits, including the derivative of Var(x).

        Var(x) depends on the logits through h = e_c − E[π], and ∂E[π]/∂v is the Fisher information.   [S, F, d]
        """
        alpha, fisher = alpha0 + sums.counts, q.moments.fisher
        counted = alpha[..., 1:] - alpha.sum(-1, keepdims=True) * q.moments.pi[..., 1:]
        answer = np.einsum("sfde,sfle,slf->sfd", q.left, q.directions, sums.missing)
        if len(q.slope):
            answer[q.position >= 0] += np.einsum("sfdm,sfm->sfd", q.shared, sums.shifted)
        by_row = self.layout.unstack(answer, signed=True)
        return self.layout.stack(counted - np.einsum("sjde,sje->sjd", fisher, by_row))

    def _mixed_statistics(self, at: Evaluated, f: int, length: float) -> Statistics:
        """The statistics of function f after a step of this length."""
        old, new = at.state.statistics[f], at.sums.statistics[f]
        mixed = replace(old, linear=at.q.linear[f]).towards(new, length)
        if length == 1.0 or not len(at.q.slope) or not isinstance(self.engine, FeatureEngine):
            return mixed
        # Newton's step from the centre with the mixed curvature, not with the new one alone.
        gram, w = self.engine.basis.gram, at.q.fields[f].mean  # type: ignore[attr-defined]
        more = length * ((gram(mixed.quadratic) - gram(new.quadratic)) @ w)
        return replace(mixed, linear=mixed.linear + more)

    def _with_communities(self, state: State, log_pi: Array, sums: Sums | None, length: float = 1.0) -> State:
        """Communities from everybody's expected counts, and every source's prior from the communities."""
        if state.communities is None or self.base is None:
            return state
        found = state.communities
        if sums is not None:
            found = communities_.part_way(found, communities_.update(found, sums.counts, self.base), length)
        return state._replace(communities=found, alpha0=communities_.expected_alpha0(found, log_pi, self.alpha0))

    # --- states as vectors -----------------------------------------------------------------------------------------

    pack, unpack, readout = staticmethod(pack), staticmethod(unpack), staticmethod(readout)

    # --- how far a step went ---------------------------------------------------------------------------------------

    def change(self, old: Evaluated, new: Evaluated) -> float:
        """The largest change of state probabilities, confusion matrices and, with less weight, the scale.

        Probabilities count four times: around even odds, where it matters, that is the change of the log odds.
        """
        rho = np.abs(new.sums.probe - old.sums.probe).max(initial=0.0)
        log_scale = abs(np.log(new.q.scale.mean / old.q.scale.mean))
        pi = np.abs(new.q.moments.pi - old.q.moments.pi).max(initial=0.0)
        return float(max(4.0 * rho, 0.1 * log_scale, pi))

    def direction(self, old: Evaluated, new: Evaluated) -> Array:
        return np.concatenate([_weights(b) - _weights(a) for a, b in zip(old.q.fields, new.q.fields, strict=True)])


def _weights(field: Field) -> Array:
    """The field's mean in the engine's own coordinates."""
    return np.asarray(getattr(field, "mean", field.readout))
