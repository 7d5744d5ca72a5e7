"""`crowdfield compare`: what changed between two runs, and how probable it is that the change is real."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from crowdfield.cli import options as opt


@opt.grouped
def compare(
    before: Annotated[Path, typer.Argument(metavar="BEFORE", help="A run (.cf) or a map (.tif, .nc).")],
    after: Annotated[Path, typer.Argument(metavar="AFTER", help="A later run or map, or one with other settings.")],
    output: Annotated[
        list[Path] | None,
        opt.several_outputs("Write the change: .tif .geojson .gpkg .csv, or a picture: .png .svg .pdf."),
    ] = None,
    show: Annotated[
        str | None, typer.Option(metavar="STATE", help="The state to compare; default: the one the map shows first.")
    ] = None,
    least: Annotated[
        float, typer.Option(min=0.0, max=0.99, help="The smallest change of a probability that counts.")
    ] = 0.1,
    *,
    voice: opt.Voice,
) -> None:
    """What changed between two maps, and how probable it is that the change is real."""
    from crowdfield import pipeline
    from crowdfield.cli.console import Talk
    from crowdfield.cli.inputs import map_and_keys
    from crowdfield.io.layers import plain

    talk = Talk.of(voice)
    with talk.progress("Comparing"):
        (earlier, first), (later, second) = map_and_keys(before), map_and_keys(after)
        change = pipeline.compare(earlier, later, state=show, least=least)
    with talk.warnings_as_remarks():
        written = [pipeline.write_change(change, path) for path in output or []]
    found = change.summary()
    if first is not None and second is not None:
        found["shared_reports"] = len(set(first.tolist()) & set(second.tolist()))
    talk.result({**plain(found), "written": [str(path) for path in written]}, [*_lines(found, least), *_wrote(written)])


def _lines(found: dict[str, Any], least: float) -> list[str]:
    """What changed, in sentences."""
    from crowdfield.cli.console import share
    from crowdfield.pipeline.comparing import SURE

    by = f" by more than {share(least)}" if least else ""
    reports = found.get("reports") or {}
    counts = f"; reports: {reports['before']:,} before, {reports['after']:,} after" if all(reports.values()) else ""
    shared = found.get("shared_reports", 0)
    both = f"{shared:,} reports are in both maps, so the probabilities of a change are too cautious (docs/compare.md)"
    return [
        f"{found['state']}: {share(found['mean_before'])} of the map, then {share(found['mean_after'])}{counts}",
        *(
            f"{word} in {found[word]:,} of {found['cells']:,} cells"
            + (f" ({found[f'{word}_km2']:,.1f} km²)" if f"{word}_km2" in found else "")
            + f": P({word}{by}) is at least {share(SURE)} there"
            for word in ("rose", "fell")
        ),
        f"no change detected in {found['unchanged']:,}; nobody knows in {found['unknown']:,}",
        *([both] if shared else []),
    ]


def _wrote(paths: list[Path]) -> list[str]:
    return [f"wrote {path}" for path in paths]
