"""Where settings come from: the command line (only what was given there), then the environment, then a file, then the
defaults. The first that says something wins."""

import os
import stat
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from crowdfield.errors import InputError
from crowdfield.service.logs import redact
from crowdfield.service.settings import EVERY_HOST, PREFIX, Settings, variable

FILE_VARIABLE = f"{PREFIX}CONFIG"
# Variables of this prefix that are no settings of the service: the file of settings, the folder of
# `crowdfield.datasets`, and the password that deploy/compose.yaml puts into an address.
NOT_SETTINGS = frozenset({FILE_VARIABLE, f"{PREFIX}DATA", f"{PREFIX}PASSWORD"})
# What SQLAlchemy writes in the place of a password.
MASK = "***"
# Settings that are never shown.
SECRETS = frozenset({"smtp_password"})
# So alike must a name be to a setting's to be taken for a slip (difflib's ratio).
SLIP = 0.75


@dataclass(frozen=True)
class Configuration:
    """The settings, and of each where it was found."""

    settings: Settings
    origins: Mapping[str, str]
    notes: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """All settings for the eyes of an operator: no passwords."""
        values = {name: shown(name, getattr(self.settings, name)) for name in Settings.model_fields}
        wide, long = max(map(len, values)), max(map(len, values.values()))
        table = [f"  {name:<{wide}}  {value:<{long}}  {self.origins[name]}" for name, value in values.items()]
        return ["settings, and where each was found:", *table, *(f"note: {note}" for note in self.notes)]


def load(
    flags: Mapping[str, Any] | None = None,
    *,
    file: Path | None = None,
    environment: Mapping[str, str] | None = None,
    options: Mapping[str, str] | None = None,
) -> Configuration:
    """The settings that these sources give together. `flags` holds only what was given on the command line, and
    `options` the name of the option that gave it, where it is not the setting's own."""
    said = {name.upper(): value for name, value in (os.environ if environment is None else environment).items()}
    path = file or (Path(said[FILE_VARIABLE]) if said.get(FILE_VARIABLE) else None)
    values: dict[str, Any] = {}
    origins = dict.fromkeys(Settings.model_fields, "default")
    notes: list[str] = []
    if path is not None:
        found = _read(path)
        values |= found
        origins |= dict.fromkeys(found, f"file {path}")
        notes += _readable_secret(path, found)
    notes += _unknown_variables(said)
    for name in Settings.model_fields:
        if said.get(variable(name)):
            values[name], origins[name] = said[variable(name)], f"environment {variable(name)}"
    for name, value in (flags or {}).items():
        _known(name, "the command line")
        values[name], origins[name] = value, f"command line {(options or {}).get(name, '--' + name.replace('_', '-'))}"
    try:
        settings = Settings(**values)
    except ValidationError as error:
        # Without the value itself: it may be an address with a password.
        faults = [
            f"{fault['loc'][0]} ({origins[str(fault['loc'][0])]}): {fault['msg'].removeprefix('Value error, ')}"
            for fault in error.errors()
        ]
        raise InputError(f"these settings cannot be used: {'; '.join(faults)}") from None
    if EVERY_HOST in settings.hosts:
        notes.append("requests to any host name are answered; allowed_hosts (--name) guards against DNS rebinding")
    return Configuration(settings, origins, tuple(notes))


def shown(name: str, value: Any) -> str:
    """A setting's value without passwords."""
    if name == "database":
        return masked(value)
    if value is None:
        return "(none)"
    if name in SECRETS:
        return MASK
    if isinstance(value, list):
        return ", ".join(value) or "(none)"
    if isinstance(value, bool):
        return str(value).lower()
    return redact(str(value))


def masked(database: str) -> str:
    """The address of a database without its password, wherever in the address it stands."""
    if "://" not in database:
        return database
    try:
        url = make_url(database)
    except ArgumentError:
        return "(an address that cannot be read)"
    hidden = {name: MASK if "pass" in name.lower() else value for name, value in url.query.items()}
    return url.set(query=hidden).render_as_string(hide_password=True)


def _read(path: Path) -> dict[str, Any]:
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not TOML: {error}") from error
    for name in found:
        _known(name, str(path))
    return found


def _known(name: str, where: str) -> None:
    if name not in Settings.model_fields:
        close = get_close_matches(name, Settings.model_fields, 1, SLIP)
        raise InputError(f"{where}: there is no setting '{name}'" + (f"; did you mean '{close[0]}'?" if close else ""))


def _unknown_variables(said: Mapping[str, str]) -> list[str]:
    """A slip in a variable's name is an error, as it would be in a file: what was meant might keep strangers out. Other
    variables of our prefix are noted only: Kubernetes, for one, invents some."""
    known = [variable(name) for name in Settings.model_fields]
    unknown = sorted(name for name in said if name.startswith(PREFIX) and name not in {*known, *NOT_SETTINGS})
    for name in unknown:
        close = get_close_matches(name.removeprefix(PREFIX), [k.removeprefix(PREFIX) for k in known], 1, SLIP)
        if close:
            raise InputError(f"there is no setting {name}; did you mean {PREFIX}{close[0]}?")
    return [f"{name} is no setting and is ignored" for name in unknown]


def _readable_secret(path: Path, found: Mapping[str, Any]) -> list[str]:
    database = found.get("database")
    secret = (isinstance(database, str) and MASK in masked(database)) or any(name in found for name in SECRETS)
    if not secret or not path.stat().st_mode & stat.S_IROTH:
        return []
    return [f"{path} holds a password and everybody on this machine can read it: chmod o-r {path}"]
