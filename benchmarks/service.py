"""The live map under load from a second process: rates and latencies on this machine.

    python benchmarks/service.py [--database FILE|postgresql://…] [--seconds 10] [--json]

Single reports acknowledged durably (steady and as fast as they go), warm tiles, 200 event streams, and the time from a
report to the new version that holds it, at 10,000 reports on a grid of 256 × 256.
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

from crowdfield.service.auth import Keys, Role
from crowdfield.service.database import open_database

REGION = (-72.6, 18.2, -72.0, 18.8)
FLOOD = {"title": "Flood", "states": ["dry", "flooded"], "region": REGION, "columns": 256, "rows": 256}


class Connection:
    """A keep-alive connection that costs the sender little: it shares the cores with what it measures."""

    def __init__(self, port: int, key: str):
        self._port = port
        self._head = f"Host: 127.0.0.1\r\nAuthorization: Bearer {key}\r\n".encode()

    async def open(self) -> "Connection":
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self._port)
        return self

    async def ask(self, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
        start = (
            f"{method} {path} HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n".encode()
        )
        self.writer.write(start + self._head + b"\r\n" + body)
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = next(int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length"))
        return int(head[9:12]), await self.reader.readexactly(length)


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


def _percentiles(took: list[float]) -> dict[str, float]:
    ms = np.array(took) * 1e3
    return {f"p{p}_ms": round(float(np.percentile(ms, p)), 1) for p in (50, 95, 99)}


def measure(database: str, seconds: float) -> dict[str, Any]:
    engine = open_database(database)
    key = Keys(engine).create("load", Role.admin)
    engine.dispose()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-c", "from crowdfield.cli import main; main()", "serve", "--port", str(port)]
    environment = os.environ | {"CROWDFIELD_DATABASE": database}
    server = subprocess.Popen([*command, "--log-level", "warning"], env=environment)
    found: dict[str, Any] = {"load_average": os.getloadavg()[0], "cores": os.cpu_count()}
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", headers={"Authorization": f"Bearer {key}"}) as client:
            _wait(lambda: client.get("/health").is_success)
            client.timeout = 300
            client.post("/situations", json=FLOOD | {"id": "map"}).raise_for_status()
            rng = np.random.default_rng(0)
            rows = [json.loads(report(rng, str(i))) for i in range(10_000)]
            client.post("/situations/map/reports", json=rows).raise_for_status()
            began = time.perf_counter()
            _wait(lambda: client.get("/situations/map").json()["version"])
            found["first_map_of_10000_s"] = round(time.perf_counter() - began, 2)
            _wait(lambda: _settled(client))
            found["settled_s"] = round(time.perf_counter() - began, 2)
            found["report_to_version"] = asyncio.run(streams_and_version(port, key, 200))
            found["fit_s"] = client.get("/versions", params={"situation": "map"}).json()[0]["seconds"]
            found["tiles_warm"] = asyncio.run(warm_tiles(port, key, 36))
            _wait(lambda: _settled(client))
            # Its map is fitted while the reports come in, as it would be.
            client.post("/situations", json=FLOOD | {"id": "load", "columns": 64, "rows": 64}).raise_for_status()
            found["single_300_per_s"] = asyncio.run(post_steadily(port, key, 300, seconds, 16))
            found["single_as_fast_as_it_goes"] = asyncio.run(post_steadily(port, key, 0, seconds, 32))
    finally:
        server.terminate()
        server.wait(60)
    return found


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


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--database", default=None)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        result = measure(given.database or f"{folder}/workspace.db", given.seconds)
    print(json.dumps(result, indent=None if given.json else 1))
