"""Every experiment of the paper, by one call.

    from crowdfield.experiments import reproduce
    page = reproduce(["all"], Path("results"), quick=True, jobs=2)

Results are kept in `results.jsonl` in the output folder as they come: a run that was stopped goes on where it was.
"""

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from crowdfield import __version__, datasets
from crowdfield.errors import DataUnavailableError, InputError
from crowdfield.experiments import haiti, real, real_report, report, synthetic, tacloban
from crowdfield.experiments.protocol import Plan, Progress, Store, run

__all__ = ["EXPERIMENTS", "REAL", "reproduce"]

EXPERIMENTS = ("synthetic", "tacloban", "haiti")  # of the paper: "all"
REAL = "real"  # beside them, as its data must be put in place by hand


def reproduce(
    names: Sequence[str],
    output: str | Path,
    *,
    quick: bool = False,
    seed: int = 0,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> Path:
    """Run experiments and write figures, tables and a page.

    Parameters
    ----------
    names : sequence of str
        Of EXPERIMENTS, or "all". REAL is run by itself and has a page of its own.
    output : path
        The folder; results in it are kept, and a run that was stopped continues.
    quick : bool, default=False
        A small honest version; its cells are cells of the full run too.
    seed : int, default=0
        Of all data sets.
    jobs : int, optional
        Processes; by default one per core.
    progress : callable, optional
        Called with cells done, cells in all, and a text.

    Returns
    -------
    pathlib.Path
        The page.

    Examples
    --------
    >>> import crowdfield as cf
    >>> page = cf.experiments.reproduce(["synthetic"], "results", quick=True)  # doctest: +SKIP
    """
    if REAL in names:
        if set(names) != {REAL}:
            raise InputError("run real by itself: it has a page of its own.")
        return _real(Path(output), quick=quick, seed=seed, jobs=jobs, progress=progress)
    chosen = EXPERIMENTS if "all" in names else tuple(dict.fromkeys(names))
    unknown = [name for name in chosen if name not in EXPERIMENTS]
    if unknown or not chosen:
        raise InputError(f"unknown experiment {unknown!r}: choose of {', '.join(EXPERIMENTS)}, or all.")
    _data_at_hand(chosen)
    folder = Path(output)
    store = Store(folder / "results.jsonl")
    table = run(_plans(chosen, quick), store, seed=seed, jobs=jobs or os.cpu_count() or 1, progress=progress)
    maps: dict[str, dict[str, NDArray[np.float64]]] = {}
    if "synthetic" in chosen:
        maps["case study"] = _kept(folder / f"case-study-{seed}-{__version__}.npz", partial(synthetic.case_study, seed))
    if "haiti" in chosen:
        maps["responder"] = _kept(folder / f"responder-{__version__}.npz", haiti.responder)
    options = " --quick" if quick else ""
    command = f"crowdfield reproduce {' '.join(names)}{options} --seed {seed} --output DIR"
    return report.write(table, maps, folder, command=command)


def _real(folder: Path, *, quick: bool, seed: int, jobs: int | None, progress: Progress | None) -> Path:
    plan = real.plan(quick)
    if not plan.settings:
        raise DataUnavailableError(
            "none of the real crowds is there. Put their files into a folder and name it with --data or "
            "CROWDFIELD_DATA; docs/experiments.md says which, and where they come from."
        )
    table = run([plan], Store(folder / "real.jsonl"), seed=seed, jobs=jobs or 1, progress=progress)
    options = " --quick" if quick else ""
    return real_report.write(table, folder, command=f"crowdfield reproduce real{options} --seed {seed} --output DIR")


def _data_at_hand(chosen: Sequence[str]) -> None:
    """Ask for the data before an hour of work, not after it."""
    if "tacloban" in chosen:
        datasets.tacloban()
    if "haiti" in chosen:
        datasets.haiti()
        datasets.unosat()


def _plans(chosen: Sequence[str], quick: bool) -> list[Plan]:
    plans = []
    if "synthetic" in chosen:
        plans.append(synthetic.plan(quick))
    if "tacloban" in chosen:
        plans.append(tacloban.plan(quick))
    if "haiti" in chosen:
        plans += [haiti.plan(quick), haiti.lengthscale_plan(quick)]
    return plans


def _kept(path: Path, make: Callable[[], dict[str, NDArray[np.float64]]]) -> dict[str, NDArray[np.float64]]:
    """Maps from an earlier run, or made now and written whole or not at all."""
    if not path.exists():
        part = path.with_suffix(".part.npz")
        np.savez_compressed(part, allow_pickle=False, **make())
        os.replace(part, path)
    with np.load(path, allow_pickle=False) as kept:
        return {name: kept[name] for name in kept.files}
