"""The paper's incremental train/test procedure, once for all experiments.

Subsets of the reports grow; at every size all methods see the same reports and are judged at the same places. One cell
is one method on one subset. Cells run in parallel, and each result is appended to a file of JSON lines as it comes, so
that a run may be stopped at any point, even by kill −9, and taken up again: a finished cell is never run twice.
"""

import json
import os
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import asdict, dataclass
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from crowdfield import __version__, metrics
from crowdfield.data import Reports
from crowdfield.errors import CrowdfieldError

Progress = Callable[[int, int, str], None]
METRICS = ("auc", "cross_entropy", "nlpd", "nlpd_own", "calibration_error", "seconds")
BINS = 10


@dataclass(frozen=True)
class Problem:
    """Reports in the order in which they arrive, and what is known at the test places.

    truth [M]: the probability of the positive state, or the state as 0/1. rho [M]: the true rate, where it is known.
    ranked: whether an AUC has a meaning, which it has not when all of the truth is one state.
    """

    reports: Reports
    places: NDArray[np.float64]
    truth: NDArray[np.float64]
    rho: NDArray[np.float64] | None = None
    ranked: bool = True


@dataclass(frozen=True)
class Cell:
    """One method on one subset. All of it together is the key under which its result is kept."""

    experiment: str
    setting: str
    repeat: int
    n: int
    method: str
    seed: int
    version: str = __version__


@dataclass(frozen=True)
class Plan:
    """An experiment: which settings, how often, at which sizes, with which methods.

    problem(setting, rng) draws a data set; methods(setting) are estimators' makers by name; both must be functions of a
    module, for they travel to other processes. only: methods that are run at some sizes alone, because they are slow.
    """

    name: str
    settings: tuple[str, ...]
    repeats: int
    sizes: tuple[int, ...]
    problem: Callable[[str, np.random.Generator], Problem]
    methods: Callable[[str], Mapping[str, Callable[[], Any]]]
    only: Mapping[str, tuple[int, ...]]

    def evaluate(self, cell: Cell) -> dict[str, Any]:
        """Fit and judge one cell: a row of the results."""
        return evaluate(self, cell)

    def cells(self, seed: int) -> list[Cell]:
        """All cells, in an order that keeps those of one data set together."""
        return [
            Cell(self.name, setting, repeat, n, method, seed)
            for repeat in range(self.repeats)
            for setting in self.settings
            for n in self.sizes
            for method in self.methods(setting)
            if n in self.only.get(method, self.sizes)
        ]


class Store:
    """Results as JSON lines. A torn last line, all that a killed process can leave, is dropped."""

    def __init__(self, path: Path):
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        whole = path.read_bytes() if path.exists() else b""
        end = whole.rfind(b"\n") + 1
        if end < len(whole):
            os.truncate(path, end)
        self.rows: list[dict[str, Any]] = [json.loads(line) for line in whole[:end].splitlines() if line.strip()]

    def done(self) -> set[Cell]:
        """Cells that have a result; one that failed is not among them, and runs again."""
        names = Cell.__dataclass_fields__
        return {Cell(**{name: row[name] for name in names}) for row in self.rows if "error" not in row}

    def append(self, row: dict[str, Any]) -> None:
        """One write of one whole line, on the disk before the next cell counts as done."""
        line = (json.dumps(row, allow_nan=False) + "\n").encode()
        with open(self.path, "ab", buffering=0) as file:
            file.write(line)
            os.fsync(file.fileno())
        self.rows.append(row)

    def table(self) -> pd.DataFrame:
        """One row per cell, sorted: the same however often a run was interrupted. The last result of a cell counts."""
        names = list(Cell.__dataclass_fields__)
        if not self.rows:
            return pd.DataFrame(columns=[*names, *METRICS])
        frame = pd.DataFrame(self.rows).drop_duplicates(names, keep="last")
        return frame.sort_values(names).reset_index(drop=True)


def run(
    plans: Iterable[Plan], store: Store, *, seed: int = 0, jobs: int = 1, progress: Progress | None = None
) -> pd.DataFrame:
    """Run what is not done yet, and give the table of all cells of these plans."""
    by_name = {plan.name: plan for plan in plans}
    wanted = [cell for plan in by_name.values() for cell in plan.cells(seed)]
    finished = store.done()
    todo = [cell for cell in wanted if cell not in finished]
    count = len(wanted) - len(todo)
    if progress:
        progress(count, len(wanted), "resuming" if count else "starting")
    for cell, row in _results(by_name, todo, jobs):
        store.append(row)
        count += 1
        if progress:
            progress(count, len(wanted), f"{cell.experiment} · {cell.setting} · n = {cell.n} · {cell.method}")
    table, keys = store.table(), set(wanted)
    names = list(Cell.__dataclass_fields__)
    mine = [Cell(*values) in keys for values in table[names].itertuples(index=False, name=None)]
    return table[mine].reset_index(drop=True)


def _results(plans: Mapping[str, Plan], todo: list[Cell], jobs: int) -> Iterator[tuple[Cell, dict[str, Any]]]:
    if jobs <= 1 or len(todo) <= 1:
        for cell in todo:
            yield cell, plans[cell.experiment].evaluate(cell)
        return
    # Spawned, not forked: a fork copies threads' locks of the numerical libraries in whatever state they are.
    pool = ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_one_thread_each)
    try:
        waiting: dict[Future[dict[str, Any]], Cell] = {}
        queue = iter(todo)
        while True:
            # A short queue keeps neighbouring cells on the data set that a process has at hand.
            while len(waiting) < 2 * jobs and (new := next(queue, None)) is not None:
                waiting[pool.submit(plans[new.experiment].evaluate, new)] = new
            if not waiting:
                break
            ready, _ = wait(waiting, return_when=FIRST_COMPLETED)
            for future in ready:
                yield waiting.pop(future), future.result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _one_thread_each() -> None:
    threadpool_limits(1)


@lru_cache(maxsize=4)
def _problem(make: Callable[[str, np.random.Generator], Problem], key: tuple[str, str, int, int]) -> Problem:
    experiment, setting, repeat, seed = key
    return make(setting, np.random.default_rng([seed, repeat, crc32(f"{experiment} {setting}".encode())]))


def evaluate(plan: Plan, cell: Cell) -> dict[str, Any]:
    """Fit and judge one method on one subset: a row of the results."""
    problem = _problem(plan.problem, (cell.experiment, cell.setting, cell.repeat, cell.seed))
    subset = problem.reports.take(np.arange(min(cell.n, len(problem.reports))))
    y = np.asarray(subset.labels)[subset.label]
    sources = np.asarray(subset.sources)[subset.source]
    row: dict[str, Any] = asdict(cell)
    start = time.perf_counter()
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = plan.methods(cell.setting)[cell.method]().fit(subset.places, y, sources)
            row |= judge(model, problem)
    except CrowdfieldError as problem_found:
        return row | {"error": f"{type(problem_found).__name__}: {problem_found}"}
    row["seconds"] = round(time.perf_counter() - start, 3)
    if caught:
        row["warnings"] = sorted({str(w.message) for w in caught})
    lengthscale = getattr(model, "lengthscale_", None)
    if lengthscale is not None:
        row["lengthscale"] = np.round(np.atleast_1d(lengthscale), 4).tolist()
    return row


def judge(model: Any, problem: Problem) -> dict[str, Any]:
    """All figures that have a meaning for this model on this problem."""
    positive = list(model.classes_).index(1)
    p = model.predict_proba(problem.places)[:, positive]
    out: dict[str, Any] = {}
    if problem.ranked:
        out["auc"] = metrics.auc(problem.truth > 0.5, p)
    out["cross_entropy"] = metrics.cross_entropy(problem.truth, p)
    diagram = metrics.reliability(problem.truth, p, bins=BINS)
    out["calibration_error"] = diagram.error
    # Sums, not means, so that repeats can be pooled.
    out["reliability"] = [
        [round(float(v), 6) for v in np.nan_to_num(part * diagram.count)]
        for part in (diagram.predicted, diagram.observed)
    ] + [diagram.count.tolist()]
    if problem.rho is not None and hasattr(model, "predict_rate"):
        mean, sd = model.predict_rate(problem.places)
        out["nlpd"] = metrics.nlpd_beta(problem.rho, mean[:, positive], sd[:, positive] ** 2)
        f, variance = model.predict_latent(problem.places)
        if f.shape[1] == 1:
            out["nlpd_own"] = metrics.nlpd_logit_normal(problem.rho, f[:, 0], variance[:, 0])
    return out


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """Median and quartiles over the repeats, for every setting, size, method and metric (long form)."""
    return _quartiles(_long(table), ["experiment", "setting", "n", "method", "metric"])


def differences(table: pd.DataFrame, reference: str) -> pd.DataFrame:
    """How much better `reference` is than each other method on the same subsets: median and quartiles.

    Positive is better for every metric: AUC is reference − other, where lower is better it is other − reference.
    """
    long = _long(table)
    keys = ["experiment", "setting", "repeat", "n", "metric"]
    mine = long[long.method == reference].set_index(keys)["value"]
    others = long[long.method != reference].join(mine.rename("reference"), on=keys).dropna(subset=["reference"])
    sign = np.where(others.metric == "auc", 1.0, -1.0)
    others = others.assign(value=sign * (others.reference - others.value))
    return _quartiles(others, ["experiment", "setting", "n", "method", "metric"])


def pooled_reliability(table: pd.DataFrame) -> pd.DataFrame:
    """Reliability diagrams over all repeats: predicted, observed and count for every method and bin."""
    rows = []
    kept = table.dropna(subset=["reliability"]) if "reliability" in table else table.iloc[:0]
    for (experiment, setting, n, method), group in kept.groupby(["experiment", "setting", "n", "method"]):
        predicted, observed, count = np.sum([np.array(cell, dtype=float) for cell in group.reliability], axis=0)
        for b in np.flatnonzero(count):
            shares = (predicted[b] / count[b], observed[b] / count[b], int(count[b]))
            rows.append((experiment, setting, n, method, int(b), *shares))
    columns = ["experiment", "setting", "n", "method", "bin", "predicted", "observed", "count"]
    return pd.DataFrame(rows, columns=columns)


def _long(table: pd.DataFrame) -> pd.DataFrame:
    present = [name for name in METRICS if name in table]
    keys = ["experiment", "setting", "repeat", "n", "method"]
    long = table.melt(id_vars=keys, value_vars=present, var_name="metric", value_name="value")
    return long.dropna(subset=["value"]).astype({"value": float})


def _quartiles(long: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    grouped = long.groupby(keys, sort=True)["value"]
    out = grouped.quantile(np.array([0.25, 0.5, 0.75])).unstack()
    out.columns = ["lower", "median", "upper"]
    return out.assign(repeats=grouped.size()).reset_index()
