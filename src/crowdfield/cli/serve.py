"""Commands of the live map: `serve`, `backup`, `restore`, `check` and `retention`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from crowdfield.cli import options as opt

Database = Annotated[
    str | None,
    typer.Option(
        "--database", "-d", metavar="FILE|ADDRESS", show_default="crowdfield.db",
        help="A file (SQLite) or postgresql://…; an address with a password is better given in CROWDFIELD_DATABASE "
        "or a settings file.",
    ),
]  # fmt: skip
Config = Annotated[
    Path | None,
    typer.Option(metavar="FILE.toml", help="A file of settings (docs/settings.md); also CROWDFIELD_CONFIG."),
]
# Settings whose option of `serve` has a different name.
OPTIONS = {"allowed_hosts": "--name", "cors_origins": "--origin", "anonymous_reading": "--anonymous"}


def serve(
    database: Database = None,
    config: Config = None,
    host: Annotated[str | None, typer.Option(show_default="127.0.0.1", help="The address to listen on.")] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, show_default="8000", help="The port to listen on.")
    ] = None,
    name: Annotated[
        list[str] | None, typer.Option(metavar="HOST", help="A host name of the service; may be repeated.")
    ] = None,
    anonymous: Annotated[
        bool | None,
        typer.Option(
            "--anonymous/--no-anonymous", show_default="anonymous", help="Whether maps can be read without a key."
        ),
    ] = None,
    basemap: Annotated[Path | None, typer.Option(help="A PMTiles or GeoJSON file to draw under the map.")] = None,
    origin: Annotated[
        list[str] | None, typer.Option(metavar="URL", help="Another site whose pages may call the API.")
    ] = None,
    worker: Annotated[
        bool | None,
        typer.Option(
            "--worker/--no-worker", show_default="worker", help="Whether to start an inference worker as well."
        ),
    ] = None,
    log_level: Annotated[
        str | None, typer.Option(metavar="LEVEL", show_default="info", help="debug, info, warning or error.")
    ] = None,
    more: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Any other setting of docs/settings.md; may be repeated."),
    ] = None,
    show_settings: Annotated[
        bool, typer.Option("--show-settings", help="Only show the settings and where each comes from.")
    ] = False,
) -> None:
    """Run the live map: reports in, maps out, and a page in the browser. Stop it with Ctrl+C.

    Options given here override environment variables (CROWDFIELD_…), which override the settings file.
    """
    serving = need("serving")
    from crowdfield.service.configuration import load

    given = {
        "database": database, "host": host, "port": port, "allowed_hosts": name, "anonymous_reading": anonymous,
        "basemap": basemap, "cors_origins": origin, "worker": worker, "log_level": log_level,
    }  # fmt: skip
    flags = {setting: value for setting, value in given.items() if value not in (None, [])}
    others = dict(_assignment(pair) for pair in more or [])
    options = OPTIONS | dict.fromkeys(others, "--set")
    configuration = load(flags | others, file=config, options=options)
    if show_settings:
        print("\n".join(configuration.lines()))
    else:
        serving.run(configuration)


def backup(
    target: Annotated[Path, typer.Argument(metavar="BACKUP.zip", help="Where to write it.")],
    database: Database = None,
    config: Config = None,
    json: opt.Json = False,
    quiet: opt.Quiet = False,
) -> None:
    """Save a whole workspace in one file; the service may keep running. Restore it into either kind of database."""
    need()
    from crowdfield.cli.console import Talk
    from crowdfield.service.operations import backup as save

    counts = save(database_of(database, config), target)
    Talk(quiet=quiet, as_json=json).result(
        {"backup": str(target), "rows": counts}, [f"wrote {target}: {_counts_in_words(counts)}"]
    )


def restore(
    source: Annotated[Path, typer.Argument(metavar="BACKUP.zip", help="What `crowdfield backup` wrote.")],
    database: Database = None,
    config: Config = None,
    json: opt.Json = False,
    quiet: opt.Quiet = False,
) -> None:
    """Put a backup into an empty database."""
    need()
    from crowdfield.cli.console import Talk
    from crowdfield.service.operations import restore as put

    counts = put(source, database_of(database, config))
    Talk(quiet=quiet, as_json=json).result({"rows": counts}, [f"restored {_counts_in_words(counts)}"])


def check(
    database: Database = None,
    config: Config = None,
    replay: Annotated[bool, typer.Option(help="Whether to fit every map again from its log.")] = True,
    json: opt.Json = False,
    quiet: opt.Quiet = False,
) -> None:
    """Check that a workspace is intact and that every map can be made again from its log. Exit code 1 if not."""
    need()
    from crowdfield.cli.console import Talk
    from crowdfield.service.operations import check as look

    found = look(database_of(database, config), replay=replay)
    lines = [f"{name}: {fact}" for name, fact in found.facts.items()] + [f"PROBLEM {p}" for p in found.problems]
    verdict = "all is well" if not found.problems else f"{len(found.problems)} problems"
    data = {"facts": found.facts, "problems": found.problems}
    Talk(quiet=quiet, as_json=json).result(data, [*lines, verdict])
    if found.problems:
        raise typer.Exit(1)


def retention(
    database: Database = None,
    config: Config = None,
    older_than: Annotated[
        str | None, typer.Option(metavar="AGE", help="Delete reports older than this: 90d, 12h, 2w.")
    ] = None,
    source: Annotated[str | None, typer.Option(metavar="NAME", help="Delete all reports of this source.")] = None,
    situation: Annotated[str | None, typer.Option(metavar="ID", help="Only in this situation.")] = None,
    json: opt.Json = False,
    quiet: opt.Quiet = False,
) -> None:
    """Delete reports for good: rows, saved models and free pages are overwritten, and maps are fitted without them."""
    need()
    from crowdfield.cli.console import Talk
    from crowdfield.service.operations import purge

    age = None if older_than is None else seconds(older_than)
    counts = purge(database_of(database, config), older_than=age, source=source, situation=situation)
    lines = [f"{name}: {count:,} deleted" for name, count in counts.items()] or ["nothing to delete"]
    Talk(quiet=quiet, as_json=json).result({"deleted": counts}, lines)


def database_of(given: str | None, config: Path | None) -> str:
    """The database that `crowdfield serve` would use with the same option, environment and file."""
    from crowdfield.service.configuration import load

    return load({} if given is None else {"database": given}, file=config).settings.database


def _assignment(pair: str) -> tuple[str, str]:
    name, equals, value = pair.partition("=")
    if not equals:
        raise typer.BadParameter(f"{pair!r}: write it as NAME=VALUE, for example minimum_count=5.")
    return name.strip().replace("-", "_"), value


def need(module: str = "database") -> Any:
    """A module of the service, or an error that says how to install what it needs. Most commands need the database
    alone, and start in a third of the time that the whole server takes."""
    from importlib import import_module

    from crowdfield.errors import MissingDependencyError

    try:
        return import_module(f"crowdfield.service.{module}")
    except ImportError as error:
        raise MissingDependencyError(
            f"the live map needs more than the core ({error.name}). Install it with: pip install 'crowdfield[serve]'"
        ) from error


def seconds(age: str) -> float:
    """An age such as 90d, 12h or 2w in seconds."""
    import re

    from crowdfield.errors import InputError

    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([hdw])\s*", age)
    if match is None:
        raise InputError(f"{age!r} is not an age. Write it like 90d, 12h or 2w.")
    return float(match[1]) * {"h": 3600.0, "d": 86400.0, "w": 604800.0}[match[2]]


def _counts_in_words(counts: dict[str, int]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)
