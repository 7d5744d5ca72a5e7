"""Fifty maps, one of them of 1,024 × 1,024 cells and twelve states: how long a report on any other takes to show.

    python -m benchmarks fairness [--database FILE|postgresql://…] [--maps 50] [--json]

Three figures side by side, from one server: while nothing else is to be done; while the huge map is fitted without
pause, because reports on it keep coming; and then for one report on every other map at the same moment. The second must
stay under ten times the first for every map.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from crowdfield.service.auth import Keys, Role
from crowdfield.service.database import open_database

REGION = (-72.6, 18.2, -72.0, 18.8)
SMALL = {"title": "Small", "states": ["dry", "flooded"], "region": REGION, "columns": 64}
HUGE = {
    "id": "huge", "title": "Huge", "states": [f"state {j}" for j in range(12)], "region": REGION, "columns": 1024,
    "rows": 1024,
}  # fmt: skip
# Reports on each small map and on the huge one when the measurement begins, and between two more on the huge one.
FEW, MANY, PAUSE = 30, 300, 0.5
# What must hold: so many times as long as alone.
MOST_TIMES = 10.0
LOOK_SECONDS = 0.02


def rows(states: list[str], n: int, seed: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    return [
        {"longitude": -72.6 + 0.6 * x, "latitude": 18.2 + 0.6 * y, "source": f"s{i % 7}",
         "label": states[int(len(states) * x)], "id": f"{seed}-{i}"}
        for i, (x, y) in enumerate(rng.random((n, 2)).tolist())
    ]  # fmt: skip


class Maps:
    """The maps of a server, and how many reports each of them must show."""

    def __init__(self, client: httpx.Client):
        self.client = client
        self.sent: dict[str, int] = {}

    def start(self, new: dict[str, Any], n: int) -> None:
        self.client.post("/situations", json=new).raise_for_status()
        self.sent[new["id"]] = 0
        self.send(new["id"], new["states"], n)

    def send(self, name: str, states: list[str], n: int = 1) -> None:
        body = rows(states, n, seed=1000 + self.sent[name])
        self.client.post(f"/situations/{name}/reports", json=body).raise_for_status()
        self.sent[name] += n

    def shown(self, name: str) -> bool:
        return bool(self.client.get(f"/situations/{name}").json()["reports"] >= self.sent[name])

    def wait(self, name: str, seconds: float = 600.0) -> None:
        end = time.monotonic() + seconds
        while not self.shown(name):
            if time.monotonic() > end:
                raise AssertionError(f"{name} did not show its reports within {seconds:g} s")
            time.sleep(LOOK_SECONDS)

    def soon(self, name: str) -> float:
        """Seconds from a report on a small map to the version that holds it."""
        began = time.perf_counter()
        self.send(name, SMALL["states"])  # type: ignore[arg-type]
        self.wait(name)
        return time.perf_counter() - began


def measure(database: str, count: int, folder: Path) -> dict[str, Any]:
    engine = open_database(database)
    key = Keys(engine).create("fairness", Role.admin)
    engine.dispose()
    command = [sys.executable, "-c", "from crowdfield.cli import main; main()", "serve", "--port", "0"]
    log = folder / "server.log"
    with log.open("wb") as output:
        server = subprocess.Popen(
            [*command, "--log-level", "warning"], env=os.environ | {"CROWDFIELD_DATABASE": database}, stderr=output
        )
    found: dict[str, Any] = {"cores": os.cpu_count(), "load_average": round(os.getloadavg()[0], 1), "maps": count}
    try:
        headers = {"Authorization": f"Bearer {key}"}
        with httpx.Client(base_url=_address(server, log), headers=headers, timeout=120.0, trust_env=False) as client:
            maps = Maps(client)
            small = [f"small-{k}" for k in range(count - 1)]
            for name in small:
                maps.start(SMALL | {"id": name}, FEW)
            for name in small:
                maps.wait(name)
            time.sleep(10)  # until they have all come to rest
            alone = [maps.soon(name) for name in small]
            found["alone_s"] = _summary(alone)
            loaded, at_once = _beside_a_huge_one(maps, small, found)
    finally:
        server.terminate()
        server.wait(60)
    found["beside_the_huge_map_s"], found["all_at_once_s"] = _summary(loaded), _summary(at_once)
    found["times"] = round(max(loaded) / float(np.median(alone)), 1)
    found["times_of_each_map"] = round(max(b / a for a, b in zip(alone, loaded, strict=True)), 1)
    found["holds"] = found["times"] <= MOST_TIMES
    return found


def _beside_a_huge_one(maps: Maps, small: list[str], found: dict[str, Any]) -> tuple[list[float], list[float]]:
    began = time.time()
    maps.start(HUGE, MANY)
    stop = threading.Event()

    def feed() -> None:
        while not stop.wait(PAUSE):
            maps.send("huge", HUGE["states"])  # type: ignore[arg-type]

    feeder = threading.Thread(target=feed)
    feeder.start()
    try:
        loaded = [maps.soon(name) for name in small]
        burst = time.perf_counter()
        for name in small:
            maps.send(name, SMALL["states"])  # type: ignore[arg-type]
        at_once = []
        for name in small:
            maps.wait(name)
            at_once.append(time.perf_counter() - burst)
    finally:
        stop.set()
        feeder.join()
    maps.wait("huge")
    newest = maps.client.get("/situations/huge/versions", params={"limit": 1000}).json()
    found["huge"] = {
        "versions": len(newest), "first_map_s": round(newest[-1]["created"] - began, 1),
        "fit_s": round(newest[0]["seconds"], 1), "drawn": newest[0]["info"].get("coarser"),
        "says": newest[0]["info"]["remarks"][:1],
    }  # fmt: skip
    return loaded, at_once


def _summary(took: list[float]) -> dict[str, float]:
    return {"median": round(float(np.median(took)), 2), "longest": round(max(took), 2)}


def _address(server: "subprocess.Popen[bytes]", log: Path, seconds: float = 120.0) -> str:
    end = time.monotonic() + seconds
    while time.monotonic() < end and server.poll() is None:
        said = re.search(r"crowdfield runs at (http://\S+)/", log.read_text())
        if said is not None:
            try:
                httpx.get(f"{said[1]}/ready", timeout=5.0, trust_env=False)
                return said[1]
            except httpx.TransportError:
                pass
        time.sleep(0.1)
    raise AssertionError(f"the server does not answer:\n{log.read_text()}")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks fairness", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--database", default=None)
    parser.add_argument("--maps", type=int, default=50)
    parser.add_argument("--json", action="store_true", help="on one line")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        result = measure(given.database or f"{folder}/workspace.db", given.maps, Path(folder))
    print(json.dumps(result, indent=None if given.json else 1))
    return 0 if result["holds"] else 1


if __name__ == "__main__":
    raise SystemExit(main())
