"""How long reading a plain table takes, against pandas.read_csv:  python -m benchmarks.reading [ROWS]"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from crowdfield import io


def table(path: Path, rows: int, sources: int = 1000) -> None:
    rng = np.random.default_rng(0)
    with path.open("w", encoding="utf-8", newline="") as file:
        for first in range(0, rows, 10**6):
            n = min(10**6, rows - first)
            stamps = pd.to_datetime(1_263_312_000 + rng.integers(0, 10**6, n), unit="s")
            frame = pd.DataFrame(
                {
                    "source": np.char.add("user", rng.integers(0, sources, n).astype(str)),
                    "lat": np.round(rng.uniform(18, 19, n), 6),
                    "lon": np.round(rng.uniform(-73, -72, n), 6),
                    "label": rng.integers(0, 2, n),
                    "time": stamps.strftime("%Y-%m-%dT%H:%M:%SZ"),
                }
            )
            frame.to_csv(file, index=False, header=first == 0)


def best(job: Callable[[], object], times: int = 3) -> tuple[float, float]:
    """(seconds, seconds of CPU) of the fastest run."""
    runs = []
    for _ in range(times):
        wall, cpu = time.perf_counter(), time.process_time()
        job()
        runs.append((time.perf_counter() - wall, time.process_time() - cpu))
    return min(wall for wall, _ in runs), min(cpu for _, cpu in runs)


def main(rows: int = 10**6) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "reports.csv"
        table(path, rows)
        print(f"{rows:,} rows, {path.stat().st_size / 1e6:.0f} MB")
        ours = best(lambda: io.read(path))
        # Ours first: the peak is the whole process's, and pandas keeps all columns at once.
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        theirs = best(lambda: pd.read_csv(path))
    print(f"crowdfield.io.read  {ours[0]:6.2f} s, {ours[1]:6.2f} s of CPU, peak {memory:.2f} GB")
    print(f"pandas.read_csv     {theirs[0]:6.2f} s, {theirs[1]:6.2f} s of CPU")
    print(f"ratio               {ours[0] / theirs[0]:6.2f}    {ours[1] / theirs[1]:6.2f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10**6)
