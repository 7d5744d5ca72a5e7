"""Where and of what a run was made, and whether anybody else used the machine meanwhile."""

from __future__ import annotations

import os
import platform
import resource
import shutil
import subprocess
import time
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
STAT = Path("/proc/stat")  # Linux; elsewhere nothing is known of other programs
LOOK = 2.0  # seconds that the machine is watched before a run
QUIET = 0.1  # cores that other programs may take before a measurement says little about time


def commit(tree: Path = ROOT) -> str:
    """The commit of a tree, and whether files differ from it."""
    return git(tree, "describe", "--always", "--abbrev=12", "--dirty") or "unknown"


def git(tree: Path, *arguments: str) -> str:
    """What git says about a tree; empty where it says nothing or is not there."""
    program = shutil.which("git")
    if program is None:
        return ""
    done = subprocess.run([program, "-C", str(tree), *arguments], capture_output=True, text=True, check=False)
    return done.stdout.strip()


def describe() -> dict[str, Any]:
    names = ("numpy", "scipy", "finufft", "scikit-learn", "crowdfield")
    others = watched(LOOK)
    return {
        "commit": commit(),
        "processor": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "cores_taken_by_others": others,
        "quiet": is_quiet(others),
        "system": platform.platform(),
        "python": platform.python_version(),
        "packages": {name: version(name) for name in names},
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def is_quiet(others: float | None) -> bool | None:
    """Whether times can be trusted; None where nobody knows."""
    return None if others is None else others <= QUIET


class Clock(NamedTuple):
    """Seconds so far: on the wall, of all programs' work, of this program and of those that it started."""

    wall: float
    all_programs: float | None
    own: float

    @classmethod
    def now(cls) -> Clock:
        own = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return cls(time.perf_counter(), _busy(), sum(each.ru_utime + each.ru_stime for each in own))

    def others(self) -> float | None:
        """Cores that other programs took since then, on average."""
        new = Clock.now()
        if new.all_programs is None or self.all_programs is None:
            return None
        work = new.all_programs - self.all_programs - (new.own - self.own)
        return round(max(work, 0.0) / max(new.wall - self.wall, 1e-9), 3)


def watched(seconds: float) -> float | None:
    """Cores that other programs take now."""
    clock = Clock.now()
    time.sleep(seconds)
    return clock.others()


def _busy() -> float | None:
    """Seconds of work of all cores since the machine was started."""
    if not STAT.exists():
        return None
    user, nice, system, _idle, _waiting, *rest = (int(ticks) for ticks in STAT.read_text().split("\n")[0].split()[1:9])
    return (user + nice + system + sum(rest)) / os.sysconf("SC_CLK_TCK")
