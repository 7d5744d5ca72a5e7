"""Sites on the workers: one sweep over all of them is a task for each partition, and a sum."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crowdfield.distributed.reading import hold
from crowdfield.inference import vb
from crowdfield.inference.data import Data, Prior
from crowdfield.inference.fields.base import Array, Basis, Engine, FeatureEngine, FeatureField
from crowdfield.inference.fields.iterative import IterativeEngine
from crowdfield.models import learning, problem

if TYPE_CHECKING:
    from distributed import Client, Future


@dataclass
class Partitions:
    """Sites on the workers, and q(t) of their last sweep."""

    client: Client
    sites: list[Future]  # of vb.Sites
    scheme: vb.Scheme
    r: list[Future] | list[None]  # of list[Array]; None before the first sweep

    @classmethod
    def laid_out(
        cls, client: Client, data: list[Future], sizes: list[int], posed: problem.Posed, engine: Engine
    ) -> Partitions:
        bare = Prior(np.empty(0), posed.prior.shape, posed.prior.rate, np.empty(0))  # q brings the rest along
        layout = client.submit(hold, (type(engine), engine.basis, posed.mean_at, bare), pure=False)  # type: ignore[attr-defined]
        first = np.concatenate([[0], np.cumsum(sizes)])
        sites = [client.submit(_sites, d, layout, int(first[i]), int(first[-1])) for i, d in enumerate(data)]
        return cls(client, sites, posed.scheme, [None] * len(sites))

    def sweep(self, q: vb.Posterior, foreign: bool) -> vb.Summary:
        light = q if foreign else q._replace(fields=tuple(map(_light, q.fields)))
        sent = self.client.submit(hold, light, pure=False)
        # Only where t is summed out does a sweep look at the r of the last one.
        before = self.r if self.scheme.integrates_scale else [None] * len(self.sites)
        swept = [
            self.client.submit(_sweep, s, sent, self.scheme, foreign, r, pure=False)
            for s, r in zip(self.sites, before, strict=True)
        ]
        self.r = [self.client.submit(itemgetter(1), s) for s in swept]
        summaries: list[vb.Summary] = self.client.gather([self.client.submit(itemgetter(0), s) for s in swept])
        total = summaries[0]
        for summary in summaries[1:]:  # in the order of the partitions, so that equal inputs give equal sums
            total = total + summary
        return total

    def targets(self) -> Array:
        """q(t) at all sites, in the order of their places: [N, J]."""
        return np.concatenate([np.concatenate(r) for r in self.client.gather(self.r)])

    def write(self, directory: str, places: list[str], states: list[str]) -> None:
        tasks = [
            self.client.submit(_write, s, r, f"{directory}/part.{i:05d}.parquet", places, states, pure=False)
            for i, (s, r) in enumerate(zip(self.sites, self.r, strict=True))
        ]
        self.client.gather(tasks)


class Folded(NamedTuple):
    """As much of a field as its moments at sites need: what travels."""

    folded: Any


def _light(field: Any) -> Any:
    return Folded(field.folded) if isinstance(field, FeatureField) else field


def region_engine(sample: problem.Posed, corners: Array) -> Engine:
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


def sample(client: Client, posed: problem.Posed, data: list[Future], sizes: list[int]) -> problem.Posed:
    """The problem on the very sites on which one process would search for the length-scale."""
    total = sum(sizes)
    most = learning.SEARCH_SITES
    kept = np.arange(total)
    if total > most:
        kept = np.sort(posed.rng().choice(total, most, replace=False))
    first = np.concatenate([[0], np.cumsum(sizes)])
    ends = np.searchsorted(kept, first)
    tasks = [client.submit(_chosen, d, kept[ends[i] : ends[i + 1]] - first[i], pure=False) for i, d in enumerate(data)]
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
        else np.concatenate([np.ones((len(p.site), 2), np.int32) if p.repeats is None else p.repeats for p in parts]),
    )
    return replace(posed, data=whole, prior=posed.prior._replace(mean=posed.mean_at(whole.X)))


def n_sites(data: Data) -> int:
    return data.n_sites


def _chosen(data: Data, sites: NDArray[np.int64]) -> Data:
    return learning.at_sites(data, sites)


def _sites(data: Data, layout: tuple[type, Basis, problem.LatentMean, Prior], first: int, total: int) -> vb.Sites:
    kind, basis, mean_at, prior = layout
    return vb.Sites(data, prior._replace(mean=mean_at(data.X)), _engine_of(kind, basis, data.X), first, total)


def _sweep(
    sites: vb.Sites, q: vb.Posterior, scheme: vb.Scheme, foreign: bool, r: list[Array] | None
) -> tuple[vb.Summary, list[Array]]:
    mine = copy.copy(sites)  # a sweep notes r; what Dask holds must stay as it was
    mine.r = [None] * len(sites.blocks) if r is None else list(r)
    summary = vb.sweep(mine, q, scheme, foreign)
    return summary, [r_ for r_ in mine.r if r_ is not None]


def _write(sites: vb.Sites, r: list[Array], path: str, places: list[str], states: list[str]) -> None:
    import fsspec

    frame = pd.DataFrame(np.hstack([sites.data.X, np.concatenate(r)]), columns=[*places, *states])
    with fsspec.open(path, "wb", auto_mkdir=True) as file:
        frame.to_parquet(file, index=False)
