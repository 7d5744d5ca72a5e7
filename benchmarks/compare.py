"""Is this tree slower than another commit? Both are measured in one run, in turn, so that the machine is the same.

    python -m benchmarks compare COMMIT [--only growth ...] [--size N] [--rounds 3]

The other commit is checked out into a temporary folder (`git worktree`). The cases are those of this tree. What counts
is processor time, which a busy machine changes far less than time on the wall: a case whose median took SLOWER times
as long as the other commit's is called slower, and the exit status is 1.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.machine import ROOT, commit, describe, git

SLOWER = 1.15  # times the other commit's processor seconds: more than two runs of one tree differ by
SIZES = {"growth": 100_000, "growth_collapsed": 30_000, "learned": 10_000, "paper": 1000, "grid": 1000}
# What a case is compared by, in this order of importance.
FIGURES = ("cpu_seconds", "seconds", "sweeps", "peak_mb")


@contextmanager
def checked_out(name: str, repository: Path = ROOT) -> Iterator[Path]:
    """The files of a commit in a temporary folder."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        git(repository, "worktree", "add", "--quiet", "--detach", str(tree), name)
        if not (tree / "src").is_dir():
            raise SystemExit(f"{name} could not be checked out: is it a commit of this repository?")
        try:
            yield tree
        finally:
            git(repository, "worktree", "remove", "--force", str(tree))


def measured(tree: Path, case: str, size: int, timeout: float) -> dict[str, Any]:
    """One measurement of the package in a tree, by this tree's cases."""
    command = [sys.executable, "-m", "benchmarks", "--case", case, "--size", str(size)]
    environment = os.environ | {"PYTHONPATH": str(tree / "src")}
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=ROOT, env=environment, timeout=timeout
    )
    if done.returncode != 0:
        raise SystemExit(
            f"{case} at {size:,} failed in {tree}: {(done.stderr.strip().splitlines() or ['no message'])[-1]}"
        )
    result: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return result


def ratios(here: list[dict[str, Any]], there: list[dict[str, Any]]) -> dict[str, float]:
    """Medians of this tree's figures over the medians of the other's."""
    shared = [name for name in FIGURES if all(isinstance(r.get(name), int | float) for r in here + there)]
    return {name: median(r[name] for r in here) / median(r[name] for r in there) for name in shared}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks compare", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("commit", help="the other commit, for example main")
    parser.add_argument("--only", nargs="*", choices=sorted(SIZES), default=sorted(SIZES))
    parser.add_argument("--size", type=int, help="instead of each case's own")
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each tree (default 3)")
    parser.add_argument("--timeout", type=float, default=900.0, help="seconds for one measurement")
    parser.add_argument("--output", type=Path, default=Path("bench") / "compared.json")
    given = parser.parse_args(arguments)
    found: dict[str, Any] = {}
    with checked_out(given.commit) as other:
        trees = {"here": ROOT, "there": other}
        about = describe() | {"other_commit": commit(other)}
        others = about["cores_taken_by_others"]
        print(f"{about['commit']} beside {about['other_commit']}; other programs take {others} cores")
        for case in given.only:
            size = given.size or SIZES[case]
            runs: dict[str, list[dict[str, Any]]] = {name: [] for name in trees}
            for _ in range(given.rounds):
                for name, tree in trees.items():
                    runs[name].append(measured(tree, case, size, given.timeout))
            ratio = ratios(runs["here"], runs["there"])
            found[case] = {"size": size, "ratio": ratio, "slower": ratio["cpu_seconds"] > SLOWER, **runs}
            told = ", ".join(f"{name} × {value:.2f}" for name, value in ratio.items())
            print(f"{case:<17} {size:>9,}  {told}{'   SLOWER' if found[case]['slower'] else ''}", flush=True)
    given.output.parent.mkdir(parents=True, exist_ok=True)
    given.output.write_text(json.dumps({"machine": about, "cases": found}, indent=1) + "\n")
    print(f"wrote {given.output}")
    return int(any(each["slower"] for each in found.values()))
