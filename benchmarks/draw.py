"""The growth curves and the comparisons, as one picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt


def draw(results: list[dict[str, Any]], path: Path) -> None:
    figure, (time, memory, ratio) = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")
    done = [r for r in results if "seconds" in r]
    for case, label in (
        ("growth", "variational"),
        ("growth_collapsed", "collapsed"),
        ("learned", "length-scale learned"),
    ):
        rows = [r for r in done if r["case"] == case]
        sizes = [r["size"] for r in rows]
        time.loglog(sizes, [r["seconds"] for r in rows], "o-", label=label)
        memory.loglog(sizes, [r["peak_mb"] for r in rows], "o-", label=label)
    rows = [r for r in done if r["case"] == "authors" and r.get("their_seconds")]
    time.loglog([r["size"] for r in rows], [r["their_seconds"] for r in rows], "s--", label="the authors' code")
    memory.loglog([r["size"] for r in rows], [r["their_peak_mb"] for r in rows], "s--", label="the authors' code")
    time.set(xlabel="reports (authors: sites)", ylabel="seconds to convergence", title="time")
    memory.set(xlabel="reports", ylabel="peak MB of the process", title="memory")
    compared = [r for r in done if r.get("ratio")]
    # The authors' code cannot be installed: its seconds were measured before, on two cores.
    names = [f"{r['case']}{' (their figures)' if r['case'] == 'authors' else ''}\n{r['size']:,}" for r in compared]
    ratio.barh(names, [r["ratio"] for r in compared])
    ratio.axvline(1.0, color="black", linewidth=1)
    ratio.set(xscale="log", xlabel="their seconds / ours", title="against peers")
    for axes in (time, memory):
        if axes.get_legend_handles_labels()[0]:
            axes.legend()
        axes.grid(alpha=0.3)
    figure.savefig(path, dpi=130)
    plt.close(figure)
