"""Known flaws of the packages in lock files: python deploy/audit.py requirements.lock …   (`make audit` sets it up)

pip-audit asks the advisory service of the package index. Where that cannot be reached nothing was checked, and the
last line says so; with AUDIT_REQUIRED=1 in the environment that is a failure too. Exit code 1: a flaw is known.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

# Advisories that do not concern us, each with the reason. Look at them again whenever a package changes.
ACCEPTED: dict[str, str] = {}
# Of what pip-audit says when it fails: enough to see why.
REASON_LENGTH = 200


def audit(lock: str) -> list[dict[str, Any]] | None:
    """What pip-audit knows about each package of a lock file; None where it could not find out."""
    # The lock names every package and every hash: nothing is resolved, downloaded or installed to audit it.
    command = [
        str(Path(sys.executable).with_name("pip-audit")), "--disable-pip", "--require-hashes", "--requirement", lock,
        "--format", "json", "--progress-spinner", "off",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        return list(json.loads(done.stdout)["dependencies"])
    except (json.JSONDecodeError, KeyError):
        reason = (done.stderr.strip().splitlines() or ["no answer"])[-1]
        print(f"{lock}: the advisory service did not answer ({reason[:REASON_LENGTH]})", file=sys.stderr)
        return None


def main(locks: list[str]) -> int:
    flaws, unchecked = 0, []
    for lock in locks:
        found = audit(lock)
        if found is None:
            unchecked.append(lock)
            continue
        known = [
            (package["name"], package["version"], flaw)
            for package in found
            for flaw in package.get("vulns", [])
            if not {flaw["id"], *flaw.get("aliases", [])} & ACCEPTED.keys()
        ]
        for name, version, flaw in known:
            cure = ", ".join(flaw.get("fix_versions", [])) or "no version yet"
            print(f"{lock}: {name} {version}: {flaw['id']}, cured in {cure}")
        print(f"{lock}: {len(found)} packages, {len(known)} known flaws")
        flaws += len(known)
    if unchecked:
        print(f"NOT CHECKED, because the advisory service cannot be reached from here: {', '.join(unchecked)}")
    return 1 if flaws or (unchecked and os.environ.get("AUDIT_REQUIRED") == "1") else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
