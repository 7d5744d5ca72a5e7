"""The files for those who run the service: systemd takes the units, and every command in them is one that we have."""

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from crowdfield.cli import main

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
INSTALLED = "/opt/crowdfield/bin/crowdfield"


def commands() -> list[list[str]]:
    """The arguments of every crowdfield command that a unit, the container or compose starts."""
    found = []
    for unit in DEPLOY.glob("*.service"):
        for line in unit.read_text().splitlines():
            if line.startswith("ExecStart="):
                said = shlex.split(line.removeprefix("ExecStart="))
                words = shlex.split(said[2].replace("$(date +%%F)", "today")) if said[0] == "/bin/sh" else said
                assert words[0] == INSTALLED
                found.append(words[1:])
    (entry,) = [line for line in (DEPLOY / "Containerfile").read_text().splitlines() if line.startswith("ENTRYPOINT")]
    program, *arguments = yaml.safe_load(entry.removeprefix("ENTRYPOINT"))
    assert program == "crowdfield"
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    return [*found, arguments, arguments + compose["services"]["map"]["command"]]


def test_systemd_takes_the_units(tmp_path):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd is not installed")
    for unit in DEPLOY.glob("crowdfield*"):
        (tmp_path / unit.name).write_text(unit.read_text().replace(INSTALLED, sys.executable))
    units = sorted(str(path) for path in tmp_path.iterdir())
    assert len(units) == 3
    done = subprocess.run(["systemd-analyze", "verify", *units], capture_output=True, text=True, check=False)
    # What it says of other units on this machine is not ours.
    assert done.returncode == 0 and not [line for line in done.stderr.splitlines() if "crowdfield" in line], done.stderr


@pytest.mark.parametrize("arguments", commands(), ids=" ".join)
def test_every_command_is_one_that_we_have(arguments, capsys):
    with pytest.raises(SystemExit) as stop:
        main([*arguments, "--help"])
    assert stop.value.code == 0
    known = capsys.readouterr().out
    assert all(word in known for word in arguments if word.startswith("--"))


def test_the_container_copies_what_is_there():
    copied = [
        word
        for line in (DEPLOY / "Containerfile").read_text().splitlines()
        if line.startswith("COPY") and "--from" not in line
        for word in line.split()[1:-1]
    ]
    assert copied and all((DEPLOY.parent / name).exists() for name in copied)
