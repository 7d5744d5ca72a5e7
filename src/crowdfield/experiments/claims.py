"""What the paper claims, and whether our results agree: each claim is a question to the table of results."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from crowdfield.experiments import haiti, synthetic, tacloban
from crowdfield.experiments.protocol import differences, summary

SMOOTHERS = ("KDE", "GP", "IBCC+GP")


@dataclass(frozen=True)
class Claim:
    """holds is None where the results at hand cannot tell."""

    experiment: str
    claim: str
    finding: str
    holds: bool | None


NOTES = {
    "haiti": [
        "The paper speaks of 2,723 reports in 675 locations. In the authors' code 675 is the number of reports that "
        "a filter of categories left, on 213 cells; the filter was applied to renumbered ids, so it kept other "
        "categories than intended (crowdfield.datasets.HAITI_KEPT and HAITI_INTENDED). We run the 675 reports that "
        "it kept, because the paper's figures are theirs, and all reports beside them (2,722 by our count).",
        "Every report is of an emergency, so the gold standard (IBCC on all reports) is positive in every cell and an "
        "AUC against it is undefined. The paper's sentence about AUC on these data cannot be reproduced; we give "
        "cross entropy only.",
        "The paper's figure shows a whole area turned by the responder's one negative report. With the paper's "
        "hyperparameters, exact enough inference and 675 positive reports around it, the cell itself turns and its "
        "surroundings give way only a little: the difference is drawn in a panel of its own.",
        "Cross entropy against IBCC rewards agreeing with IBCC, and IBCC with all labels is its own gold standard: "
        "there it is the floor, not a winner.",
    ],
    "tacloban": [
        "The paper says that its gold standard is IBCC with 2 on the diagonal and 1 elsewhere. The stored gold is "
        "reproduced, to rounding, by α0 = [[19, 1], [15, 5]], ν0 = [100, 100] and exactly 13 iterations; the prior of "
        "the text gives another gold. We use the stored one.",
        "A repeat keeps all positive labels and a random fifth of the negative ones, as the authors' data do; the "
        "paper's count of 1,245 negative labels is not that of the file.",
    ],
    "synthetic": [
        "Our IBCC runs until it has settled. With one report at most places it then often puts nearly all places in "
        "one state, and IBCC+GP with it; the authors' stops early, which happens to guard against this. So our IBCC "
        "and IBCC+GP have a higher cross entropy at small n than theirs; their ranking (AUC) is alike.",
        "The paper draws fields with a product of one-dimensional Matérn kernels in its code; ours is the isotropic "
        "kernel of its text. The crowds are as in the text.",
    ],
}


def check(table: pd.DataFrame) -> list[Claim]:
    """All claims that the experiments in the table can speak to."""
    table = table[table["error"].isna()] if "error" in table else table
    found: list[Claim] = []
    present = set(table.experiment)
    if "synthetic" in present:
        found += _synthetic(table[table.experiment == "synthetic"])
    if "tacloban" in present:
        found += _tacloban(table[table.experiment == "tacloban"])
    if "haiti" in present:
        found += _haiti(table[table.experiment == "haiti"])
    if "unosat" in present:
        found += _unosat(table[table.experiment == "unosat"])
    return found


def _synthetic(table: pd.DataFrame) -> list[Claim]:
    gaps = differences(table, synthetic.OURS)
    auc = gaps[gaps.metric == "auc"]
    out = [
        _everywhere(
            table[table.method.isin((synthetic.OURS, *SMOOTHERS)) & (table.n >= 400)],
            "With 400 labels and more, HeatmapBCC's AUC is above that of KDE, GP and IBCC+GP, whatever the crowd.",
        ),
        _everywhere(
            table[table.method.isin((synthetic.OURS, "IBCC")) & (table.n <= 400)],
            "Against IBCC the advantage is there where reports are sparse (up to 400 labels).",
        ),
    ]
    grid = auc[(auc.method == "IBCC") & (auc.setting != "continuous")]
    if len(grid) and grid.n.nunique() > 1:
        first, last = grid[grid.n == grid.n.min()]["median"].mean(), grid[grid.n == grid.n.max()]["median"].mean()
        peak = grid.groupby("n")["median"].mean().max()
        out.append(
            Claim(
                "synthetic",
                "The difference to IBCC falls as labels accumulate at the same places.",
                f"mean difference {first:.3f} at n = {grid.n.min()}, at most {peak:.3f}, "
                f"{last:.3f} at n = {grid.n.max()}",
                # Most of 1,600 places have their second report only beyond some 2,000.
                bool(last < peak) if grid.n.max() >= 2000 else None,
            )
        )
    some = table[table.method.isin((synthetic.OURS, "GP", "IBCC+GP")) & (table.n >= 400)]
    out.append(_everywhere(some, "The density of ρ (NLPD) is better than that of GP and IBCC+GP.", "nlpd"))
    if {"continuous", "50 % noisy"} <= set(table.setting):
        out.append(_continuous(_pooled(some)))
    return out


def _pooled(table: pd.DataFrame) -> pd.DataFrame:
    """Differences to HeatmapBCC pooled over sizes: median over all subsets of a setting."""
    return differences(table.assign(repeat=table["repeat"] * 10**6 + table.n, n=0), synthetic.OURS)


def _everywhere(table: pd.DataFrame, text: str, metric: str = "auc") -> Claim:
    """Is the median difference, over all these subsets of a setting, positive in every setting to every method?"""
    rows = _pooled(table)
    rows = rows[rows.metric == metric]
    if rows.empty:
        return Claim("synthetic", text, "no results", None)
    worst = rows.iloc[int(rows["median"].argmin())]
    unit = "AUC" if metric == "auc" else "NLPD, bits"
    finding = f"least median difference {worst['median']:+.3f} ({unit}; to {worst.method}, {worst.setting})"
    return Claim("synthetic", text, finding, bool(worst["median"] > 0))


def _continuous(gaps: pd.DataFrame) -> Claim:
    """Median differences over all subsets of 400 labels and more, to GP and to IBCC+GP."""
    median = gaps.set_index(["metric", "method", "setting"])["median"]
    parts, holds = [], True
    for method in ("GP", "IBCC+GP"):
        auc, auc0, nlpd, nlpd0 = (
            float(median.get((metric, method, setting), np.nan))
            for metric in ("auc", "nlpd")
            for setting in ("continuous", "50 % noisy")
        )
        parts.append(f"to {method}: AUC {auc0:.3f} → {auc:.3f}, NLPD {nlpd0:.2f} → {nlpd:.2f} bits")
        holds &= 0 < auc < auc0 and nlpd > 0 and nlpd / nlpd0 > auc / auc0
    return Claim(
        "synthetic",
        "With continuous places the difference in AUC shrinks but stays positive; that in NLPD is less affected.",
        "; ".join(parts) + " (grid → continuous)",
        bool(holds),
    )


def _tacloban(table: pd.DataFrame) -> list[Claim]:
    medians = summary(table).pivot_table(index=["metric", "n"], columns="method", values="median")
    ours = tacloban.COMMUNITIES if tacloban.COMMUNITIES in medians else tacloban.SEPARATE
    heatmaps = [m for m in medians.columns if m.startswith("HeatmapBCC")]
    rivals = [m for m in medians.columns if m not in heatmaps]
    out = []
    for metric, better, text in (
        ("auc", "max", "HeatmapBCC ranks best with the fewest labels."),
        ("cross_entropy", "min", "HeatmapBCC's cross entropy is substantially below that of every other method."),
    ):
        rows: pd.DataFrame = medians.loc[[metric]].droplevel(0)
        rows = rows.iloc[:1] if metric == "auc" else rows
        best = rows[rivals].max(axis=1) if better == "max" else rows[rivals].min(axis=1)
        gap = (rows[ours] - best) * (1 if better == "max" else -1)
        finding = "; ".join(f"n = {n}: {ours} {rows.loc[n, ours]:.3f}, best other {best[n]:.3f}" for n in rows.index)
        out.append(Claim("tacloban", text, finding, bool((gap > 0).all())))
    return out


def _haiti(table: pd.DataFrame) -> list[Claim]:
    rows = summary(table[table.setting == "675 reports"])
    rows = rows[rows.metric == "cross_entropy"].pivot_table(index="n", columns="method", values="median")
    if rows.empty:
        return []
    first = rows.iloc[0]
    others = first.drop([m for m in first.index if m.startswith("HeatmapBCC")])
    out = [
        Claim(
            "haiti",
            "HeatmapBCC achieves low error when the reports are sparse.",
            f"n = {rows.index[0]}: {first[haiti.OURS]:.3f} bits, best other {others.min():.3f} ({others.idxmin()})",
            bool(first[haiti.OURS] < others.min()),
        )
    ]
    if 439 in rows.index:
        value = float(rows[haiti.OURS].loc[439])
        out.append(
            Claim(
                "haiti",
                "Cross entropy is about 0.1 bits with 400 to 439 labels.",
                f"{value:.3f} bits at 439",
                bool(value < 0.15),
            )
        )
    return out


def _unosat(table: pd.DataFrame) -> list[Claim]:
    rows = table[table.n == table.n.max()].set_index("method")
    learned = {method: float(np.mean(row.lengthscale)) for method, row in rows.iterrows()}
    if haiti.TRANSFERRED not in learned:
        return []
    finding = ", ".join(f"{method}: {value:.1f}" for method, value in learned.items())
    return [
        Claim(
            "haiti",
            "Maximum likelihood II on UNOSAT's damage grid gives a length-scale of 16 cells.",
            f"{finding} cells, on {table.n.max():,} cells",
            bool(8.0 <= learned[haiti.TRANSFERRED] <= 32.0),
        )
    ]
