"""The commands and their order in the help."""

from __future__ import annotations

from typing import Annotated

import typer

app = typer.Typer(
    name="crowdfield",
    help="Maps you can trust, from reports you can't.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        from crowdfield import __version__

        typer.echo(f"crowdfield {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and stop.")
    ] = False,
) -> None:
    pass


# Commands are plain functions; only their signatures are needed here, and what they use is imported when they run.
from crowdfield.cli import (  # noqa: E402
    ask,
    assess,
    check,
    compare,
    demo,
    follow,
    fuse,
    keys,
    make,
    report,
    serve,
    totals,
)

for _name, _function, _short in (
    ("fuse", fuse.fuse, "Make a map from reports."),
    ("follow", follow.follow, "Keep a map up to date from a form on a server."),
    ("sources", ask.sources, "Who can be trusted."),
    ("next", ask.next_, "Where to look next."),
    ("totals", totals.totals, "How much of each district is in each state."),
    ("score", ask.score, "How good the map is, where the truth is known."),
    ("assess", assess.assess, "Spot checks: draw places to check, and judge the map by them."),
    ("check-model", check.check_model, "Does the model fit the reports?"),
    ("compare", compare.compare, "What changed between two runs."),
    ("report", report.report, "A situation report as one page."),
    ("inspect", ask.inspect, "What is in this file, and how it would be read."),
    ("convert", make.convert, "A map or reports in another format."),
    ("simulate", make.simulate, "Simulate reports, to try things where the truth is known."),
    ("reproduce", make.reproduce, "Rerun the experiments of the paper."),
    ("demo", demo.demo, "Every kind of output, for a simulated flood."),
    ("serve", serve.serve, "Run the live map."),
    ("backup", serve.backup, "Save a workspace of the live map in one file."),
    ("restore", serve.restore, "Put a backup into an empty database."),
    ("check", serve.check, "Check that a workspace is complete and intact."),
    ("retention", serve.retention, "Delete old reports for good."),
    ("keys", keys.keys, "Manage who may use the live map."),
):
    app.command(_name, short_help=_short)(_function)
