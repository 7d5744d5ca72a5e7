"""Fuzz every reader for a while:  python -m tests.fuzz --seconds 600 [--target geojson]

Atheris (coverage-guided) is used where it is installed, else Hypothesis. Each target runs in a process of its own, so a
crash is a finding and not the end. An input that breaks a reader is written to `out/fuzz/`; mend the reader, then move
the input to `tests/fuzz/found/<target>/`, where the tests try it ever after.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
OUTPUT = HERE.parents[1] / "out" / "fuzz"
SLOWEST = 10  # seconds for one input
MEMORY = 4096  # MiB for one target
LONGEST = 20_000  # bytes of an input


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600, help="for all targets together")
    parser.add_argument("--target", action="append", help="only this one; may be repeated")
    parser.add_argument("--run", help=argparse.SUPPRESS)  # this process is the one that fuzzes this target
    given = parser.parse_args()
    if given.run:
        fuzz(given.run, given.seconds)
        return 0
    names = given.target or sorted(folder.name for folder in (HERE / "corpus").iterdir())
    OUTPUT.mkdir(parents=True, exist_ok=True)
    found = [name for name in names if not _survives(name, given.seconds / len(names))]
    print(f"\n{len(names) - len(found)} of {len(names)} targets without a finding", *found, sep="\n  ")
    return int(bool(found))


def _survives(name: str, seconds: float) -> bool:
    print(f"== {name}, {seconds:.0f} s", flush=True)
    command = [sys.executable, "-m", "tests.fuzz", "--run", name, "--seconds", str(seconds)]
    # As in a box: GeoParquet is read by the process itself.
    environment = os.environ | {"CROWDFIELD_IN_A_BOX": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    return subprocess.run(command, env=environment, check=False).returncode == 0


def fuzz(name: str, seconds: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for kind in ("corpus", "found"):
            if (HERE / kind / name).is_dir():
                shutil.copytree(HERE / kind / name, folder, dirs_exist_ok=True)
        if importlib.util.find_spec("atheris") is not None:
            _guided(name, seconds, folder)
        else:
            _unguided(name, seconds, Path(folder))


def _guided(name: str, seconds: float, folder: str) -> None:
    import atheris

    with atheris.instrument_imports(include=["crowdfield"]):
        from tests.fuzz.targets import TARGETS
    options = {
        "max_total_time": max(int(seconds), 1),
        "max_len": LONGEST,
        "timeout": SLOWEST,
        "rss_limit_mb": MEMORY,
        "artifact_prefix": f"{OUTPUT}/{name}-",
        "verbosity": 0,
        "print_final_stats": 1,
    }
    atheris.Setup([sys.argv[0], *(f"-{key}={value}" for key, value in options.items()), folder], TARGETS[name])
    atheris.Fuzz()


def _unguided(name: str, seconds: float, folder: Path) -> None:
    """Seeds with bytes changed, cut, copied and joined, as Hypothesis draws them."""
    from hypothesis import HealthCheck, given, settings
    from hypothesis import strategies as st
    from tests.fuzz.targets import TARGETS

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY * 2**20, MEMORY * 2**20))
    seeds = [path.read_bytes() for path in sorted(folder.iterdir())]
    end = time.monotonic() + seconds
    ways = st.sampled_from(["change", "cut", "insert", "repeat"])
    change = st.tuples(ways, st.integers(0, 2**16), st.binary(max_size=8))

    @settings(max_examples=500, deadline=SLOWEST * 1000, database=None, suppress_health_check=list(HealthCheck))
    @given(st.sampled_from(seeds), st.lists(change, min_size=1, max_size=8))
    def attempt(content: bytes, changes: list[tuple[str, int, bytes]]) -> None:
        for way, where, piece in changes:
            content = _changed(content, way, where, piece)
        path = OUTPUT / f"{name}-{hashlib.sha256(content).hexdigest()[:16]}"
        path.write_bytes(content)  # still there if the process ends
        TARGETS[name](content)
        path.unlink()

    while time.monotonic() < end:
        attempt()


def _changed(content: bytes, how: str, where: int, piece: bytes) -> bytes:
    at = where % (len(content) + 1)
    if how == "change":
        return content[:at] + piece + content[at + len(piece) :]
    if how == "cut":
        return content[:at] + content[at + 1 + len(piece) * 7 :]
    if how == "insert":
        return content[:at] + piece + content[at:]
    return (content[:at] + content[at // 2 : at] * (1 + len(piece)) + content[at:])[:LONGEST]


if __name__ == "__main__":
    sys.exit(main())
