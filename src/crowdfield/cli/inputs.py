"""From arguments to settings, reports and runs."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from crowdfield.cli.console import Talk
from crowdfield.counting import counted

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from crowdfield.cli.options import OptionGroup, Picture
    from crowdfield.data import Heatmap, Reports
    from crowdfield.io import ReadResult
    from crowdfield.pipeline import Fused, Settings

STANDARD_INPUT = "standard input"
READ = (
    "format", "lat", "lon", "label", "source", "time", "place", "accuracy", "count", "score", "score_columns", "crs",
    "positive", "map_labels", "duplicates", "dates", "layer", "encoding", "polygons", "reading", "swap", "missing",
)  # fmt: skip


def settings_from(*groups: OptionGroup) -> Settings:
    """The settings of a config file, overridden by options of the command line."""
    from crowdfield.errors import InputError
    from crowdfield.geography import parse_length, parse_region
    from crowdfield.pipeline import Settings, read_settings

    flags = {name: value for group in groups for name, value in group.given().items()}
    config: Path | None = flags.pop("config", None)
    given = {name: value for name, value in flags.items() if value is not None and value != []}
    values = read_settings(config) if config is not None else {}
    values["read"] = {**values.get("read", {}), **{name: given.pop(name) for name in READ if name in given}}
    values["sources"] = {**values.get("sources", {}), **_trust(given.pop("trust", []))}
    if "states" in given:
        given["states"] = [state.strip() for state in given["states"].split(",")]
    if given.get("grades", "none") not in ("none", "auto"):
        given["grades"] = [grade.strip() for grade in given["grades"].split(",")]
    if str(given.get("communities", "")).isdigit():
        given["communities"] = int(given["communities"])
    if "covariate" in given:
        given["covariates"] = [str(path) for path in given.pop("covariate")]
    if "mask" in given:
        given["mask"] = str(given["mask"])
    try:
        if "region" in given:
            given["region"] = parse_region(given["region"])
        if "cell" in given:
            parse_length(given["cell"])
        if given.get("lengthscale", "learn") != "learn":
            parse_length(given["lengthscale"])
        return Settings(**{**values, **given})
    except InputError as problem:
        # What was typed is wrong, not the data: exit code 2.
        raise typer.BadParameter(str(problem)) from problem


def can_be_written(
    paths: Mapping[str, Path | None], formats: Sequence[str] | None = None, *, inputs: Sequence[Path] = ()
) -> None:
    """Check that all outputs can be written, before any work, and that none replaces an input. paths: the path of each
    option."""
    from crowdfield import io
    from crowdfield.errors import CrowdfieldError

    for option, path in paths.items():
        if path is None:
            continue
        try:
            io.check_output(path, formats if formats is not None else [path.suffix.lower()])
        except CrowdfieldError as problem:
            raise typer.BadParameter(str(problem), param_hint=option) from problem
        if path.exists() and any(other.exists() and path.samefile(other) for other in inputs):
            raise typer.BadParameter(
                f"{path} is what is read, and would be lost. Name another file.", param_hint=option
            )


def in_front(settings: Settings, picture: Picture) -> Settings:
    """The settings, with the state that --show names as the one in question."""
    from crowdfield.plot.sheet import names_state

    return replace(settings, positive=picture.show) if names_state(picture.show) else settings


def shown_first(heatmap: Heatmap, picture: Picture) -> Heatmap:
    """A map that is there already, with the state that --show names as the one in question."""
    from crowdfield.data.positive import matching
    from crowdfield.plot.sheet import names_state

    if not names_state(picture.show):
        return heatmap
    return replace(heatmap, metadata={**heatmap.metadata, "positive": matching(heatmap.states, picture.show)})


def picture_options(path: Path, picture: Picture) -> dict[str, Any]:
    """The options for writing a picture; none for other formats."""
    from crowdfield.plot.sheet import names_state

    if path.suffix.lower() not in (".png", ".svg", ".pdf"):
        return {}
    # A state that was named is the one in question already, so that every output agrees.
    show = None if names_state(picture.show) else picture.show
    return {"show": show, "title": picture.title, "size": picture.size, "bare": picture.bare}


def read_file(path: Path, settings: Settings, talk: Talk, *, whole: bool = False) -> ReadResult:
    """Read one file, print the reader's notes, and save rejected rows beside the file.

    whole: do not leave out what lies outside the region.
    """
    from crowdfield import io
    from crowdfield.errors import ReportFormatError

    path, shown = on_disk(path)
    options = {name: value for name, value in settings.read.items() if name != "map_labels"}
    options["label_map"] = settings.read.get("map_labels")
    options.setdefault("cell", settings.cell)  # the cells that an image without any marks covers
    if not whole:
        options["region"] = settings.region
    try:
        with talk.bytes_read(f"Reading {shown.name}") as report:
            return io.read(path, progress=report, **options)
    except ReportFormatError as problem:
        if shown == path:
            raise
        raise type(problem)(
            problem.message, advice=problem.advice, file=str(shown), line=problem.line, column=problem.column
        ) from problem


def on_disk(path: Path) -> tuple[Path, Path]:
    """(path to read, name to show): standard input, written "-", is kept in a file until the command ends."""
    if str(path) != "-":
        return path, path
    return _standard_input(), Path(STANDARD_INPUT)


@lru_cache(maxsize=1)
def _standard_input() -> Path:
    import atexit
    import shutil
    import tempfile

    folder = tempfile.TemporaryDirectory(prefix="crowdfield-")
    atexit.register(folder.cleanup)
    path = Path(folder.name) / STANDARD_INPUT
    with path.open("wb") as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
    return path


MOST_UNUSED_SHARE = 0.5  # of the rows: if more are not used, something about the file was probably misunderstood


def loss_notes(read: int, duplicate: int, rejected: int) -> list[str]:
    """Notes for the case that most rows of a file are not used, with what to do."""
    notes = []
    if duplicate > MOST_UNUSED_SHARE * read:
        notes.append(
            f"{duplicate:,} of {read:,} rows repeat another row (its id, or its source, place, time and label) and do "
            "not count again. If they are about different things at one place, use --duplicates keep"
        )
    if rejected > MOST_UNUSED_SHARE * read:
        notes.append(
            f"{rejected:,} of {read:,} rows cannot be used, so the map would show a small part of the file. "
            "Look at the reasons first; another column may be meant (--lat, --lon, --label)"
        )
    return notes


def remark_on(read: ReadResult, talk: Talk, output: Path | None = None) -> None:
    """Print the reader's notes. Rejected rows go beside the file or, if its folder is read-only, beside the output."""
    talk.remark(read.statement)
    talk.remark(
        f"{counted(read.read, 'row')}: {read.used:,} used, {read.duplicate:,} duplicate, {read.rejected:,} rejected"
    )
    for note in (*read.notes, *loss_notes(read.read, read.duplicate, read.rejected)):
        talk.remark(f"note: {note}.")
    if (kept := read.write_rejects(instead=output.parent if output is not None else None)) is not None:
        talk.remark(f"note: rejected rows and the reasons are in {kept}.")


def read_reports(
    paths: Sequence[Path], settings: Settings, talk: Talk, output: Path | None = None
) -> tuple[Reports, Settings, dict[str, Any]]:
    """All files as one table; the settings, with the states that the layout defines; and the readers' statements."""
    from crowdfield.errors import InputError
    from crowdfield.pipeline import joined
    from crowdfield.pipeline.grading import with_grades

    parts, said = [], []
    graded: tuple[Any, ...] | None = None
    for path in paths:
        read = read_file(path, settings, talk)
        remark_on(read, talk, output)
        if read.suspected_swap:
            raise InputError(
                f"{path}: {read.suspected_swap}. If they are right as they are, name the region with --region W,S,E,N."
            )
        parts.append(read.reports)
        # The name alone: maps are published, and where a file lay is nobody's business.
        summary = read.summary() | {"file": on_disk(path)[1].name}
        said.append({name: value for name, value in summary.items() if name != "rejects"})
        if settings.states is None and read.states is not None:
            settings = replace(settings, states=read.states)
        if settings.grades == "auto" and read.grades is not None:
            graded = read.grades
    together = joined(parts)
    settings = with_grades(settings, together, graded)
    for state in settings.states or ():
        if str(state).casefold() not in {str(label).casefold() for label in together.labels}:
            talk.remark(f"note: no report says '{state}', which the settings name as a state.")
    for name in settings.sources:
        # Otherwise a misspelt name of a trusted source would go unnoticed.
        if name not in together.sources:
            talk.remark(f"note: no report is by '{name}', whom the settings name.")
    files = [{"file": on_disk(path)[1].name, "hash": f"sha256:{digest(on_disk(path)[0])}"} for path in paths]
    return together, settings, {"input": files, "read": said}


def run_from(path: Path, settings: Settings, talk: Talk) -> Fused:
    """A saved run (.cf), or one made now from a file of reports."""
    from crowdfield import pipeline

    if path.suffix.lower() == ".cf":
        return pipeline.load_run(path, settings.covariates)
    reports, settings, about = read_reports([path], settings, talk)
    with talk.warnings_as_remarks(), talk.progress("Fusing") as say:
        fused = pipeline.fuse(reports, settings, about=about, progress=say)
    for warning in fused.about.get("warnings", []):
        talk.remark(f"note: {warning}")
    return fused


def map_and_keys(path: Path) -> tuple[Heatmap, NDArray[np.uint64] | None]:
    """The map of a saved run (.cf) and the keys of its reports; a map written as .tif or .nc holds no keys."""
    from crowdfield import io, pipeline

    if path.suffix.lower() != ".cf":
        return io.read_map(path), None
    run = pipeline.load_run(path)
    return run.heatmap, run.seen


def map_from(path: Path) -> Heatmap:
    """The map of a saved run (.cf), or one written as .tif or .nc."""
    return map_and_keys(path)[0]


def write_finding(found: Any, path: Path) -> None:
    """Draw what a check found (.png, .svg, .pdf), or write it as JSON."""
    from crowdfield import io
    from crowdfield.io.picture import PICTURES, write_figure

    if path.suffix.lower() in PICTURES:
        write_figure(found.figure(), path)
        return
    with io.replacing(path) as temporary:
        temporary.write_text(json.dumps(found.plain(), ensure_ascii=False, indent=1), encoding="utf-8")


def digest(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _trust(pairs: Sequence[str]) -> dict[str, str]:
    out = {}
    for pair in pairs:
        source, equals, level = pair.rpartition("=")
        if not equals or not source:
            raise typer.BadParameter(f"{pair!r}: write it as SOURCE=LEVEL, for example fire-brigade=high.")
        out[source] = level
    return out
