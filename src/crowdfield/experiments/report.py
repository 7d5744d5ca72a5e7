"""Figures, tables and one page: the paper's claim, our result and the authors' figure, side by side."""

from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crowdfield.experiments import figures, opponents
from crowdfield.experiments.blocks import Block, Bullets, Heading, Numbers, Picture, Texts, as_html, as_markdown
from crowdfield.experiments.claims import NOTES, Claim, check
from crowdfield.experiments.protocol import Cell, summary
from crowdfield.experiments.reference import AUTHORS

TITLES = {
    "synthetic": "Synthetic data",
    "tacloban": "Planetary Response Network, Tacloban",
    "haiti": "Haiti, Ushahidi",
    "unosat": "Haiti, length-scale from UNOSAT",
}
CAPTIONS = {
    "synthetic-auc": "How much higher HeatmapBCC's AUC is than each other method's, on the same reports: median over "
    "data sets, and quartiles. The paper's figures for noisy, biased and continuous reporters.",
    "synthetic-nlpd": "The same for the density of ρ, against the methods that have a posterior of it.",
    "synthetic-calibration": "Reliability: on the dotted line, what is said with probability p happens p of the time.",
    "case-study": "One data set with 50 % biased reporters, 1,500 reports: truth, reports and every posterior.",
    "tacloban": "Median over repeats and quartiles, against the number of labels.",
    "tacloban-calibration": "Reliability at the gold cells.",
    "haiti": "Cross entropy against IBCC on all reports: median over repeats and quartiles.",
    "haiti-responder": "Port-au-Prince before and after one trusted negative report, and what it changed.",
}
PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>crowdfield: the paper's experiments</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; color: #222; }}
table {{ border-collapse: collapse; font-size: .85rem; }}
th, td {{ border: 1px solid #ccc; padding: .25rem .5rem; text-align: right; }}
th:first-child, td:first-child, .text td, .text th {{ text-align: left; }}
img {{ max-width: 100%; }} figure {{ margin: 1rem 0; }} figcaption {{ color: #555; }}
.yes {{ color: #006d3c; }} .no {{ color: #b00020; }}
</style></head><body>
<h1>The experiments of “Bayesian Heatmaps”, run again</h1>
<p>Made by <code>{command}</code>. {scope}</p>
{sections}
</body></html>
"""


def write(table: pd.DataFrame, maps: dict[str, dict[str, NDArray[np.float64]]], output: Path, *, command: str) -> Path:
    """Everything that the results at hand allow, into `output`; gives the path of the page."""
    names = list(Cell.__dataclass_fields__)
    table.drop(columns=[c for c in ("reliability",) if c in table]).sort_values(names).to_csv(
        output / "results.csv", index=False
    )
    good = table[table["error"].isna()] if "error" in table else table
    rows = summary(good)
    rows.to_csv(output / "summary.csv", index=False)
    drawn = figures.draw_all(good, maps, output / "figures")
    blocks = list(_blocks(table, good, drawn))
    (output / "summary.md").write_text(markdown(good, blocks, command), encoding="utf-8")
    page = output / "index.html"
    html = PAGE.format(command=escape(command), scope=escape(_scope(good)), sections=as_html(blocks))
    page.write_text(html, encoding="utf-8")
    return page


def comparison(table: pd.DataFrame, experiment: str, setting: str, metric: str) -> pd.DataFrame:
    """Medians of ours by size, and the authors' figures in columns of their own."""
    rows = summary(table[(table.experiment == experiment) & (table.setting == setting)])
    rows = rows[rows.metric == metric]
    ours = rows.pivot_table(index="n", columns="method", values="median")
    ours = ours[[m for m in figures.COLOURS if m in ours]]
    authors = AUTHORS.get((experiment, setting), {})
    theirs = pd.DataFrame({f"authors: {m}": {n: v.get(metric) for n, v in t.items()} for m, t in authors.items()})
    theirs = theirs.dropna(axis=1, how="all").astype(float)
    return ours.join(theirs.reindex(ours.index)).rename_axis("n")


def markdown(good: pd.DataFrame, blocks: Sequence[Block], command: str) -> str:
    """The page as Markdown, its figures beside it in `figures/`."""
    parts = [
        "# The experiments of “Bayesian Heatmaps”, run again",
        "",
        f"Made by `{command}`. {_scope(good)} Medians over repeats; cross entropy and NLPD in bits; `authors:` is "
        "their own code, on their own draws of the data.",
        "",
        *as_markdown(blocks),
    ]
    return "\n".join(parts)


def _blocks(table: pd.DataFrame, good: pd.DataFrame, drawn: list[str]) -> Iterator[Block]:
    """All that the page says, experiment by experiment."""
    claims = check(good)
    for experiment in [e for e in TITLES if e in set(table.experiment)]:
        yield Heading(2, TITLES[experiment])
        mine = [c for c in claims if c.experiment == experiment]
        if mine:
            yield _claims_table(mine)
        for name in (d for d in drawn if _belongs(d, experiment)):
            yield Picture(name, CAPTIONS[name])
        for setting, metric in _panels(good, experiment):
            yield Heading(3, f"{setting}: {figures.LABELS[metric]}")
            yield Numbers(comparison(good, experiment, setting, metric))
        if NOTES.get(experiment):
            yield Heading(3, "Where paper and data disagree")
            yield Bullets(tuple(NOTES[experiment]))
    notes = _notes_of_the_run(table)
    if notes:
        yield Heading(2, "Notes of the run")
        yield Bullets(tuple(notes))


def _scope(good: pd.DataFrame) -> str:
    repeats = good.groupby("experiment")["repeat"].nunique().to_dict()
    return "Repeats: " + ", ".join(f"{name} {count}" for name, count in repeats.items()) + "."


def _panels(table: pd.DataFrame, experiment: str) -> list[tuple[str, str]]:
    rows = table[table.experiment == experiment]
    shown = [m for m in figures.LABELS if m in rows and rows[m].notna().any()]
    return [(setting, metric) for setting in rows.setting.unique() for metric in shown]


def _belongs(figure: str, experiment: str) -> bool:
    return figure.startswith(experiment) or (figure == "case-study" and experiment == "synthetic")


def _claims_table(claims: list[Claim]) -> Texts:
    return Texts(
        ("the paper says", "we find", "holds"),
        tuple((c.claim, c.finding, _verdict(c)) for c in claims),
        tuple("yes" if c.holds else "no" for c in claims),
    )


def _notes_of_the_run(table: pd.DataFrame) -> list[str]:
    """What was skipped, what failed, and what methods of ours warned of, the most frequent first."""
    notes = [f"{name} was skipped: {module} is not installed." for name, module in opponents.missing().items()]
    if "error" in table and table["error"].notna().any():
        for (method, error), group in table[table["error"].notna()].groupby(["method", "error"]):
            notes.append(f"{method} failed in {len(group)} cells: {error}")
    if "warnings" in table:
        warned = table.explode("warnings").dropna(subset=["warnings"])
        # Of warnings that differ in a number only, one is shown.
        kind = warned.warnings.str.replace(r"\d[\d.e+-]*", "…", regex=True).rename("kind")
        rows = warned.groupby(["method", kind]).warnings.agg(["size", "first"]).sort_values("size", ascending=False)
        notes += [f"{row['method']}, {row['size']} cells: {row['first']}" for _, row in rows.reset_index().iterrows()]
    return notes


def _verdict(claim: Claim) -> str:
    return {True: "yes", False: "no", None: "cannot tell"}[claim.holds]
