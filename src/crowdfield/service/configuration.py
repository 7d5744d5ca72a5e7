"""Where settings come from, in order of precedence: the command line (only options that were given), environment
variables, a file, the defaults."""

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from crowdfield.errors import InputError
from crowdfield.io.toml_files import read_toml
from crowdfield.service.logs import redact
from crowdfield.service.settings import EVERY_HOST, PREFIX, Settings, variable

FILE_VARIABLE = f"{PREFIX}CONFIG"
# Variables with this prefix that are not settings: the path of the settings file, the folder of `crowdfield.datasets`,
# and the password that deploy/compose.yaml puts into the address of the database.
NOT_SETTINGS = frozenset({FILE_VARIABLE, f"{PREFIX}DATA", f"{PREFIX}PASSWORD"})
# SQLAlchemy writes this in place of a password.
MASK = "***"
# Settings that are never shown.
SECRETS = frozenset({"smtp_password"})
# An unknown name this similar to a setting's name (difflib's ratio) is taken for a typing error.
TYPO_SIMILARITY = 0.75


@dataclass(frozen=True)
class Configuration:
    """The settings, and where the value of each came from."""

    settings: Settings
    origins: Mapping[str, str]
    notes: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """All settings as a table for the operator, without passwords."""
        values = {name: displayed(name, getattr(self.settings, name)) for name in Settings.model_fields}
        name_width, value_width = max(map(len, values)), max(map(len, values.values()))
        table = [
            f"  {name:<{name_width}}  {value:<{value_width}}  {self.origins[name]}" for name, value in values.items()
        ]
        return ["settings, and where each was found:", *table, *(f"note: {note}" for note in self.notes)]


def load(
    flags: Mapping[str, Any] | None = None,
    *,
    file: Path | None = None,
    environment: Mapping[str, str] | None = None,
    options: Mapping[str, str] | None = None,
) -> Configuration:
    """The settings from all sources together.

    `flags` holds only what was given on the command line. `options` names the option that sets a setting where the two
    names differ. Without `environment`, the process's own is used.
    """
    variables = {name.upper(): value for name, value in (os.environ if environment is None else environment).items()}
    path = file or (Path(variables[FILE_VARIABLE]) if variables.get(FILE_VARIABLE) else None)
    values: dict[str, Any] = {}
    origins = dict.fromkeys(Settings.model_fields, "default")
    notes: list[str] = []
    if path is not None:
        found = _read(path)
        values |= found
        origins |= dict.fromkeys(found, f"file {path}")
        notes += _readable_secret(path, found)
    notes += _unknown_variables(variables)
    for name in Settings.model_fields:
        if variables.get(variable(name)):
            values[name], origins[name] = variables[variable(name)], f"environment {variable(name)}"
    for name, value in (flags or {}).items():
        _known(name, "the command line")
        values[name], origins[name] = value, f"command line {(options or {}).get(name, '--' + name.replace('_', '-'))}"
    try:
        settings = Settings(**values)
    except ValidationError as error:
        # The message leaves the value out: it may be an address with a password.
        problems = [
            f"{problem['loc'][0]} ({origins[str(problem['loc'][0])]}): {problem['msg'].removeprefix('Value error, ')}"
            for problem in error.errors()
        ]
        raise InputError(f"these settings cannot be used: {'; '.join(problems)}") from None
    if EVERY_HOST in settings.hosts:
        notes.append(
            "requests for any host name are answered; list its names in allowed_hosts (--name) against DNS rebinding"
        )
    return Configuration(settings, origins, tuple(notes))


def displayed(name: str, value: Any) -> str:
    """The value of a setting as text, without passwords."""
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
    """The address of a database without its password, which may stand before the host or in the query."""
    if "://" not in database:
        return database
    try:
        url = make_url(database)
    except ArgumentError:
        return "(an address that cannot be read)"
    hidden = {name: MASK if "pass" in name.lower() else value for name, value in url.query.items()}
    return url.set(query=hidden).render_as_string(hide_password=True)


def _read(path: Path) -> dict[str, Any]:
    """The settings of a TOML file; an error for a name that is not a setting."""
    found = read_toml(path)
    for name in found:
        _known(name, str(path))
    return found


def _known(name: str, where: str) -> None:
    if name not in Settings.model_fields:
        close = get_close_matches(name, Settings.model_fields, 1, TYPO_SIMILARITY)
        raise InputError(f"{where}: there is no setting '{name}'" + (f"; did you mean '{close[0]}'?" if close else ""))


def _unknown_variables(variables: Mapping[str, str]) -> list[str]:
    """Notes about variables with our prefix that are not settings.

    One that looks like a misspelt setting is an error, as it is in a file: the setting that was meant may be one that
    protects the service. Others are only noted: Kubernetes, for one, sets variables of its own with our prefix.
    """
    known = [variable(name) for name in Settings.model_fields]
    unknown = sorted(name for name in variables if name.startswith(PREFIX) and name not in {*known, *NOT_SETTINGS})
    for name in unknown:
        close = get_close_matches(
            name.removeprefix(PREFIX), [k.removeprefix(PREFIX) for k in known], 1, TYPO_SIMILARITY
        )
        if close:
            raise InputError(f"there is no setting {name}; did you mean {PREFIX}{close[0]}?")
    return [f"{name} is not a setting and is ignored" for name in unknown]


def _readable_secret(path: Path, found: Mapping[str, Any]) -> list[str]:
    database = found.get("database")
    secret = (isinstance(database, str) and MASK in masked(database)) or any(name in found for name in SECRETS)
    if not secret or not path.stat().st_mode & stat.S_IROTH:
        return []
    return [f"{path} holds a password, and every user of this machine can read it. Run: chmod o-r {path}"]
