"""Run every measurement, each in its own process; say what must hold and whether it does; keep the results as JSON and
draw them.

`python -m benchmarks compare COMMIT` measures this tree beside another commit, `… service` the live map, `… fairness`
its many maps beside a huge one, `… doors` whether a file gives the same map through `fuse` and through the page, `…
totals` and `… spot-checks` whether the intervals of both hold, `… updating` what a few more reports cost.
"""

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.cases import CASES
from benchmarks.machine import Clock, describe, is_quiet
from benchmarks.promises import PAPER, judge

# {places: seconds and MB of the authors' research code (full GP), and of its "SVI"}: 10 iterations, two reports per
# place, two cores, measured before this project had benchmarks.
AUTHORS = {1000: (6.6, 396, 2.0, 319), 4000: (168.0, 2081, 12.2, 959), 8000: (None, None, 44.0, 1966)}

QUICK = {
    "authors": [1000],
    "sklearn_gpc": [500],
    "gpboost": [500],
    "dawid_skene": [20_000],
    "learned": [10_000],
    "paper": [100, 400],
    "grid": [256],
    "draws": [100],
    "streaming": [10_000],
}
FULL = {
    "authors": [1000, 4000, 8000],
    "sklearn_gpc": [500, 1000, 2000],
    "gpboost": [1000, 4000],
    "dawid_skene": [100_000, 1_000_000],
    "mace": [20_000],
    "glad": [20_000],
    "learned": [10_000, 100_000, 1_000_000],
    "paper": list(PAPER),
    "grid": [256, 2000],
    "draws": [500],
    "streaming": [10_000, 100_000],
    "tile": [100_000],
}
# Measurements with options of their own, by the name of their module.
OTHERS = {
    "compare": "compare",
    "service": "service",
    "fairness": "fairness",
    "doors": "doors",
    "totals": "totals",
    "spot-checks": "spot_checks",
    "updating": "updating",
}


def measure(case: str, size: int, timeout: float) -> dict[str, Any]:
    """Run one measurement in a process of its own, so that its peak memory is that of the measurement."""
    command = [sys.executable, "-m", "benchmarks", "--case", case, "--size", str(size)]
    clock = Clock.now()
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        return {"case": case, "size": size, "skipped": f"not finished after {timeout:.0f} s"}
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-1:] or ["no message"]
        return {"case": case, "size": size, "failed": last[0]}
    result: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    if case == "authors" and "seconds" in result:
        seconds, megabytes, svi_seconds, _ = AUTHORS.get(size, (None, None, None, None))
        result |= {"their_seconds": seconds, "their_peak_mb": megabytes, "their_svi_seconds": svi_seconds}
        # Their code is not a package to install, so that their seconds are those of an earlier run (AUTHORS).
        result["ratio"] = None if seconds is None else seconds / result["seconds"]
        result["ratio_to_svi"] = None if svi_seconds is None else svi_seconds / result["seconds"]
    others = clock.others()
    return {"case": case, "size": size, **result, "cores_taken_by_others": others, "quiet": is_quiet(others)}


def main() -> int:
    if len(sys.argv) > 1 and sys.argv[1] in OTHERS:
        return int(importlib.import_module(f"benchmarks.{OTHERS[sys.argv[1]]}").main(sys.argv[2:]))
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes: about a minute")
    parser.add_argument("--upto", type=float, default=1e7, help="largest N of the growth curves (default 1e7)")
    parser.add_argument("--only", nargs="*", choices=sorted(CASES), help="these measurements alone")
    parser.add_argument("--timeout", type=float, default=900.0, help="seconds for one measurement")
    parser.add_argument("--output", type=Path, default=Path("bench"))
    parser.add_argument("--case", choices=sorted(CASES), help=argparse.SUPPRESS)
    parser.add_argument("--size", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        print(json.dumps(CASES[options.case](options.size)))
        return 0
    upto = min(options.upto, 1e4) if options.quick else options.upto
    growth = [10**k for k in range(3, 8) if 10**k <= upto]
    plan = dict(QUICK if options.quick else FULL) | {"growth": growth, "growth_collapsed": growth}
    here = describe()
    print(json.dumps(here, indent=1))
    if here["quiet"] is False:
        print(f"Other programs take {here['cores_taken_by_others']} cores: times below say little.", flush=True)
    results = []
    for case, sizes in plan.items():
        if options.only and case not in options.only:
            continue
        for size in sizes:
            results.append(measure(case, size, options.timeout))
            print(line(results[-1]), flush=True)
    judged = judge(results)
    print("", *(each.line() for each in judged), f"commit {here['commit']}, {here['cores']} cores", sep="\n")
    write(options.output, here, results, [each._asdict() for each in judged])
    return int(any("failed" in r for r in results))


def write(folder: Path, here: dict[str, Any], results: list[dict[str, Any]], judged: list[dict[str, Any]]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "results.json"
    path.write_text(json.dumps({"machine": here, "results": results, "must_hold": judged}, indent=1) + "\n")
    from benchmarks.draw import draw

    draw(results, folder / "results.png")
    print(f"wrote {path} and {folder / 'results.png'}")


def line(result: dict[str, Any]) -> str:
    """One measurement on one line."""
    head = f"{result['case']:<17} {result['size']:>9,}"
    if "seconds" not in result:
        return f"{head}  {result.get('skipped') or result.get('failed')}"
    parts = [f"{result['seconds']:9.2f} s"]
    if result.get("ratio") is not None:
        parts.append(f"{result['ratio']:.1f} times as fast as theirs")
    if "peak_mb" in result:
        parts.append(f"{result['peak_mb']:.0f} MB")
    for name in (
        "cpu_seconds",
        "default_seconds",
        "default_cpu_seconds",
        "collapsed_update_seconds",
        "their_seconds",
        "their_cpu_seconds",
        "sweeps",
        "engine",
        "correlation",
        "nlpd",
        "auc",
        "our_auc",
        "their_auc",
        "our_accuracy",
        "their_accuracy",
    ):
        if name in result:
            value = result[name]
            parts.append(f"{name} {value:.3f}" if isinstance(value, float) else f"{name} {value}")
    if result.get("quiet") is False:
        parts.append(f"other programs took {result['cores_taken_by_others']} cores")
    return f"{head}  " + ", ".join(parts)


if __name__ == "__main__":
    raise SystemExit(main())
