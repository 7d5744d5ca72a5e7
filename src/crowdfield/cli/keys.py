"""`crowdfield keys`: who may use the live map, and with which rights."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from crowdfield.cli import options as opt
from crowdfield.cli.serve import Config, Database, database_of, need, seconds

CREATE = "For create"
USAGE = "use: crowdfield keys list, keys create --name …, keys revoke ID or keys rotate ID"


def keys(
    action: Annotated[str, typer.Argument(metavar="list|create|revoke|rotate")] = "list",
    key: Annotated[str | None, typer.Argument(metavar="[ID]", help="For revoke and rotate: the id of the key.")] = None,
    database: Database = None,
    config: Config = None,
    name: Annotated[
        str, typer.Option(help="Name of the key's owner; its reports count as this source.", rich_help_panel=CREATE)
    ] = "",
    role: Annotated[
        str, typer.Option(help="reader, reporter, trusted or admin.", rich_help_panel=CREATE)
    ] = "reporter",
    expires: Annotated[
        str | None,
        typer.Option(
            metavar="AGE|DATE", help="How long it is valid: 90d, 12h, 2w or 2027-01-31; also for rotate.",
            rich_help_panel=CREATE,
        ),
    ] = None,
    map_: Annotated[
        list[str] | None,
        typer.Option("--map", metavar="ID", help="Only for this map; may be repeated.", rich_help_panel=CREATE),
    ] = None,
    any_source: Annotated[
        bool,
        typer.Option(
            "--may-report-as-others", help="Reports may name other sources than the key itself.",
            rich_help_panel=CREATE,
        ),
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Write a new key here, readable by you only, not to the screen."
        ),
    ] = None,
    json: opt.Json = False,
    quiet: opt.Quiet = False,
) -> None:  # fmt: skip
    """Manage who may use the live map. A key is shown once, when it is made; only its hash is stored.

    `rotate` replaces a key: the new one has the same name, rights and report ids, and the old one is revoked.
    """
    need()
    from crowdfield.cli.console import Talk
    from crowdfield.errors import InputError
    from crowdfield.service.auth import Keys, Rights, Role
    from crowdfield.service.database import open_database

    talk = Talk(quiet=quiet, as_json=json)
    until = None if expires is None else _moment(expires)
    engine = open_database(database_of(database, config), pool_size=1)
    held = Keys(engine)
    try:
        if action == "create":
            if role not in Role.__members__ or role == "nobody" or not name:
                raise InputError("a key needs --name, and --role reader, reporter, trusted or admin")
            rights = Rights(tuple(map_) if map_ else None, any_source, until)
            _hand_over(lambda: held.create(name, Role[role], rights), output, talk)
        elif action == "rotate" and key:
            _hand_over(lambda: held.rotate(key, expires=until), output, talk)
        elif action == "revoke" and key:
            held.revoke(key)
            talk.result({"revoked": key}, [f"revoked {key}"])
        elif action == "list":
            known = held.all()
            talk.result({"keys": [vars(one) | {"state": one.state} for one in known]}, [_line(one) for one in known])
        else:
            raise InputError(USAGE)
    finally:
        engine.dispose()


def _hand_over(make: Any, output: Path | None, talk: Any) -> None:
    """Show a new key, or put it into a file that only its owner may read."""
    from crowdfield.errors import CrowdfieldError

    if output is None:
        made = make()
        talk.result({"key": made}, [made])
        return
    # The file comes first: a key that cannot be written down must not exist. It must be a new one, because an old
    # file may be open to others, or a link that somebody else has put there.
    try:
        with os.fdopen(os.open(output, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(f"{make()}\n")
    except CrowdfieldError:
        output.unlink()
        raise
    talk.result({"written": str(output)}, [f"wrote the key to {output}"])


def _line(key: Any) -> str:
    until = "" if key.expires is None else f"  until {datetime.fromtimestamp(key.expires, UTC):%Y-%m-%d %H:%M} UTC"
    maps = "" if key.maps is None else f"  only {', '.join(key.maps) or 'maps that are gone'}"
    others = "  may report as others" if key.any_source or key.role == "admin" else ""
    return f"{key.id}  {key.role:<8}  {key.state:<7}  {key.name}{until}{maps}{others}"


def _moment(text: str) -> float:
    """A time in the future: an age from now, or a date."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return time.time() + seconds(text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
