"""`crowdfield follow`: a map that follows a form on KoboToolbox or ODK Central."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from crowdfield.cli import options as opt

TOKEN = "CROWDFIELD_TOKEN"  # noqa: S105 - the name of the variable


@opt.grouped
def follow(
    url: Annotated[
        str,
        typer.Argument(
            metavar="URL",
            help="The form: https://HOST/api/v2/assets/UID/data.json (KoboToolbox) or "
            "https://HOST/v1/projects/N/forms/FORM.svc (ODK Central).",
        ),
    ],
    submissions: Annotated[
        Path,
        typer.Option(
            "--keep",
            metavar="FILE.jsonl",
            help="File that stores the submissions; those in it are not fetched again.",
            rich_help_panel=opt.OUTPUT,
        ),
    ] = Path("submissions.jsonl"),
    output: Annotated[
        list[Path] | None,
        typer.Option(
            "--output", "-o", metavar="MAP", help="Where to write the map, as for fuse.", rich_help_panel=opt.OUTPUT
        ),
    ] = None,
    every: Annotated[
        int | None, typer.Option(min=10, metavar="SECONDS", help="Ask again every so many seconds; default: ask once.")
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="A file with the token of your account (for ODK Central also user:password). "
            f"Default: the variable {TOKEN}.",
        ),
    ] = None,
    *,
    content: opt.Content,
    columns: opt.Columns,
    how: opt.Fusing,
    voice: opt.Voice,
) -> None:
    """Fetch the new submissions of a form, keep them in a file, and make the map again.

    Each submission is fetched once: later changes to it on the server are not seen. Remove the file to fetch everything
    again.
    """
    from crowdfield import io
    from crowdfield.cli.console import Talk
    from crowdfield.cli.inputs import can_be_written, settings_from
    from crowdfield.errors import CrowdfieldError, InputError
    from crowdfield.io.forms import form_at, pull

    talk = Talk.of(voice)
    settings = settings_from(content, columns, how)
    for path in output or []:
        can_be_written({"--output": path}, list(io.FORMATS))
    can_be_written({"--keep": submissions})
    try:
        form = form_at(url)
    except InputError as problem:
        raise typer.BadParameter(str(problem), param_hint="URL") from problem
    token = _token(token_file)
    while True:
        new, known = 0, 0
        try:
            with talk.progress(f"Asking {form.origin}"):
                new, known = pull(form, submissions, token)
            if new:
                talk.remark(f"{new:,} new submissions, {known:,} in all")
            if known and (new or not _are_newer(output or [], submissions)):
                _make(submissions, output or [], settings, talk)
        except CrowdfieldError as problem:
            # What cannot be fetched or mapped now may be so later: the server answers, or more people have reported.
            if every is None:
                raise
            talk.remark(f"note: {problem} Asking again in {every} s.")
        if every is None:
            break
        time.sleep(every)
    data = {"new": new, "submissions": known, "kept": str(submissions), "written": [str(p) for p in output or []]}
    talk.result(data, f"{new:,} new submissions, {known:,} in all, kept in {submissions}")


def _are_newer(outputs: list[Path], submissions: Path) -> bool:
    """Whether all maps were made after the last submission was fetched: a fit may have failed, or been interrupted."""
    fetched = submissions.stat().st_mtime_ns
    return all(path.exists() and path.stat().st_mtime_ns >= fetched for path in outputs)


def _make(submissions: Path, outputs: list[Path], settings: Any, talk: Any) -> None:
    """Fit all submissions so far from scratch, so that no mistake of an earlier map is carried over."""
    from crowdfield import io, pipeline
    from crowdfield.cli.inputs import read_reports

    if not outputs:
        return
    table, settings, about = read_reports([submissions], settings, talk, outputs[0])
    with talk.warnings_as_remarks(), talk.progress("Fusing") as say:
        fused = pipeline.fuse(table, settings, about=about, progress=say)
    for path in outputs:
        io.write(fused.heatmap, path)


def _token(file: Path | None) -> str | None:
    if file is None:
        return os.environ.get(TOKEN) or None
    try:
        token = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        raise typer.BadParameter(f"the file {file} cannot be read.", param_hint="--token-file") from None
    if not token or "\n" in token:
        raise typer.BadParameter(
            f"the file {file} must hold the token on a line of its own, and nothing else.", param_hint="--token-file"
        )
    return token
