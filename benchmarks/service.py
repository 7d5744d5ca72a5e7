"""The live map under load from other processes: rates and latencies on this machine.

    python -m benchmarks service [--database FILE|postgresql://…] [--seconds 10] [--only acknowledgement|large] [--json]

Single reports acknowledged durably (steady and as fast as they go), warm tiles, 200 event streams, and the time from a
report to the new version that holds it, at 10,000 reports on a grid of 256 × 256. Then acknowledgement side by side:
while nobody else asks, and while twelve clients without a key send the most expensive requests they may, one kind after
the other and all kinds together. It must stay under ten times its quiet p99, and under a second. Last, a map of 100,000
reports (`--only large`, `--reports N`, `--scores`): one more report, the first reason, vector tiles of points, figures
of districts, and what a page loads first; see `benchmarks/large_map.py`.
"""

import argparse
import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from typing import Any

import httpx
import numpy as np

from benchmarks import large_map
from benchmarks.loading import KINDS, Connection
from crowdfield.service.auth import Keys, Role
from crowdfield.service.database import open_database

JSON = {"Content-Type": "application/json"}
REGION = (-72.6, 18.2, -72.0, 18.8)
# Reports a second while acknowledgement is measured, and those who send them.
STEADY, SENDERS = 40.0, 4
# What must hold under load: so many times the quiet p99, and so many milliseconds.
MOST_TIMES, MOST_MS = 10.0, 1000.0
# Versions of the map that exports and tiles are asked of.
VERSIONS = 6
# Reports of the large map.
LARGE = 100_000
FLOOD = {"title": "Flood", "states": ["dry", "flooded"], "region": REGION, "columns": 256, "rows": 256}


def report(rng: np.random.Generator, name: str) -> bytes:
    x, y = rng.uniform(-72.55, -72.05), rng.uniform(18.25, 18.75)
    wet = np.sin(12 * x) + np.cos(11 * y) > 0
    source = int(rng.integers(50))
    right = rng.random() < 0.5 + 0.009 * source
    label = FLOOD["states"][int(wet == right)]
    return json.dumps({"longitude": x, "latitude": y, "label": label, "source": f"s{source}", "id": name}).encode()


async def post_steadily(port: int, key: str, per_second: float, seconds: float, senders: int) -> dict[str, float]:
    """Reports at a given rate (as fast as they go for 0); each sender waits for its acknowledgement."""
    took: list[float] = []
    began = time.perf_counter()

    async def send(k: int) -> None:
        connection = await Connection(port, key).open()
        rng, i = np.random.default_rng(k), 0
        while time.perf_counter() - began < seconds:
            due = began + (i + k / senders) * senders / per_second if per_second else 0.0
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            start = time.perf_counter()
            status, body = await connection.ask("POST", "/situations/load/reports", report(rng, f"{began}-{k}-{i}"))
            assert status == 201, body
            took.append(time.perf_counter() - start)
            i += 1
        connection.writer.close()

    await asyncio.gather(*(send(k) for k in range(senders)))
    return {"per_second": len(took) / (time.perf_counter() - began), **_percentiles(took)}


async def warm_tiles(port: int, key: str, count: int) -> dict[str, float]:
    connection = await Connection(port, key).open()
    took: list[float] = []
    for turn in range(2):
        for i in range(count):
            path = f"/situations/map/tiles/probability/12/{1223 + i % 6}/{1828 + i // 6 % 6}.png?version=1"
            start = time.perf_counter()
            status, body = await connection.ask("GET", path)
            assert status == 200, body
            if turn:
                took.append(time.perf_counter() - start)
    connection.writer.close()
    return _percentiles(took)


async def streams_and_version(port: int, key: str, streams: int) -> dict[str, float]:
    """Open event streams, send one report, and wait until all of them were told of the version that holds it."""
    opened = []
    for _ in range(streams):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(
            f"GET /situations/map/events HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {key}\r\n\r\n".encode()
        )
        await reader.readuntil(b"connected")
        opened.append((reader, writer))
    connection = await Connection(port, key).open()
    rng = np.random.default_rng(99)
    start = time.perf_counter()
    status, body = await connection.ask("POST", "/situations/map/reports", report(rng, f"new-{start}"))
    assert status == 201, body
    acknowledged = time.perf_counter() - start
    told = []

    async def wait(reader: asyncio.StreamReader) -> None:
        await reader.readuntil(b"event: version")
        told.append(time.perf_counter() - start)

    await asyncio.gather(*(wait(reader) for reader, _ in opened))
    for _, writer in opened:
        writer.close()
    return {
        "streams": len(told),
        "acknowledged_s": acknowledged,
        "version_first_s": min(told),
        "version_last_s": max(told),
    }


def acknowledgement(port: int, key: str, seconds: float) -> dict[str, Any]:
    """Latency of single reports, quiet and while others send the most expensive requests."""
    found: dict[str, Any] = {}
    for kind in ("quiet", *KINDS, "all", "quiet again"):
        load = None
        if not kind.startswith("quiet"):
            command = [sys.executable, "-m", "benchmarks.loading", "--port", str(port), "--kind", kind]
            command += ["--versions", str(VERSIONS), "--seconds", str(seconds + 3)]
            load = subprocess.Popen(command, stdout=subprocess.PIPE)
            time.sleep(2)  # until they are all at it
        found[kind] = asyncio.run(post_steadily(port, key, STEADY, seconds, SENDERS))
        if load is not None:
            found[kind]["load"] = json.loads(load.communicate()[0])
        time.sleep(2)
    quiet = max(found["quiet"]["p99_ms"], found["quiet again"]["p99_ms"])
    worst = max(found[kind]["p99_ms"] for kind in (*KINDS, "all"))
    found["worst_times_quiet"] = round(worst / quiet, 1)
    found["holds"] = bool(worst < MOST_TIMES * quiet and worst < MOST_MS)
    return found


def _percentiles(took: list[float]) -> dict[str, float]:
    ms = np.array(took) * 1e3
    return {f"p{p}_ms": round(float(np.percentile(ms, p)), 1) for p in (50, 95, 99)} | {
        "longest_ms": round(float(ms.max()), 1)
    }


def measure(
    database: str, seconds: float, only: str | None = None, reports: int = LARGE, *, scores: bool = False
) -> dict[str, Any]:
    engine = open_database(database)
    key = Keys(engine).create("load", Role.admin)
    engine.dispose()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-c", "from crowdfield.cli import main; main()", "serve", "--port", str(port)]
    environment = os.environ | {"CROWDFIELD_DATABASE": database, "CROWDFIELD_STREAMS_PER_CLIENT": "500"}
    server = subprocess.Popen([*command, "--log-level", "warning"], env=environment)
    found: dict[str, Any] = {"load_average": os.getloadavg()[0], "cores": os.cpu_count()}
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", headers={"Authorization": f"Bearer {key}"}) as client:
            _wait(lambda: client.get("/health").is_success)
            client.timeout = 300
            if only == "large":
                return found | {"large": large_map.measure(client, reports, REGION, _wait, scores=scores)}
            client.post("/situations", json=FLOOD | {"id": "map"}).raise_for_status()
            rng = np.random.default_rng(0)
            rows = [json.loads(report(rng, str(i))) for i in range(10_000)]
            client.post("/situations/map/reports", json=rows).raise_for_status()
            began = time.perf_counter()
            _wait(lambda: client.get("/situations/map").json()["version"])
            found["first_map_of_10000_s"] = round(time.perf_counter() - began, 2)
            _wait(lambda: _settled(client))
            found["settled_s"] = round(time.perf_counter() - began, 2)
            if only is None:
                found["report_to_version"] = asyncio.run(streams_and_version(port, key, 200))
                found["fit_s"] = client.get("/versions", params={"situation": "map"}).json()[0]["seconds"]
                found["tiles_warm"] = asyncio.run(warm_tiles(port, key, 36))
                _wait(lambda: _settled(client))
            # Its map is fitted while the reports come in, as it would be.
            client.post("/situations", json=FLOOD | {"id": "load", "columns": 64, "rows": 64}).raise_for_status()
            if only is None:
                found["single_300_per_s"] = asyncio.run(post_steadily(port, key, 300, seconds, 16))
                found["single_as_fast_as_it_goes"] = asyncio.run(post_steadily(port, key, 0, seconds, 32))
            _more_versions(client, rng)
            found["acknowledgement"] = acknowledgement(port, key, seconds)
            if only is None:
                found["large"] = large_map.measure(client, reports, REGION, _wait, scores=scores)
    finally:
        server.terminate()
        server.wait(60)
    return found


def _more_versions(client: httpx.Client, rng: np.random.Generator) -> None:
    """A few versions of the map, so that exports differ from each other."""
    while client.get("/situations/map").json()["version"] < VERSIONS:
        before = client.get("/situations/map").json()["version"]
        client.post("/situations/map/reports", content=report(rng, f"more-{before}"), headers=JSON).raise_for_status()
        _wait(lambda before=before: client.get("/situations/map").json()["version"] > before)


def _settled(client: httpx.Client) -> bool:
    metrics = client.get("/versions", params={"situation": "map", "limit": 2}).json()
    newest = metrics[0]
    return newest["info"].get("converged", False) or time.time() - newest["created"] > 20


def _wait(true: Any, seconds: float = 600.0) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if true():
                return
        except httpx.TransportError:
            pass
        time.sleep(0.1)
    raise AssertionError("waited in vain")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks service", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--database", default=None)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--only", choices=["acknowledgement", "large"], help="leave out the other measurements")
    parser.add_argument("--reports", type=int, default=LARGE, help="of the large map")
    parser.add_argument("--scores", action="store_true", help="of the large map, some sources send probabilities")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        result = measure(
            given.database or f"{folder}/workspace.db", given.seconds, given.only, given.reports, scores=given.scores
        )
    print(json.dumps(result, indent=None if given.json else 1))
    held = [result["acknowledgement"]["holds"]] if "acknowledgement" in result else []
    held += result["large"]["holds"].values() if "large" in result else []
    return 0 if all(held) else 1


if __name__ == "__main__":
    raise SystemExit(main())
