"""Figures, tables and one page: the paper's claim, our result and the authors' figure, side by side."""

from html import escape
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crowdfield.experiments import figures, opponents
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
    (output / "summary.md").write_text(markdown(table, good, drawn, command), encoding="utf-8")
    page = output / "index.html"
    page.write_text(_page(table, good, drawn, command), encoding="utf-8")
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


def markdown(table: pd.DataFrame, good: pd.DataFrame, drawn: list[str], command: str) -> str:
    """The page as Markdown, its figures beside it in `figures/`."""
    claims = check(good)
    parts = [
        "# The experiments of “Bayesian Heatmaps”, run again",
        "",
        f"Made by `{command}`. {_scope(good)} Medians over repeats; cross entropy and NLPD in bits; `authors:` is "
        "their own code, on their own draws of the data.",
        "",
    ]
    for experiment in [e for e in TITLES if e in set(table.experiment)]:
        parts += [f"## {TITLES[experiment]}", ""]
        mine = [c for c in claims if c.experiment == experiment]
        if mine:
            parts += ["| the paper says | we find | holds |", "|---|---|---|"]
            parts += [f"| {c.claim} | {c.finding} | {_verdict(c)} |" for c in mine] + [""]
        for name in (d for d in drawn if _belongs(d, experiment)):
            parts += [f"![{CAPTIONS[name]}](figures/{name}.png)", "", f"*{CAPTIONS[name]}*", ""]
        for setting, metric in _panels(good, experiment):
            frame = comparison(good, experiment, setting, metric)
            parts += [f"### {setting}: {figures.LABELS[metric]}", "", _markdown_table(frame), ""]
        if NOTES.get(experiment):
            parts += ["### Where paper and data disagree", "", *(f"- {note}" for note in NOTES[experiment]), ""]
    notes = _notes_of_the_run(table)
    if notes:
        parts += ["## Notes of the run", "", *(f"- {note}" for note in notes), ""]
    return "\n".join(parts)


def _page(table: pd.DataFrame, good: pd.DataFrame, drawn: list[str], command: str) -> str:
    claims = check(good)
    sections = []
    for experiment in [e for e in TITLES if e in set(table.experiment)]:
        parts = [f"<h2>{escape(TITLES[experiment])}</h2>"]
        mine = [c for c in claims if c.experiment == experiment]
        if mine:
            parts.append(_claims_table(mine))
        for name in (d for d in drawn if _belongs(d, experiment)):
            caption = escape(CAPTIONS[name])
            image = f'<a href="figures/{name}.svg"><img src="figures/{name}.png" alt="{caption}"></a>'
            parts.append(f"<figure>{image}<figcaption>{caption}</figcaption></figure>")
        for setting, metric in _panels(good, experiment):
            frame = comparison(good, experiment, setting, metric)
            parts.append(f"<h3>{escape(setting)}: {escape(figures.LABELS[metric])}</h3>")
            parts.append(frame.to_html(float_format="{:.3f}".format, na_rep="", border=0))
        if NOTES.get(experiment):
            notes = "".join(f"<li>{escape(note)}</li>" for note in NOTES[experiment])
            parts.append(f"<h3>Where paper and data disagree</h3><ul>{notes}</ul>")
        sections.append("\n".join(parts))
    sections.append(_footnotes(table))
    return PAGE.format(command=escape(command), scope=escape(_scope(good)), sections="\n".join(sections))


def _scope(good: pd.DataFrame) -> str:
    repeats = good.groupby("experiment")["repeat"].nunique().to_dict()
    return "Repeats: " + ", ".join(f"{name} {count}" for name, count in repeats.items()) + "."


def _panels(table: pd.DataFrame, experiment: str) -> list[tuple[str, str]]:
    rows = table[table.experiment == experiment]
    shown = [m for m in figures.LABELS if m in rows and rows[m].notna().any()]
    return [(setting, metric) for setting in rows.setting.unique() for metric in shown]


def _belongs(figure: str, experiment: str) -> bool:
    return figure.startswith(experiment) or (figure == "case-study" and experiment == "synthetic")


def _claims_table(claims: list[Claim]) -> str:
    rows = "".join(
        f'<tr><td>{escape(c.claim)}</td><td>{escape(c.finding)}</td><td class="{"yes" if c.holds else "no"}">'
        f"{_verdict(c)}</td></tr>"
        for c in claims
    )
    return f'<table class="text"><tr><th>the paper says</th><th>we find</th><th>holds</th></tr>{rows}</table>'


def _footnotes(table: pd.DataFrame) -> str:
    notes = _notes_of_the_run(table)
    if not notes:
        return ""
    return "<h2>Notes of the run</h2><ul>" + "".join(f"<li>{escape(note)}</li>" for note in notes) + "</ul>"


def _notes_of_the_run(table: pd.DataFrame) -> list[str]:
    """What was skipped, what failed, and what methods of ours warned of, the most frequent first."""
    notes = [f"{name} was skipped: {module} is not installed." for name, module in opponents.missing().items()]
    if "error" in table and table["error"].notna().any():
        for (method, error), group in table[table["error"].notna()].groupby(["method", "error"]):
            notes.append(f"{method} failed in {len(group)} cells: {error}")
    if "warnings" in table:
        told = table.explode("warnings").dropna(subset=["warnings"])
        # Of warnings that differ in a number only, one is shown.
        kind = told.warnings.str.replace(r"\d[\d.e+-]*", "…", regex=True).rename("kind")
        rows = told.groupby(["method", kind]).warnings.agg(["size", "first"]).sort_values("size", ascending=False)
        notes += [f"{row['method']}, {row['size']} cells: {row['first']}" for _, row in rows.reset_index().iterrows()]
    return notes


def _verdict(claim: Claim) -> str:
    return {True: "yes", False: "no", None: "cannot tell"}[claim.holds]


def _markdown_table(frame: pd.DataFrame) -> str:
    head = ["n", *map(str, frame.columns)]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for n, row in frame.iterrows():
        cells = ["" if pd.isna(v) else f"{v:.3f}" for v in row]
        lines.append("| " + " | ".join([str(n), *cells]) + " |")
    return "\n".join(lines)
