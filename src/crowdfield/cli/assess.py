"""`crowdfield assess plan` and `crowdfield assess result`: spot checks of a map."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crowdfield.cli import options as opt
from crowdfield.cli.ask import Run
from crowdfield.counting import share_with_interval

if TYPE_CHECKING:
    from crowdfield.cli.console import Talk
    from crowdfield.pipeline import Fused

USAGE = "write it as: crowdfield assess plan RUN -o places.csv, or: crowdfield assess result RUN places.csv"


@opt.grouped
def assess(
    action: Annotated[
        str, typer.Argument(metavar="plan|result", help="plan: draw places to check. result: judge the map.")
    ],
    run: Run,
    checked: Annotated[
        Path | None, typer.Argument(metavar="CHECKED", help="result: the plan with its column 'state' filled in.")
    ] = None,
    output: Annotated[
        list[Path] | None,
        opt.several_outputs(
            "plan: the places (.csv, .geojson, .kml), a form for KoboToolbox or ODK (.xlsx), or a Zooniverse "
            "manifest (.manifest.csv). result: a picture (.png, .svg, .pdf) or all figures (.json, .csv)."
        ),
    ] = None,
    n: Annotated[int | None, typer.Option("-n", min=2, help="plan: how many places.")] = None,
    margin: Annotated[
        float,
        typer.Option(
            min=0.001,
            max=0.499,
            help="plan: without -n, enough places to estimate the accuracy to ± this much.",
        ),
    ] = 0.05,
    level: Annotated[float, typer.Option(min=0.01, max=0.999, help="Coverage of the intervals.")] = 0.95,
    seed: Annotated[int, typer.Option(help="plan: random seed.")] = 0,
    gold: Annotated[
        Path | None,
        typer.Option(metavar="NEW.cf", help="result: fit again with the answers as known states, and save that run."),
    ] = None,
    *,
    beliefs: opt.Beliefs,
    voice: opt.Voice,
) -> None:
    """Spot checks: is the map right, and how much is really in each state?

    `plan` draws a stratified random sample of places. Somebody finds out what is true there and fills in the column
    'state'. `result` then gives the accuracy, the errors of omission and commission, and the area of every state, with
    intervals that are valid even if the model is wrong.
    """
    from crowdfield.cli.console import Talk
    from crowdfield.cli.inputs import run_from, settings_from

    talk = Talk.of(voice)
    if action not in ("plan", "result") or (action == "result") != (checked is not None):
        raise typer.BadParameter(USAGE)
    _check_outputs(action, output or [])
    fused = run_from(run, settings_from(beliefs), talk)
    if action == "plan":
        _plan(fused, output or [], talk, size=n, margin=margin, level=level, seed=seed)
    else:
        assert checked is not None
        _result(fused, checked, output or [], gold, level, talk)


def _check_outputs(action: str, outputs: list[Path]) -> None:
    known = (".csv", ".geojson", ".kml", ".xlsx") if action == "plan" else (".png", ".svg", ".pdf", ".json", ".csv")
    for path in outputs:
        if path.suffix.lower() not in known:
            raise typer.BadParameter(f"{path}: write it as {', '.join(known)}.", param_hint="--output")


def _plan(fused: Fused, outputs: list[Path], talk: Talk, **wanted: Any) -> None:
    """Draw the places to check, write them and show how many each stratum gets."""
    from crowdfield.cli.console import table
    from crowdfield.io.layers import plain
    from crowdfield.pipeline.sampling_plan import plan, write_plan

    found = plan(fused.heatmap, **wanted)
    for path in outputs:
        write_plan(found, path)
    rows = [[r["stratum"], f"{r['cells']:,}", f"{r['checks']:,}"] for r in found.strata.to_dict("records")]
    text = [*found.lines(), table(None, ["stratum", "cells", "checks"], rows, right=(1, 2))]
    data = {
        "seed": found.seed,
        "level": found.level,
        "margin": found.margin,
        "strata": plain(found.strata.to_dict("records")),
        "places": plain(found.places.to_dict("records")),
    }
    talk.result(data, [*text, *(f"wrote {path}" for path in outputs)])


def _result(fused: Fused, checked: Path, outputs: list[Path], gold: Path | None, level: float, talk: Talk) -> None:
    """Judge the map by the answers, write the figures, and fit again with them if asked to."""
    from crowdfield import pipeline
    from crowdfield.cli.console import share, table
    from crowdfield.cli.inputs import write_finding
    from crowdfield.io.table import write_rows
    from crowdfield.pipeline import assessing

    answers = assessing.read_checked(checked)
    found = assessing.assess(fused, answers, level)
    with talk.warnings_as_remarks():
        for path in outputs:
            if path.suffix.lower() == ".csv":
                write_rows(list(found.states.columns), found.states.itertuples(index=False), path)
            else:
                write_finding(found, path)
    written = list(outputs)
    if gold is not None:
        with talk.warnings_as_remarks(), talk.progress("Fitting again with the answers"):
            pipeline.save_run(assessing.with_gold(fused, answers), gold)
        written.append(gold)

    def shown(row: Any, name: str) -> str:
        if row[name] != row[name]:
            return "none"
        return share_with_interval(row[name], row[f"{name}_low"], row[f"{name}_high"])

    rows = [
        [r["state"], share(r["mapped_share"]), *(shown(r, name) for name in ("area", "area_pp", "users", "producers"))]
        for r in found.states.to_dict("records")
    ]
    names = ["state", "mapped", "by checks", "checks and map", "right", "found"]
    legend = (
        "mapped: share of the map where it is the most probable state; "
        "by checks, checks and map: estimates of its true share; "
        "right: of what is mapped so, the share that is so; found: of what is so, the share that is mapped so"
    )
    text = [*found.lines(), table(None, names, rows, right=(1, 2, 3, 4, 5)), legend]
    text += [f"wrote {path}" for path in written]
    talk.result({**found.plain(), "written": [str(path) for path in written]}, text)
