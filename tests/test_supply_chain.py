"""What is installed is what was locked: packages by their hashes, images by their digests, nothing from elsewhere."""

import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
LOCKS = ("requirements.lock", "deploy/requirements.lock", "tools.lock")


def locked(name):
    """The requirements of a lock file, each with its hashes."""
    lines = (ROOT / name).read_text().replace("\\\n", " ").splitlines()
    parts = [line.split("--hash=") for line in lines if line.strip() and not line.startswith("#")]
    return [(Requirement(part[0].strip()), [one.strip() for one in part[1:]]) for part in parts]


def wanted(*names):
    """What pyproject.toml asks for: the dependencies of the package, of extras, and of groups."""
    document = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras, groups = document["project"]["optional-dependencies"], document["dependency-groups"]
    found, waiting = [], [document["project"]["dependencies"], *(extras.get(n) or groups[n] for n in names)]
    while waiting:
        for one in waiting.pop():
            if isinstance(one, dict):
                waiting.append(groups[one["include-group"]])
            elif (requirement := Requirement(one)).name == "crowdfield":
                waiting += [extras[extra] for extra in requirement.extras]
            else:
                found.append(requirement)
    return found


@pytest.mark.parametrize("name", LOCKS)
def test_every_package_is_pinned_with_hashes_and_no_index_is_named(name):
    found = locked(name)
    assert len(found) > 20
    for requirement, hashes in found:
        assert re.fullmatch(r"==[^*,]+", str(requirement.specifier)) and requirement.url is None
        assert hashes and all(re.fullmatch(r"sha256:[0-9a-f]{64}", one) for one in hashes), requirement.name
    text = (ROOT / name).read_text()
    assert "://" not in text and "--index" not in text and "--find-links" not in text


@pytest.mark.parametrize(
    ("name", "asked"),
    [("requirements.lock", ("all", "dev")), ("deploy/requirements.lock", ("serve", "build"))],
)
def test_the_locks_hold_what_pyproject_asks_for(name, asked):
    """Otherwise: make lock."""
    held = {}
    for requirement, _ in locked(name):
        if requirement.marker is None or requirement.marker.evaluate():
            held[canonicalize_name(requirement.name)] = str(requirement.specifier).removeprefix("==")
    for requirement in wanted(*asked):
        if requirement.marker is None or requirement.marker.evaluate():
            version = held.get(canonicalize_name(requirement.name))
            assert version is not None and requirement.specifier.contains(version, prereleases=True), str(requirement)


def test_what_is_deployed_is_what_is_tested():
    tested = {(canonicalize_name(r.name), str(r.specifier)) for r, _ in locked("requirements.lock")}
    deployed = {(canonicalize_name(r.name), str(r.specifier)) for r, _ in locked("deploy/requirements.lock")}
    assert deployed <= tested


def test_setup_refuses_what_is_not_in_the_lock(tmp_path):
    """pip itself: a package whose bytes have another hash is not installed."""
    assert "--require-hashes --requirement requirements.lock" in (ROOT / "Makefile").read_text()
    wheel = tmp_path / "forged-1.0-py3-none-any.whl"
    wheel.write_bytes(b"not what was locked")
    (tmp_path / "forged.lock").write_text(f"forged==1.0 --hash=sha256:{'0' * 64}\n")
    done = subprocess.run(
        [sys.executable, "-m", "pip", "download", "--quiet", "--no-index", "--find-links", str(tmp_path), "--no-deps",
         "--require-hashes", "--requirement", str(tmp_path / "forged.lock"), "--dest", str(tmp_path / "out")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode != 0 and "HASHES" in done.stderr


KNOWN = [{"name": "old", "version": "1.0", "vulns": [{"id": "CVE-1", "aliases": [], "fix_versions": ["1.1"]}]}]
CLEAN = [{"name": "good", "version": "1.0", "vulns": []}]


@pytest.mark.parametrize(
    ("answer", "required", "status", "says"),
    [
        (KNOWN, "0", 1, "old 1.0: CVE-1, cured in 1.1"),
        (CLEAN, "1", 0, "1 packages, 0 known flaws"),
        (None, "0", 0, "NOT CHECKED"),
        (None, "1", 1, "NOT CHECKED"),
    ],
)
def test_an_audit_fails_for_known_flaws_and_says_when_it_could_not_ask(tmp_path, answer, required, status, says):
    """With a pip-audit that answers as given, or cannot reach its service."""
    (tmp_path / "python").symlink_to(sys.executable)
    told = json.dumps({"dependencies": answer}) if answer is not None else ""
    script = tmp_path / "pip-audit"
    script.write_text(f"#!/bin/sh\necho '{told}'\necho 'ConnectionError: no route' >&2\n")
    script.chmod(0o700)
    done = subprocess.run(
        [tmp_path / "python", ROOT / "deploy" / "audit.py", "requirements.lock"],
        env={"PATH": "/usr/bin:/bin", "AUDIT_REQUIRED": required}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == status and says in done.stdout
    assert answer is not None or "no route" in done.stderr


def test_images_are_named_by_their_digests_and_a_build_without_one_fails():
    image = (ROOT / "deploy" / "Containerfile").read_text()
    bases = re.findall(r"^FROM (\S+)", image, re.MULTILINE)
    assert len(bases) == 2 and all(base.endswith("@${PYTHON_DIGEST}") for base in bases)
    assert re.search(r"^ARG PYTHON_DIGEST$", image, re.MULTILINE)  # no default: an empty digest names no image
    assert "--require-hashes --only-binary :all:" in image
    compose = (ROOT / "deploy" / "compose.yaml").read_text()
    assert all("@${" in name for name in re.findall(r"^\s+image: (\S+)", compose, re.MULTILINE))
    assert "${PYTHON_DIGEST:?" in compose and "${POSTGIS_DIGEST:?" in compose


def test_compose_refuses_to_start_without_the_digests():
    docker = shutil.which("docker")
    if docker is None or subprocess.run([docker, "compose", "version"], capture_output=True, check=False).returncode:
        pytest.skip("docker compose is not installed")
    command = [docker, "compose", "--file", str(ROOT / "deploy" / "compose.yaml"), "config"]
    environment = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "CROWDFIELD_PASSWORD": "x"}
    refused = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert refused.returncode != 0 and "DIGEST" in refused.stderr
    given = environment | {"PYTHON_DIGEST": f"sha256:{'1' * 64}", "POSTGIS_DIGEST": f"sha256:{'2' * 64}"}
    taken = subprocess.run(command, env=given, capture_output=True, text=True, check=False)
    assert taken.returncode == 0 and f"postgis:16-3.4@sha256:{'2' * 64}" in taken.stdout


def test_the_policy_says_whom_to_tell_what_is_cared_for_and_when_we_answer():
    policy = (ROOT / "SECURITY.md").read_text()
    for words in ("Report a vulnerability", "working days", "Which versions", "90 days", "docs/security.md"):
        assert words in policy


def test_security_rules_of_the_linter_are_on():
    lint = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["ruff"]["lint"]
    assert "S" in lint["select"] and not {"S", "S1", "S3", "S6"} & set(lint["ignore"])
