"""`crowdfield report`: a situation report as one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from crowdfield.cli import options as opt
from crowdfield.cli.ask import Run


@opt.grouped
def report(
    run: Run,
    output: Annotated[
        list[Path] | None,
        opt.several_outputs("Where to write it: .html or .pdf."),
    ] = None,
    since: Annotated[
        Path | None,
        typer.Option(metavar="RUN", help="The run or map of the last report, to say what changed."),
    ] = None,
    districts: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Polygons of districts, to add their totals; or a table that crowdfield totals wrote. Any "
            "other table (.csv) is shown as it is.",
        ),
    ] = None,
    by: Annotated[
        str | None, typer.Option(metavar="NAME", help="With polygons: the property that names the districts.")
    ] = None,
    checks: Annotated[
        Path | None,
        typer.Option(
            metavar="TABLE.csv", help="A table that crowdfield assess result wrote. Any other table is shown as it is."
        ),
    ] = None,
    title: opt.Title = None,
    texts: Annotated[
        Path | None, typer.Option(metavar="FILE.toml", help="The words of the report in another language.")
    ] = None,
    *,
    beliefs: opt.Beliefs,
    voice: opt.Voice,
) -> None:
    """Write a situation report: map, changes, sources and their accuracy, where to look next, what is unknown.

    One self-contained page, printable on A4; as PDF where Chromium is installed.
    """
    from crowdfield import pipeline
    from crowdfield.cli.console import Talk
    from crowdfield.cli.inputs import map_from, run_from, settings_from
    from crowdfield.errors import InputError
    from crowdfield.pipeline.report.page import check_report_path, read_texts

    talk = Talk.of(voice)
    outputs = output or [Path("report.html")]
    try:
        for path in outputs:
            check_report_path(path)
        words = read_texts(texts)
    except InputError as problem:
        raise typer.BadParameter(str(problem)) from problem
    fused = run_from(run, settings_from(beliefs), talk)
    earlier = None if since is None else map_from(since)
    totals = None if districts is None else _districts(districts, by, fused)
    found = None if checks is None else _table(checks)
    with talk.warnings_as_remarks(), talk.progress("Writing the report"):
        written = [
            pipeline.write_report(fused, path, texts=words, title=title, since=earlier, districts=totals, checks=found)
            for path in outputs
        ]
    talk.result({"written": [str(path) for path in written]}, [f"wrote {path}" for path in written])


def _districts(path: Path, by: str | None, fused: Any) -> Any:
    """Figures of districts: from a table, or added up now for a file of polygons."""
    if path.suffix.lower() == ".csv":
        return _table(path)
    from crowdfield.pipeline.totals import totals

    return totals(fused, path, by=by)


def _table(path: Path) -> Any:
    """A table that another command wrote; a second row of HXL tags is left out."""
    import pandas as pd

    from crowdfield.errors import InputError

    try:
        frame = pd.read_csv(path)
    except (OSError, ValueError) as problem:
        raise InputError(f"{path}: cannot be read as a table: {problem}.") from problem
    if len(frame) and str(frame.iloc[0, 0]).startswith("#"):
        in_km2 = "weight" in frame and "+km2" in str(frame["weight"].iloc[0])
        frame = frame.iloc[1:].reset_index(drop=True).apply(_numbers)
        frame.attrs |= {"unit": "km²"} if in_km2 else {}
    return frame


def _numbers(column: Any) -> Any:
    """A column as numbers if all its values are numbers."""
    import pandas as pd

    found = pd.to_numeric(column, errors="coerce")
    return found if found.notna().equals(column.notna()) else column
