"""The files for those who run the service: systemd takes the units, and every command in them is one that we have."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from tests.service.served import serving

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
    return [*found, arguments]


def test_systemd_takes_the_units(tmp_path):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd is not installed")
    for unit in DEPLOY.glob("crowdfield*.[st]*"):
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


def of_systemd(unit: Path, file: str) -> dict[str, str]:
    """The environment that systemd gives a unit: its own lines, and over them those of its file."""
    lines = unit.read_text().splitlines()
    assert "EnvironmentFile=-/etc/crowdfield/crowdfield.env" in lines
    own = [line.removeprefix("Environment=") for line in lines if line.startswith("Environment=")]
    return dict(line.split("=", 1) for line in [*own, *file.splitlines()] if line and not line.startswith("#"))


def of_compose(given: dict[str, str]) -> dict[str, str]:
    """The environment that the container gets from its image and from the compose file."""
    (line,) = [
        line for line in (DEPLOY / "Containerfile").read_text().splitlines() if line.startswith("ENV CROWDFIELD")
    ]
    image = dict(word.split("=", 1) for word in line.removeprefix("ENV ").split() if word.startswith("CROWDFIELD"))
    written = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]["map"]["environment"]

    def filled(match: "re.Match[str]") -> str:
        return given.get(match[1]) or match[2] or ""

    return image | {name: re.sub(r"\$\{(\w+)(?::[-?]([^}]*))?\}", filled, value) for name, value in written.items()}


def test_the_settings_of_the_systemd_unit_are_honoured(tmp_path):
    file = (DEPLOY / "crowdfield.env").read_text()
    strict = file.replace("#CROWDFIELD_ANON", "CROWDFIELD_ANON").replace("#CROWDFIELD_WORKER", "CROWDFIELD_WORKER")
    assert strict != file
    unit = DEPLOY / "crowdfield.service"
    # Nothing on its command line that would win over the file.
    assert f"ExecStart={INSTALLED} serve" in unit.read_text().splitlines()
    environment = of_systemd(unit, strict)
    assert of_systemd(unit, "")["CROWDFIELD_DATABASE"] == "/var/lib/crowdfield/workspace.db"
    here = environment | {"CROWDFIELD_DATABASE": str(tmp_path / "workspace.db")}
    with serving(tmp_path, environment=here) as served, served.client() as stranger:
        assert stranger.get("/situations").status_code == 401
        assert stranger.get("/health", headers={"Host": "map.example.org"}).status_code == 200
        assert stranger.get("/health", headers={"Host": "evil.example"}).status_code == 421
        with served.client("admin") as admin:
            assert admin.get("/health").json()["checks"]["worker"] == "none"


def test_the_settings_of_the_compose_file_are_honoured(tmp_path):
    given = {"CROWDFIELD_PASSWORD": "secret", "CROWDFIELD_ANONYMOUS_READING": "false"}
    environment = of_compose(given)
    assert environment["CROWDFIELD_HOST"] == "0.0.0.0" and ":secret@database/" in environment["CROWDFIELD_DATABASE"]
    here = environment | {
        "CROWDFIELD_DATABASE": str(tmp_path / "workspace.db"), "CROWDFIELD_HOST": "127.0.0.1",
        "CROWDFIELD_WORKER": "false",
    }  # fmt: skip
    with serving(tmp_path, environment=here) as served, served.client() as stranger:
        assert stranger.get("/situations").status_code == 401
        assert stranger.get("/health", headers={"Host": "map.example.org"}).status_code == 200
        assert stranger.get("/health", headers={"Host": "evil.example"}).status_code == 421
        # The health check of the image asks by this name.
        assert stranger.get("/health", headers={"Host": "localhost"}).status_code == 200
    assert of_compose({})["CROWDFIELD_ANONYMOUS_READING"] == ""  # which counts as not set


def test_the_container_copies_what_is_there():
    copied = [
        word
        for line in (DEPLOY / "Containerfile").read_text().splitlines()
        if line.startswith("COPY") and "--from" not in line
        for word in line.split()[1:-1]
    ]
    assert copied and all((DEPLOY.parent / name).exists() for name in copied)
