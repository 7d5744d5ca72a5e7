"""The paper's figures, from our results: PNG and SVG."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg", force=False)
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crowdfield.experiments import haiti, synthetic, tacloban
from crowdfield.experiments.protocol import differences, pooled_reliability, summary

# Okabe and Ito's colours, which colour-blind readers can tell apart; a method keeps its colour in all figures.
COLOURS = {
    "HeatmapBCC": "#000000",
    "HeatmapBCC (communities)": "#D55E00",
    "HeatmapBCC (paper: EKF)": "#999999",
    "HeatmapBCC (VB)": "#666666",
    "HeatmapBCC (Gibbs)": "#CC79A7",
    "KDE": "#E69F00",
    "GP": "#56B4E9",
    "IBCC": "#009E73",
    "IBCC+GP": "#0072B2",
    "SVM": "#B8A300",
    "NN": "#A6611A",
    "MV": "#7F3C8D",
    "Dawid–Skene (crowd-kit)": "#4DAC26",
    "IBCC → GPBoost": "#D01C8B",
}
LABELS = {
    "auc": "AUC",
    "cross_entropy": "cross entropy (bits)",
    "nlpd": "NLPD of ρ (bits)",
    "calibration_error": "calibration error",
}
plt.rcParams["svg.hashsalt"] = "crowdfield"


def draw_all(table: pd.DataFrame, maps: dict[str, dict[str, NDArray[np.float64]]], folder: Path) -> list[str]:
    """Every figure that the results at hand allow; the names of the figures, without their endings."""
    folder.mkdir(parents=True, exist_ok=True)
    present = set(table.experiment)
    drawn: list[str] = []

    def save(name: str, figure: Any) -> None:
        for ending, metadata in (("png", {}), ("svg", {"Date": None})):
            figure.savefig(folder / f"{name}.{ending}", dpi=130, bbox_inches="tight", metadata=metadata)
        plt.close(figure)
        drawn.append(name)

    if "synthetic" in present:
        rows = table[table.experiment == "synthetic"]
        settings = [s for s in synthetic.CROWDS if s in set(rows.setting)]
        save("synthetic-auc", _difference_figure(rows, settings, "auc"))
        save("synthetic-nlpd", _difference_figure(rows, settings, "nlpd"))
        save("synthetic-calibration", _reliability_figure(rows, "50 % noisy"))
    if "case study" in maps:
        save("case-study", _maps_figure(maps["case study"]))
    if "tacloban" in present:
        rows = table[table.experiment == "tacloban"]
        save("tacloban", _level_figure(rows, [tacloban.SETTING], ("auc", "cross_entropy")))
        save("tacloban-calibration", _reliability_figure(rows, tacloban.SETTING))
    if "haiti" in present:
        rows = table[table.experiment == "haiti"]
        settings = [s for s in haiti.READINGS if s in set(rows.setting)]
        save("haiti", _level_figure(rows, settings, ("cross_entropy",)))
    if "responder" in maps:
        save("haiti-responder", _responder_figure(maps["responder"]))
    return drawn


def _difference_figure(table: pd.DataFrame, settings: Sequence[str], metric: str) -> Any:
    gaps = differences(table, synthetic.OURS)
    gaps = gaps[gaps.metric == metric]
    figure, axes = plt.subplots(1, len(settings), figsize=(3.4 * len(settings), 3.2), sharey=True, squeeze=False)
    for ax, setting in zip(axes[0], settings, strict=True):
        _bands(ax, gaps[gaps.setting == setting])
        ax.axhline(0.0, color="black", linewidth=0.8)
        ax.set(title=setting, xlabel="number of reports")
        if metric == "nlpd":  # a confident mistake costs hundreds of bits
            ax.set_yscale("symlog", linthresh=1.0)
    axes[0, 0].set_ylabel(f"HeatmapBCC better by, {LABELS[metric]}")
    _legend(figure, axes)
    return figure


def _level_figure(table: pd.DataFrame, settings: Sequence[str], names: Sequence[str]) -> Any:
    rows = summary(table)
    panels = [(setting, metric) for setting in settings for metric in names]
    figure, axes = plt.subplots(1, len(panels), figsize=(5.0 * len(panels), 3.8), squeeze=False)
    for ax, (setting, metric) in zip(axes[0], panels, strict=True):
        _bands(ax, rows[(rows.setting == setting) & (rows.metric == metric)])
        ax.set(title=setting, xlabel="number of reports", ylabel=LABELS[metric])
    _legend(figure, axes)
    return figure


def _bands(ax: Any, rows: pd.DataFrame) -> None:
    for method in (m for m in COLOURS if m in set(rows.method)):
        line = rows[rows.method == method].sort_values("n")
        marker = "o" if len(line) < 4 else None
        ax.plot(line.n, line["median"], color=COLOURS[method], label=method, marker=marker, markersize=3)
        ax.fill_between(line.n, line.lower, line.upper, color=COLOURS[method], alpha=0.15, linewidth=0)


def _legend(figure: Any, axes: NDArray[Any]) -> None:
    found: dict[str, Any] = {}
    for ax in axes.ravel():
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    figure.legend(
        found.values(), found.keys(), loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=5, frameon=False, fontsize=8
    )
    figure.tight_layout()


def _reliability_figure(table: pd.DataFrame, setting: str) -> Any:
    rows = pooled_reliability(table[table.setting == setting])
    sizes = sorted(rows.n.unique())
    chosen = [sizes[0], sizes[len(sizes) // 2], sizes[-1]] if len(sizes) > 2 else sizes
    figure, axes = plt.subplots(1, len(chosen), figsize=(3.6 * len(chosen), 3.6), sharey=True, squeeze=False)
    for ax, n in zip(axes[0], chosen, strict=True):
        ax.plot([0, 1], [0, 1], color="black", linewidth=0.8, linestyle=":")
        for method in (m for m in COLOURS if m in set(rows.method)):
            line = rows[(rows.method == method) & (rows.n == n) & (rows["count"] >= 20)]
            ax.plot(line.predicted, line.observed, color=COLOURS[method], label=method, marker=".", linewidth=1)
        ax.set(title=f"{setting}, n = {n}", xlabel="probability said", xlim=(0, 1), ylim=(0, 1), aspect="equal")
    axes[0, 0].set_ylabel("how often it was so")
    _legend(figure, axes)
    return figure


def _maps_figure(maps: dict[str, NDArray[np.float64]]) -> Any:
    names = list(maps)
    columns = 5
    rows = -(-len(names) // columns)
    figure, axes = plt.subplots(rows, columns, figsize=(2.6 * columns, 2.9 * rows), squeeze=False)
    for ax in axes.ravel()[len(names) :]:
        ax.axis("off")
    for ax, name in zip(axes.ravel(), names, strict=False):
        if name == "reports":
            most = float(np.abs(maps[name]).max())
            image = ax.imshow(maps[name].T, origin="lower", cmap="PuOr", vmin=-most, vmax=most)
            ax.set_title("reports, positive − negative", fontsize=9)
        else:
            image = ax.imshow(maps[name].T, origin="lower", cmap="cividis", vmin=0, vmax=1)
            ax.set_title({"truth": "true states", "rate": "true rate ρ"}.get(name, name), fontsize=9)
        ax.set(xticks=[], yticks=[])
        figure.colorbar(image, ax=ax, shrink=0.7)
    figure.tight_layout()
    return figure


def _responder_figure(maps: dict[str, NDArray[np.float64]]) -> Any:
    figure, axes = plt.subplots(1, 3, figsize=(15, 4.4))
    x, y = maps["place"]
    window = (max(x - 25, 0), min(x + 25, 99), max(y - 25, 0), min(y + 25, 99))
    change = maps["after rate"] - maps["before rate"]
    most = float(np.abs(change).max())
    for ax, (image, title, style) in zip(
        axes,
        (
            (maps["before"], "P(emergency), before", {"cmap": "cividis", "vmin": 0, "vmax": 1}),
            (maps["after"], "P(emergency), after the responder's report", {"cmap": "cividis", "vmin": 0, "vmax": 1}),
            (change, "change of the rate ρ around it", {"cmap": "PuOr", "vmin": -most, "vmax": most}),
        ),
        strict=True,
    ):
        drawn = ax.imshow(image.T, origin="lower", **style)
        ax.plot(*maps["cells"].T, ".", color="white" if image is not change else "grey", markersize=2, alpha=0.6)
        if image is not maps["before"]:
            ax.plot(x, y, "x", color="#D55E00", markersize=8, markeredgewidth=1.5, label="first responder: no")
            ax.legend(loc="lower right", fontsize=8)
        ax.set(xlim=window[:2], ylim=window[2:], title=title, xlabel="longitude cell", ylabel="latitude cell")
        figure.colorbar(drawn, ax=ax, shrink=0.8)
    figure.tight_layout()
    return figure
