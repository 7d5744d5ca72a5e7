"""The page about real crowds: tables, calibration diagrams, and what they do and do not show."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from crowdfield import __version__
from crowdfield.experiments import crowds, real
from crowdfield.experiments.protocol import Cell, pooled_reliability

FIGURES = ("cross_entropy", "sure", "sure_and_wrong", "auc", "calibration_error", "seconds")
COLOURS = {
    real.AUTO: "#000000", real.INSTRUMENT: "#0072B2", real.ONE_STATE: "#D55E00", "IBCC": "#CC79A7", "GP": "#999999",
    real.SHARE: "#009E73", real.BASE: "#bbbbbb", "Dawid–Skene": "#E69F00", "GLAD": "#56B4E9", "MACE": "#8c6d31",
}  # fmt: skip
SHOWN = (real.INSTRUMENT, real.ONE_STATE, "IBCC", "Dawid–Skene", real.SHARE)  # in calibration diagrams
WHAT = (
    "Cross entropy of the truth in bits (lower is better) at the places that were not checked; *sure*: share "
    "of these said with more than 95 %; *wrong*: the part of the sure that is wrong. Columns: how many "
    "random places were checked and given to the methods (means over draws). No setting was chosen by looking at the "
    "truth."
)
NOT_COVERED = (
    "**What this does not cover**: a crowd that is wrong together and unchecked. At Heron Reef it calls "
    "66 % of the points hard coral where an expert finds 39 %. Without checked places no method can know "
    "that: those that take the crowd at its word do worse than quoting the base rate, and ours is never "
    "sure. Sixty checked places mend it."
)
HOW = (
    "Methods that take checked places (`HeatmapBCC`, the base rate) got them; the log odds of all others "
    "were rescaled by a logistic regression on these places. `HeatmapBCC` is the default "
    '(`reports_model="auto"`), beside both of its models; all with the length-scale learned. “maybe” is a '
    "label that names no state; for the share of votes it is half a vote, and the Gaussian process leaves "
    "it out. Without checked places the base rate is the true one, which nobody has. crowd-kit's methods "
    "are as they come; GLAD and MACE are left out where one run would take many minutes. Haiti: "
    "length-scale 16 cells as in the paper, `silence` with an exposure of 3; the rate of the cell is judged "
    "(`predict_rate`)."
)


def write(table: pd.DataFrame, folder: Path, *, command: str) -> Path:
    """real.csv, real.json, figures and real.md; gives the path of the page."""
    good = comparable(table[table["error"].isna()] if "error" in table else table)
    if good.empty:
        raise RuntimeError("no method gave a result")
    names = list(Cell.__dataclass_fields__)
    table.drop(columns=["reliability"], errors="ignore").sort_values(names).to_csv(folder / "real.csv", index=False)
    means = summary(good)
    (folder / "real.json").write_text(
        json.dumps({"command": command, "version": __version__, "results": json.loads(means.to_json(orient="records"))},
                   ensure_ascii=False, indent=1), encoding="utf-8",
    )  # fmt: skip
    pictures = folder / "figures"
    pictures.mkdir(exist_ok=True)
    drawn = [name for name, figure in figures(good, means).items() if _save(figure, pictures / f"{name}.png")]
    page = folder / "real.md"
    page.write_text(markdown(table, means, drawn, command), encoding="utf-8")
    return page


def comparable(good: pd.DataFrame) -> pd.DataFrame:
    """Only draws of checked places that the instrument model has too, where it has any: a run may have been stopped."""
    keys = ["setting", "n", "repeat"]
    ours = good[good.method == real.INSTRUMENT]
    asked = set(map(tuple, ours[["setting", "n"]].to_numpy().tolist()))
    seen = set(map(tuple, ours[keys].to_numpy().tolist()))
    rows = good[keys].to_numpy().tolist()
    return good[[tuple(row[:2]) not in asked or tuple(row) in seen for row in rows]]


def summary(good: pd.DataFrame) -> pd.DataFrame:
    """Means over draws of checked places, one row per setting, size and method."""
    present = [name for name in FIGURES if name in good]
    grouped = good.groupby(["setting", "n", "method"], sort=False)
    out = grouped[present].mean().assign(draws=grouped.size())
    if "took" in good:
        out["took"] = grouped["took"].agg(lambda v: "/".join(sorted(set(v.dropna()))))
    out = out.reset_index()
    methods = {name: i for i, name in enumerate(COLOURS)}
    place = out.method.map(lambda name: methods.get(name, len(methods)))
    return out.assign(_a=out.setting.map(_setting_order), _b=place).sort_values(["_a", "_b", "method", "n"]).drop(
        columns=["_a", "_b"]
    ).reset_index(drop=True)  # fmt: skip


def _setting_order(setting: str) -> tuple[int, int]:
    """Crowds in the order of their description, the most votes first."""
    name, _, votes = setting.partition(", ")
    listed = list(real.VOTES)
    return list(crowds.DESCRIPTIONS).index(name), listed.index(votes) if votes in listed else 0


def markdown(table: pd.DataFrame, means: pd.DataFrame, drawn: Sequence[str], command: str) -> str:
    """The page as Markdown."""
    sets = list(dict.fromkeys(setting.split(", ")[0] for setting in means.setting))
    parts = [
        "# Real crowds, against truth that no crowd made",
        "",
        f"Made by `{command}` on {datetime.now(UTC):%d %B %Y}, crowdfield {__version__}. {WHAT}{_missing(table)}",
        "",
        NOT_COVERED,
        "",
        *(f"- **{name}**: {crowds.DESCRIPTIONS[name]}" for name in sets),
        "",
    ]
    parts += [*_overview(means), ""]
    for name in drawn:
        parts += [f"![{CAPTIONS[name]}](figures/{name}.png)", "", f"*{CAPTIONS[name]}*", ""]
    for setting in dict.fromkeys(means.setting):
        parts += [f"## {setting}", "", *_table(means[means.setting == setting]), ""]
    without = "" if find_spec("crowdkit") else " crowd-kit was not installed."
    return "\n".join([*parts, "## How it was done", "", HOW + without, ""])


OVERVIEW = (real.BASE, real.SHARE, "IBCC", "Dawid–Skene", real.ONE_STATE, real.INSTRUMENT)


def _overview(means: pd.DataFrame) -> list[str]:
    """Cross entropy of the main methods, none checked and sixty, and how far what is said for sure can be relied on."""
    head = ["", *OVERVIEW, "sure, wrong of it: IBCC", "the instrument model"]
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    for setting in _crowd_settings(means):
        for n in (0, 60):
            rows = means[(means.setting == setting) & (means.n == n)].set_index("method")
            if rows.empty:
                continue
            best = rows.cross_entropy[[m for m in OVERVIEW if m in rows.index and m != real.BASE]].min()
            cells = ["–" if m not in rows.index else _bits(rows.cross_entropy[m], best) for m in OVERVIEW]
            sure = [
                f"{100 * rows.sure[m]:.0f} %, {100 * rows.sure_and_wrong[m]:.1f} %" if m in rows.index else "–"
                for m in ("IBCC", real.INSTRUMENT)
            ]
            name = setting if n == 0 else f"{setting}, {n} checked"
            lines.append(f"| {' | '.join([name, *cells, *sure])} |")
    return lines


def _bits(value: float, best: float) -> str:
    return f"**{value:.3f}**" if value <= best + 5e-4 else f"{value:.3f}"


def _missing(table: pd.DataFrame) -> str:
    if "error" not in table or table["error"].isna().all():
        return ""
    failed = table[table["error"].notna()]
    listed = "; ".join(f"{row.method} on {row.setting} ({row.error})" for row in failed.itertuples())
    return f" Failed: {listed}."


def _table(means: pd.DataFrame) -> list[str]:
    sizes = sorted(means.n.unique())
    head = ["method", *(f"{n} checked" for n in sizes), "sure", "wrong", "AUC", "processor seconds"]
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    best = {n: means[(means.n == n) & (means.method != real.BASE)].cross_entropy.min() for n in sizes}
    for method in dict.fromkeys(means.method):
        rows = means[means.method == method].set_index("n")
        cells = ["–" if n not in rows.index else _bits(rows.cross_entropy[n], best[n]) for n in sizes]
        first = rows.iloc[0]
        took = f" → {first.took.replace('_', ' ')}" if method == real.AUTO and "took" in rows and first.took else ""
        some = [
            f"{100 * first.sure:.0f} %",
            f"{100 * first.sure_and_wrong:.1f} %",
            f"{first.auc:.3f}",
            f"{first.seconds:.0f}",
        ]
        lines.append(f"| {method}{took} | {' | '.join([*cells, *some])} |")
    return [*lines, "", "*sure*, *wrong*, AUC and processor seconds: with the fewest checked places of the row."]


CAPTIONS = {
    "real-cross-entropy": "Cross entropy of the truth beside the base rate's (dotted), without checked places and with "
    "sixty. Further left is better.",
    "real-calibration": "Calibration with every vote and no checked places: on the dotted line, what is said with "
    "probability p is true p of the time. Below it on the right and above it on the left: too sure.",
    "real-calibration-60": "The same with sixty checked places.",
    "real-checked": "Cross entropy against the number of checked places, all votes.",
}


def figures(good: pd.DataFrame, means: pd.DataFrame) -> dict[str, Figure]:
    """The figures of the page, by name."""
    out = {"real-cross-entropy": _bars(means)}
    for n, name in ((0, "real-calibration"), (60, "real-calibration-60")):
        if (good.n == n).any():
            out[name] = _calibration(good[good.n == n])
    if means.n.nunique() > 2:
        out["real-checked"] = _checked(means)
    return out


def _crowd_settings(table: pd.DataFrame) -> list[str]:
    return [setting for setting in dict.fromkeys(table.setting) if setting not in real.HAITI]


def _fullest(table: pd.DataFrame) -> list[str]:
    """Settings with all votes, or whatever there is."""
    settings = _crowd_settings(table)
    return [s for s in settings if s.endswith("all votes")] or settings


def _bars(means: pd.DataFrame) -> Figure:
    settings = _crowd_settings(means)
    columns = min(3, len(settings))
    rows = -(-len(settings) // columns)
    figure = Figure(figsize=(4.2 * columns, 2.9 * rows), layout="constrained", dpi=110)
    axes = np.atleast_1d(figure.subplots(rows, columns, squeeze=False)).ravel()
    for ax, setting in zip(axes, settings, strict=False):
        part = means[means.setting == setting]
        order = [m for m in COLOURS if m in set(part.method) and m != real.BASE][::-1]
        for y, method in enumerate(order):
            for n, marker, filled in ((0, "o", True), (60, "D", False)):
                value = part[(part.method == method) & (part.n == n)].cross_entropy
                if len(value):
                    ax.plot(min(value.iloc[0], 3.0), y, marker, color=COLOURS[method], ms=6,
                            mfc=COLOURS[method] if filled else "white")  # fmt: skip
        base = part[(part.method == real.BASE) & (part.n == 0)].cross_entropy
        if len(base):
            ax.axvline(base.iloc[0], color="#888888", lw=1, ls=":")
        ax.set_yticks(range(len(order)), order, fontsize=7.5)
        ax.set_title(setting, loc="left", fontsize=9.5, fontweight="bold")
        ax.set_xlim(0.4, 3.1)
        ax.spines[["top", "right"]].set_visible(False)
        ax.tick_params(axis="x", labelsize=8)
    for ax in axes[len(settings) :]:
        ax.set_axis_off()
    figure.supxlabel("cross entropy, bits (filled: none checked; open: 60 checked; beyond 3 shown at 3)", fontsize=9)
    return figure


def _calibration(good: pd.DataFrame) -> Figure:
    settings = _fullest(good)
    figure = Figure(figsize=(4.0 * len(settings), 4.1), layout="constrained", dpi=110)
    axes = np.atleast_1d(figure.subplots(1, len(settings), squeeze=False)).ravel()
    table = pooled_reliability(good)
    for ax, setting in zip(axes, settings, strict=True):
        ax.plot([0, 1], [0, 1], ":", color="#888888", lw=1)
        for method in SHOWN:
            part = table[(table.setting == setting) & (table.method == method)]
            if len(part):
                ax.plot(part.predicted, part.observed, "-", color=COLOURS[method], lw=1.2, label=method)
                ax.scatter(part.predicted, part.observed, 5 + 60 * part["count"] / part["count"].sum(),
                           color=COLOURS[method])  # fmt: skip
        ax.set(xlim=(0, 1), ylim=(0, 1), xlabel="said", aspect="equal")
        ax.set_title(setting, loc="left", fontsize=9.5, fontweight="bold")
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("true")
    axes[-1].legend(frameon=False, fontsize=7.5, loc="upper left")
    return figure


def _checked(means: pd.DataFrame) -> Figure:
    settings = _fullest(means)
    sizes = sorted(means.n.unique())
    position = {n: i for i, n in enumerate(sizes)}
    figure = Figure(figsize=(4.0 * len(settings), 4.0), layout="constrained", dpi=110)
    axes = np.atleast_1d(figure.subplots(1, len(settings), squeeze=False)).ravel()
    lines = {}
    for ax, setting in zip(axes, settings, strict=True):
        part = means[means.setting == setting]
        for method in COLOURS:
            rows = part[part.method == method].sort_values("n")
            if len(rows):
                shown = np.minimum(rows.cross_entropy, 1.5)
                x = [position[n] for n in rows.n]
                (lines[method],) = ax.plot(x, shown, "o-", color=COLOURS[method], lw=1.2, ms=3.5)
        ax.set_xticks(range(len(sizes)), [str(n) for n in sizes])
        ax.set_title(setting, loc="left", fontsize=9.5, fontweight="bold")
        ax.set_xlabel("checked places")
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("cross entropy, bits (1.5 and more as 1.5)")
    figure.legend(list(lines.values()), list(lines), loc="outside lower center", ncols=5, frameon=False, fontsize=8)
    return figure


def _save(figure: Figure, path: Path) -> bool:
    figure.savefig(path)
    return True
