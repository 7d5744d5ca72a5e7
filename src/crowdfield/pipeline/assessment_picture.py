"""The picture of spot checks: reliability of the map, and the true area of each state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure

from crowdfield.counting import counted
from crowdfield.plot import ACCENT, FAINT, INK
from crowdfield.plot.furniture import panel

if TYPE_CHECKING:
    from crowdfield.pipeline.assessing import Assessment

COLOUR = "#3b6ea5"


def draw(found: Assessment) -> Figure:
    """Reliability and areas, side by side."""
    figure = Figure(figsize=(10.4, 4.8), layout="constrained", dpi=130)
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.1))
    _reliability(left, found)
    _areas(right, found)
    figure.suptitle(found.lines()[0], x=0.01, ha="left", fontsize=12, fontweight="bold", color=INK)
    return figure


def _reliability(axes: Any, found: Assessment) -> None:
    table, state = found.reliability, found.positive
    axes.plot([0, 1], [0, 1], color=FAINT, lw=0.8, ls=(0, (4, 3)), zorder=0)
    middle = table["found"].to_numpy()
    spread = [middle - table["found_low"].to_numpy(), table["found_high"].to_numpy() - middle]
    axes.errorbar(table["said"], middle, spread, fmt="o", color=COLOUR, capsize=3, markersize=5, lw=1.2)
    axes.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03), aspect="equal")
    axes.set_xlabel(f"probability of “{state}” on the map", fontsize=9, color=INK)
    axes.set_ylabel(f"how often checks found “{state}”", fontsize=9, color=INK)
    panel(axes, "Does the map mean what it says?")
    fewest, most = int(table["checks"].min()), int(table["checks"].max())
    each = counted(fewest, "check") if fewest == most else f"{fewest} to {counted(most, 'check')}"
    note = f"each dot: {each}; dashed: as the map says"
    # Below the axis: no dot or interval can hide it there.
    axes.annotate(note, (0.5, -0.145), xycoords="axes fraction", ha="center", va="top", fontsize=7.5, color=FAINT)


def _areas(axes: Any, found: Assessment) -> None:
    table = found.states
    y = np.arange(len(table))[::-1].astype(float)
    axes.scatter(table["mapped_share"], y + 0.18, marker="|", s=140, color=INK, lw=2, label="as mapped", zorder=3)
    for name, shift, colour, label in (
        ("area", 0.0, COLOUR, "by the checks"),
        ("area_pp", -0.18, ACCENT, "by checks and map"),
    ):
        middle = table[name].to_numpy()
        spread = [middle - table[f"{name}_low"].to_numpy(), table[f"{name}_high"].to_numpy() - middle]
        axes.errorbar(middle, y + shift, xerr=spread, fmt="o", color=colour, capsize=3, ms=5, lw=1.2, label=label)
    axes.set_yticks(y, [str(state) for state in table["state"]])
    axes.set(xlim=(-0.02, 1.02), ylim=(-0.7, len(table) - 0.3))
    axes.set_xlabel(f"share of the map, with {100 * found.level:.0f} % intervals", fontsize=9, color=INK)
    axes.grid(axis="x", color="#ececec", lw=0.7)
    axes.set_axisbelow(True)
    axes.legend(frameon=False, fontsize=8.5, loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=3)
    panel(axes, "How much is really in each state?")
