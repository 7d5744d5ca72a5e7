"""Time to read plain tables of many kinds, against pandas.read_csv:  python -m benchmarks.reading [ROWS] [KIND …]

Processor time. Both read the same columns of the same file, in turns; ratios are medians of those of single turns.
Where there are times, pandas is measured without reading them (they stay text) and with (``parse_dates``). We always
read them.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from crowdfield import io

ISO, LOCAL, DAY_FIRST = "%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%d %H:%M:%S", "%d/%m/%Y %H:%M"
RUNS = 7

# What differs from a plain table: source (text), lat, lon, label (text), cut at commas, without times.
KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "ISO times": {"time": ISO},
    "ISO times, numeric labels": {"time": ISO, "numeric_labels": True},
    "times without a zone": {"time": LOCAL},
    "times day first": {"time": DAY_FIRST},
    "times in seconds": {"time": "epoch"},
    "numeric labels": {"numeric_labels": True},
    "numeric sources and labels": {"numeric_labels": True, "numeric_sources": True},
    "semicolons, decimal commas": {"semicolons": True},
    "semicolons, decimal commas, ISO times": {"semicolons": True, "time": ISO},
    "gzip": {"gzip": True},
    "gzip, ISO times": {"gzip": True, "time": ISO},
    "1 % of latitudes empty": {"gaps": ""},
    "1 % of latitudes NA": {"gaps": "NA"},
    "an id per row": {"ids": True},
    "100,000 sources": {"sources": 10**5},
    # Hard ones: nearly every cell is different, or no shortcut for ASCII or for order applies.
    "ids in random order": {"ids": True, "shuffled": True},
    "100,000 sources with accents": {"sources": 10**5, "name": "Ünal "},
    "1,000,000 sources": {"sources": 10**6},
    "1,000,000 sources with UUIDs": {"sources": 10**6, "uuids": True},
    "1,000,000 sources of two kinds": {"sources": 10**6, "name": ["volunteer/", "telephone/"]},
    "times day first, all different": {"time": "%d/%m/%Y %H:%M:%S"},
}


def table(path: Path, rows: int, **kind: Any) -> None:
    rng = np.random.default_rng(0)
    semicolons = kind.get("semicolons", False)
    for first in range(0, rows, 10**6):
        frame = _rows(min(10**6, rows - first), first, rng, kind)
        frame.to_csv(
            path,
            index=False,
            header=first == 0,
            mode="w" if first == 0 else "a",
            sep=";" if semicolons else ",",
            decimal="," if semicolons else ".",
            compression="gzip" if kind.get("gzip") else None,
        )


def _rows(n: int, first: int, rng: np.random.Generator, kind: dict[str, Any]) -> pd.DataFrame:
    source: Any = rng.integers(0, kind.get("sources", 1000), n)
    label: Any = rng.integers(0, 2, n)
    frame = pd.DataFrame(
        {
            "source": source if kind.get("numeric_sources") else _names(source, kind),
            "lat": np.round(rng.uniform(18, 19, n), 6),
            "lon": np.round(rng.uniform(-73, -72, n), 6),
            "label": label if kind.get("numeric_labels") else np.array(["dry", "flooded"])[label],
        }
    )
    if (form := kind.get("time")) is not None:
        seconds = 1_263_312_000 + rng.integers(0, 10**6, n)
        frame["time"] = seconds if form == "epoch" else pd.to_datetime(seconds, unit="s").strftime(form)
    if "gaps" in kind:
        frame["lat"] = frame["lat"].astype(object).where(rng.random(n) > 0.01, kind["gaps"])
    if kind.get("ids"):
        ids = np.arange(first, first + n)
        frame.insert(0, "id", rng.permutation(ids) if kind.get("shuffled") else ids)
    return frame


def _names(source: np.ndarray, kind: dict[str, Any]) -> np.ndarray:
    if kind.get("uuids"):
        return np.array([str(uuid.UUID(int=number * _GOLDEN % 2**128)) for number in source.tolist()], dtype=object)
    return np.char.add(np.resize(kind.get("name", "user"), len(source)), source.astype(str))


_GOLDEN = 0x9E3779B97F4A7C15F39CC0605CEDC835  # 2¹²⁸ over the golden ratio: its multiples look like random UUIDs


def measure(*jobs: Callable[[], object]) -> np.ndarray:
    """Seconds of processor time: [RUNS, jobs]. The jobs take turns."""
    seconds = np.empty((RUNS, len(jobs)))
    for run in range(RUNS):
        for i, job in enumerate(jobs):
            start = time.process_time()
            job()
            seconds[run, i] = time.process_time() - start
    return seconds


def compare(path: Path, rows: int, **kind: Any) -> str:
    table(path, rows, **kind)
    how: dict[str, Any] = {"compression": "gzip" if kind.get("gzip") else None}
    how |= {"sep": ";", "decimal": ","} if kind.get("semicolons") else {}
    jobs: list[Callable[[], object]] = [lambda: io.read(path), lambda: pd.read_csv(path, **how)]
    form = kind.get("time")
    if form is not None and form != "epoch":
        jobs.append(lambda: pd.read_csv(path, **how, parse_dates=["time"], dayfirst=form.startswith("%d")))
    seconds = measure(*jobs)
    took = np.median(seconds, axis=0)
    times = np.median(seconds[:, :1] / seconds, axis=0)
    with_times = f"{took[2]:.2f} s | {times[2]:.1f}" if len(jobs) > 2 else "|"
    return f"{took[0]:.2f} s | {took[1]:.2f} s | {times[1]:.1f} | {with_times}"


def main(rows: int = 10**6, *kinds: str) -> None:
    print("| file | crowdfield | pandas | ratio | pandas with times | ratio |\n|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name in kinds or KINDS:
            print(f"| {name} | {compare(Path(folder) / 'reports.csv', rows, **KINDS[name])} |", flush=True)
    print(f"{rows:,} rows; peak memory of all {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10**6, *sys.argv[2:])
