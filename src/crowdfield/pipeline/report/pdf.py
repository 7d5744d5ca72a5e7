"""A page printed to PDF by a Chromium that is installed here."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from crowdfield.errors import CrowdfieldError, MissingDependencyError

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
SECONDS = 120  # for one page on a slow machine
_OPTIONS = (
    "--headless",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    # The page asks for nothing; should it ever, no name is found.
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--no-pdf-header-footer",
)


def browser() -> str:
    """The program that prints; an error that says what to do where there is none."""
    found = next((path for name in PROGRAMS if (path := shutil.which(name)) is not None), None)
    if found is None:
        raise MissingDependencyError(
            "writing a PDF needs Chromium or Chrome, and none is installed. Write .html, and print it from any browser."
        )
    return found


def print_pdf(page: str, target: Path) -> None:
    """Print a self-contained page to a file."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "report.html"
        source.write_text(page, encoding="utf-8")
        command = [
            browser(),
            *_OPTIONS,
            f"--user-data-dir={folder}/profile",
            f"--print-to-pdf={target}",
            source.as_uri(),
        ]
        if hasattr(os, "geteuid") and os.geteuid() == 0:
            command.insert(1, "--no-sandbox")  # Chromium's own refuses to start for root
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
        except subprocess.TimeoutExpired as problem:
            raise CrowdfieldError(f"{command[0]} did not print the report within {SECONDS} s.") from problem
        if done.returncode or not target.is_file():
            raise CrowdfieldError(f"{command[0]} could not print the report: {done.stderr.strip()[-300:]}")
