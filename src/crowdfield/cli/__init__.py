"""The command line. Each command parses its arguments, calls `pipeline` and shows the result; large libraries are
imported only when they are needed."""

from __future__ import annotations

import sys

from crowdfield.cli.app import app

__all__ = ["app", "main"]


def main(arguments: list[str] | None = None) -> None:
    """Run a command. Exit code 0: done; 1: something is wrong with the data; 2: with how the command was used."""
    from crowdfield.cli.console import complain
    from crowdfield.errors import CrowdfieldError

    try:
        app(arguments, prog_name="crowdfield")
    except CrowdfieldError as problem:
        complain(str(problem))
        sys.exit(1)
    except OSError as problem:
        # A missing file, a full disk, no permission: the system's own words are the clearest.
        complain(": ".join(str(part) for part in (problem.filename, problem.strerror or problem) if part))
        sys.exit(1)
    except KeyboardInterrupt:
        complain("stopped.")
        sys.exit(130)
