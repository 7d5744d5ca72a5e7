"""TOML files that users write: settings, label maps, texts of a report."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any

from crowdfield.errors import InputError


def read_toml(path: str | os.PathLike[str], *, what: str = "") -> dict[str, Any]:
    """The content of a TOML file; an error that names the file where it cannot be read. what: what the file holds."""
    named = f"{what} {path}" if what else str(path)
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{named}: cannot be read ({error.strerror}).") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{named}: is not TOML: {error}.") from error
