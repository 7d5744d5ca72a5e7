"""`crowdfield check-model`: does the model fit the reports?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from crowdfield.cli import options as opt
from crowdfield.cli.ask import Run


@opt.grouped
def check_model(
    run: Run,
    output: Annotated[
        list[Path] | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Draw what was found (.png) or write it (.json). May be repeated."
        ),
    ] = None,
    draws: Annotated[int, typer.Option(min=10, help="Posterior draws for the check of agreement.")] = 100,
    *,
    beliefs: opt.Beliefs,
    voice: opt.Voice,
) -> None:
    """Does the model fit? Judged by the reports alone, without any known truth.

    Does the map predict left-out reports better than each source's own label frequencies? Do reports about one place
    agree more than the model expects? Are the predicted probabilities of left-out reports calibrated?
    """
    from crowdfield.cli.console import Talk, table
    from crowdfield.cli.inputs import can_be_written, run_from, settings_from, write_finding
    from crowdfield.pipeline.checking import check_model as ask

    talk = Talk.of(voice)
    outputs = output or []
    if wrong := [path for path in outputs if path.suffix.lower() not in (".png", ".json")]:
        raise typer.BadParameter(f"{wrong[0]}: write it as .png or .json.", param_hint="--output")
    for path in outputs:
        can_be_written({"--output": path})
    fused = run_from(run, settings_from(beliefs), talk)
    with talk.progress("Predicting left-out reports"):
        found = ask(fused.model, draws=draws)
    for path in outputs:
        write_finding(found, path)
    rows = [
        [row.votes, f"{row.reports:,}", f"{row.surprise:.3f}", f"{row.habit_surprise:.3f}"]
        for row in found.by_votes.itertuples()
    ]
    columns = ["reports about the place", "reports", "bits per left-out report", "by label frequencies"]
    text = [*found.lines(), table(None, columns, rows, right=(1, 2, 3)), *(f"wrote {path}" for path in outputs)]
    talk.result({**found.plain(), "written": [str(path) for path in outputs]}, text)
