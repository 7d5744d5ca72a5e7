"""The pictures of a model check: four panels, one question each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from matplotlib.ticker import NullFormatter, StrMethodFormatter

from crowdfield.plot import ACCENT, FAINT, INK
from crowdfield.plot.furniture import panel

if TYPE_CHECKING:
    from crowdfield.pipeline.checking import ModelCheck

MODEL = "#3b6ea5"
NEAR_EDGE = 0.08  # of the panel's height
WIDTH = 0.38  # width of a bar; two are drawn side by side


def draw(check: ModelCheck) -> Figure:
    """The four panels of a model check."""
    figure = Figure(figsize=(11.0, 8.4), layout="constrained", dpi=130)
    panels = figure.subplots(2, 2).ravel()
    _votes(panels[0], check)
    _agreement(panels[1], check)
    _reliability(panels[2], check)
    _sources(panels[3], check)
    verdict = "the model passes all checks" if check.holds else "the model FAILS a check"
    figure.suptitle(
        f"{check.reports:,} reports, {check.reports_model.replace('_', ' ')} model: {verdict}",
        color=INK if check.holds else ACCENT, fontsize=13, fontweight="bold", x=0.01, ha="left",
    )  # fmt: skip
    return figure


def _votes(axes: Any, check: ModelCheck) -> None:
    table = check.by_votes
    x = np.arange(len(table))
    axes.bar(x - WIDTH / 2, table["surprise"], WIDTH, color=MODEL, label="given all other reports")
    axes.bar(x + WIDTH / 2, table["habit_surprise"], WIDTH, color="#c9c9cf", label="by its source's label frequencies")
    axes.set_xticks(x, [f"{row.votes}\n({row.reports:,})" for row in table.itertuples()])
    axes.set(xlabel="reports about the place (left-out reports)", ylabel="bits per left-out report")
    axes.set_ylim(0.0, 1.25 * float(table[["surprise", "habit_surprise"]].to_numpy().max()))
    axes.legend(frameon=False, fontsize=8.5, loc="upper right", ncols=2)
    panel(axes, f"Does the map beat label frequencies? Gain {check.gain:.3f} ± {check.gain_error:.3f} bits")


def _agreement(axes: Any, check: ModelCheck) -> None:
    found = check.agreement
    middle = 0.5 * (found.edges[1:] + found.edges[:-1])
    axes.bar(middle, found.places, 0.9 * np.diff(found.edges), color="#c9c9cf", label="observed")
    low, median, high = found.expected
    axes.errorbar(middle, median, [median - low, high - median], fmt="o", color=MODEL, capsize=4, markersize=4,
                  label="expected by the model (90 %)")  # fmt: skip
    axes.set(xlabel=f"share of reports that say “{check.label}”, at places with several", ylabel="places")
    axes.legend(frameon=False, fontsize=8.5)
    panel(axes, f"Do reports agree more than expected? Variance × {found.inflation:.2f}")


def _reliability(axes: Any, check: ModelCheck) -> None:
    table = check.reliability
    filled = table.count > 0
    error = np.sqrt(table.predicted * (1.0 - table.predicted) / np.maximum(table.count, 1))[filled]
    axes.plot([0, 1], [0, 1], color=FAINT, lw=1, ls=":")
    axes.errorbar(table.predicted[filled], table.observed[filled], 2.0 * error, fmt="o-", color=MODEL, capsize=3, lw=1,
                  markersize=4)  # fmt: skip
    for x, y, n in zip(table.predicted[filled], table.observed[filled], table.count[filled], strict=True):
        above = y < NEAR_EDGE  # below such a point the number would lie on the axis
        axes.annotate(
            f"{n:,}", (x, y), (6, 5 if above else -11), textcoords="offset points", fontsize=7.5, color=FAINT,
            path_effects=[withStroke(linewidth=2.0, foreground="white")],
        )  # fmt: skip
    axes.set(
        xlim=(0, 1), ylim=(0, 1), xlabel="probability of a left-out report's label", ylabel="how often it was said"
    )
    panel(axes, f"Are probabilities calibrated? Mean error {100 * check.calibration_error:.1f} points")


def _sources(axes: Any, check: ModelCheck) -> None:
    table = check.by_source
    poor = (table["gain"] < -2.0 * table["gain_error"]).to_numpy()
    axes.axhline(0.0, color=FAINT, lw=1, ls=":")
    for chosen, colour, name in (
        (~poor, MODEL, "as good as label frequencies, or better"),
        (poor, ACCENT, "clearly worse"),
    ):
        some = table[chosen]
        axes.errorbar(some["reports"], some["gain"], 2.0 * some["gain_error"], fmt="o", lw=0.7, color=colour,
                      markersize=3.5, alpha=0.75, label=f"{name} ({len(some)})")  # fmt: skip
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set(xlabel="reports of a source", ylabel="bits per report better than label frequencies")
    axes.legend(frameon=False, fontsize=8.5)
    panel(axes, "Whose reports does the map predict?")
