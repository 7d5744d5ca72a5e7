"""The crowdfield command, called from QGIS: what to run, and what it says. Nothing here needs QGIS."""

import json
import os
import shutil
import subprocess
import sys

VARIABLE = "CROWDFIELD_COMMAND"
"""Environment variable with the path of the command, where it is not on the PATH."""
INSTALL = (
    "The crowdfield command was not found. Install it with: pip install 'crowdfield[geo]'. "
    f"If it is installed elsewhere, set {VARIABLE} to its path in Settings > Options > System > Environment."
)


class CommandError(Exception):
    """The command is missing, or it failed and said why."""


def program():
    """The path of the command."""
    named = os.environ.get(VARIABLE)
    found = named if named and os.path.isfile(named) else shutil.which("crowdfield")
    if found is None:
        raise CommandError(INSTALL)
    return found


def fuse(reports, output, *, cell=None, lengthscale=None, show=None, positive=None, mask=None, run=None, looks=None):
    """Arguments that make a map of a file of reports."""
    arguments = ["fuse", reports, "--output", output, "--json"]
    options = {
        "--cell": cell, "--lengthscale": lengthscale, "--show": show, "--positive": positive, "--mask": mask,
        "--state": run, "--next": looks,
    }  # fmt: skip
    for name, value in options.items():
        if value:
            arguments += [name, str(value)]
    return arguments


def looks(run, output, count=10):
    """Arguments that write the areas to look at next."""
    return ["next", run, "-n", str(int(count)), "--output", output, "--json"]


def compare(before, after, output, least=0.1):
    """Arguments that write what changed between two runs."""
    return ["compare", before, after, "--output", output, "--least", str(least), "--json"]


def report(run, output, title=None, since=None):
    """Arguments that write a page to hand in."""
    arguments = ["report", run, "--output", output, "--json"]
    for name, value in (("--title", title), ("--since", since)):
        if value:
            arguments += [name, str(value)]
    return arguments


def call(arguments, say=lambda line: None, cancelled=lambda: False):
    """Run the command; its remarks are told as they come, its JSON is returned."""
    command = [program(), *[str(argument) for argument in arguments]]
    # QGIS sets variables for its own Python that would mislead another one.
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONHOME", "PYTHONPATH")}
    if os.environ.get("CROWDFIELD_KEEP_PYTHONPATH"):
        environment["PYTHONPATH"] = os.environ.get("PYTHONPATH", "")
    hidden = {"creationflags": 0x08000000} if sys.platform == "win32" else {}  # no console window on Windows
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8", env=environment, **hidden
    ) as process:
        remarks = []
        for line in process.stderr:
            remarks.append(line.rstrip())
            say(line.rstrip())
            if cancelled():
                process.terminate()
                raise CommandError("cancelled")
        answer = process.stdout.read()
    if process.returncode:
        raise CommandError(next((line for line in reversed(remarks) if line.strip()), "crowdfield failed"))
    return json.loads(answer) if answer.strip() else {}
