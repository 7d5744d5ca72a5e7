"""Sites on the workers: one sweep over all of them is a task for each partition, and a sum."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crowdfield.distributed.reading import hold
from crowdfield.inference import lengthscale_selection
from crowdfield.inference.data import Data, Prior
from crowdfield.inference.fields.base import Array, Engine
from crowdfield.inference.fields.basis import Basis
from crowdfield.inference.fields.features import FeatureEngine, FeatureField
from crowdfield.inference.fields.iterative import IterativeEngine
from crowdfield.inference.posed import Draw, LatentMean, Posed, at_sites, draw, first_turns
from crowdfield.inference.sites import Sites

if TYPE_CHECKING:
    from distributed import Client, Future


@dataclass(frozen=True)
class Partitions:
    """Sites on the workers, and nothing that changes from sweep to sweep."""

    client: Client
    sites: list[Future]  # of Sites

    @classmethod
    def laid_out(cls, client: Client, data: list[Future], sizes: list[int], posed: Posed, engine: Engine) -> Partitions:
        """Make the sites of every partition on the worker that has its reports."""
        bare = Prior(np.empty(0), posed.prior.shape, posed.prior.rate, np.empty(0))  # q brings the rest along
        layout = client.submit(hold, (type(engine), engine.basis, posed.mean_at, bare), pure=False)  # type: ignore[attr-defined]
        first = np.concatenate([[0], np.cumsum(sizes)])
        sites = [client.submit(_sites, d, layout, int(first[i]), int(first[-1])) for i, d in enumerate(data)]
        return cls(client, sites)

    def total(self, one: Callable[[Sites, Any], Any], q: Any) -> Any:
        """The sum over all partitions of a function of sites and q."""
        # In the order of the partitions, so that equal inputs give equal sums.
        return reduce(add, self.client.gather(self._each(one, q)))

    def _each(self, one: Callable[[Sites, Any], Any], q: Any) -> list[Future]:
        sent = self.client.submit(hold, q._replace(fields=tuple(map(_light, q.fields))), pure=False)
        return [self.client.submit(one, sites, sent, pure=False) for sites in self.sites]

    def targets(self, responsibilities: Callable[[Sites, Any], Array], q: Any) -> Array:
        """q(t) at all sites, in the order of their places: [N, J]."""
        return np.concatenate(self.client.gather(self._each(responsibilities, q)))

    def write(
        self,
        responsibilities: Callable[[Sites, Any], Array],
        q: Any,
        directory: str,
        places: list[str],
        states: list[str],
    ) -> None:
        tasks = [
            self.client.submit(_write, sites, r, f"{directory}/part.{i:05d}.parquet", places, states, pure=False)
            for i, (sites, r) in enumerate(zip(self.sites, self._each(responsibilities, q), strict=True))
        ]
        self.client.gather(tasks)


class Folded(NamedTuple):
    """The part of a field that is needed for its moments at sites, which is sent to the workers."""

    folded: Any


def _light(field: Any) -> Any:
    return Folded(field.folded) if isinstance(field, FeatureField) else field  # others are asked for places themselves


def region_engine(sample: Posed, corners: Array) -> Engine:
    """The engine of the whole region: Fourier features depend on the places through their bounding box alone."""
    name = sample.engine_name
    if name == "auto":
        name = "spectral" if corners.shape[1] <= 3 else "inducing"
    around = replace(sample, engine_name=name, data=sample.data._replace(X=np.concatenate([sample.data.X, corners])))
    return around.engine()


def moved(engine: Engine, X: Array) -> Engine:
    """An engine with the same basis at other places."""
    return _engine_of(type(engine), engine.basis, X)  # type: ignore[attr-defined]


def _engine_of(kind: type, basis: Basis, X: Array) -> Engine:
    return IterativeEngine(basis, X) if kind is IterativeEngine else FeatureEngine(basis, X)  # type: ignore[arg-type]


def sample(client: Client, posed: Posed, data: list[Future], sizes: list[int]) -> Posed:
    """The problem on a sample of sites, the same on which a single process learns the length-scale."""
    total, most = sum(sizes), lengthscale_selection.SEARCH_SITES
    drawn = Draw(np.arange(total), np.ones(posed.data.n_sources, dtype=bool))
    if total > most:
        rng = posed.rng()
        turn = rng.permutation(posed.data.n_sources)
        turns = client.gather([client.submit(first_turns, d, turn, pure=False) for d in data])
        drawn = draw(np.concatenate(turns), turn, most, rng)
    first = np.concatenate([[0], np.cumsum(sizes)])
    ends = np.searchsorted(drawn.sites, first)
    own = [drawn.sites[ends[i] : ends[i + 1]] - first[i] for i in range(len(data))]
    tasks = [client.submit(_chosen, d, sites, drawn.sources, pure=False) for d, sites in zip(data, own, strict=True)]
    parts: list[Data] = client.gather(tasks)
    offset = np.concatenate([[0], np.cumsum([p.n_sites for p in parts])])
    repeats = [p.repeats for p in parts]
    whole = parts[0]._replace(
        X=np.concatenate([p.X for p in parts]),
        site=np.concatenate([p.site + np.int32(offset[i]) for i, p in enumerate(parts)]),
        source=np.concatenate([p.source for p in parts]),
        label=np.concatenate([p.label for p in parts]),
        known=np.concatenate([p.known for p in parts]),
        repeats=None
        if all(r is None for r in repeats)
        else np.concatenate([np.ones(len(p.site), np.int32) if p.repeats is None else p.repeats for p in parts]),
    )
    return replace(posed, data=whole, prior=posed.prior._replace(mean=posed.mean_at(whole.X)))


def n_sites(data: Data) -> int:
    """The number of sites of a partition."""
    return data.n_sites


def _chosen(data: Data, sites: NDArray[np.int64], sources: NDArray[np.bool_]) -> Data:
    return at_sites(data, sites, sources[data.source])


def _sites(data: Data, layout: tuple[type, Basis, LatentMean, Prior], first: int, total: int) -> Sites:
    kind, basis, mean_at, prior = layout
    return Sites(data, prior._replace(mean=mean_at(data.X)), _engine_of(kind, basis, data.X), first, total)


def _write(sites: Sites, r: Array, path: str, places: list[str], states: list[str]) -> None:
    write_places(sites.data.X, r, path, places, states)


def write_places(X: Array, r: Array, path: str, places: list[str], states: list[str]) -> None:
    """State probabilities r [n, J] of places X [n, D] as a Parquet file."""
    import fsspec

    frame = pd.DataFrame(np.hstack([X, r]), columns=[*places, *states])
    with fsspec.open(path, "wb", auto_mkdir=True) as file:
        frame.to_parquet(file, index=False)
