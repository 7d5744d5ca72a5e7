"""Clients without a key that ask a live map for the most expensive things they may: each from an address of its own.

    python -m benchmarks.loading --port 8000 --situation map --kind exports --clients 12 --seconds 10

Prints one JSON object: how often each status was answered, and the longest wait. For servers on this machine only.
"""

import argparse
import asyncio
import json
import random
import time
from collections import Counter
from collections.abc import Iterator
from urllib.parse import quote

KINDS = ("basemap", "exports", "points", "tiles")
FORMS = ("kml", "geojson", "gpkg", "html", "csv", "parquet", "nc", "tif", "png")
# The loopback network has an address for every client, as the internet has.
ADDRESS = "127.0.77.{}"


class Connection:
    """A keep-alive connection that costs the sender little: it shares the cores with what it measures."""

    def __init__(self, port: int, key: str | None = None, address: str | None = None):
        self._port, self._local = port, (address, 0) if address else None
        lines = ["Host: 127.0.0.1", "Accept-Encoding: gzip", *([f"Authorization: Bearer {key}"] if key else [])]
        self._head = "".join(f"{line}\r\n" for line in lines).encode()

    async def open(self) -> "Connection":
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self._port, local_addr=self._local)
        return self

    async def ask(self, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
        start = (
            f"{method} {path} HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n".encode()
        )
        self.writer.write(start + self._head + b"\r\n" + body)
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = next(int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length"))
        return int(head[9:12]), await self.reader.readexactly(length)

    def close(self) -> None:
        self.writer.close()


def questions(kind: str, situation: str, region: list[float], versions: int, seed: int) -> Iterator[str]:
    """Paths of one kind without end, no two alike where the service can tell them apart."""
    rng = random.Random(seed)
    at = f"/situations/{quote(situation)}"
    west, south, east, north = region
    while True:
        version = rng.randint(1, versions)
        if kind == "basemap":
            yield f"/basemap.json?west=-180&east=180&south=-90&north=90&nothing={rng.random()}"
        elif kind == "exports":
            yield f"{at}/export/{rng.choice(FORMS)}?version={version}"
        elif kind == "points":
            yield f"{at}/point/{rng.uniform(west, east):.6f},{rng.uniform(south, north):.6f}"
        else:
            z = rng.randint(9, 14)
            x = int((rng.uniform(west, east) + 180) / 360 * 2**z)
            yield f"{at}/tiles/difference/{z}/{x}/{int(2**z * 0.447) + rng.randint(-1, 1)}.png?version={version}"


async def client(
    number: int, port: int, kind: str, situation: str, region: list[float], versions: int, until: float
) -> tuple[Counter[int], float]:
    """Ask without pause; a refusal is taken for an answer."""
    statuses: Counter[int] = Counter()
    longest = 0.0
    connection: Connection | None = None
    for path in questions(kind, situation, region, versions, number):
        if time.monotonic() >= until:
            break
        began = time.monotonic()
        try:
            connection = connection or await Connection(port, address=ADDRESS.format(number + 1)).open()
            status, _ = await asyncio.wait_for(connection.ask("GET", path), max(0.1, until - began))
        except TimeoutError:
            break
        except (OSError, asyncio.IncompleteReadError):
            connection, status = None, 0  # the server closes the connection with some refusals
            await asyncio.sleep(0.01)
        statuses[status] += 1
        longest = max(longest, time.monotonic() - began)
    if connection is not None:
        connection.close()
    return statuses, longest


async def demand(
    port: int, kinds: list[str], situation: str, region: list[float], versions: int, clients: int, seconds: float
) -> dict[str, object]:
    until = time.monotonic() + seconds
    asked = [
        client(i, port, kinds[i % len(kinds)], situation, region, versions, until) for i in range(clients * len(kinds))
    ]
    found = await asyncio.gather(*asked)
    statuses = sum((counts for counts, _ in found), Counter())
    return {"answers": dict(sorted(statuses.items())), "longest_s": round(max(longest for _, longest in found), 2)}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.loading", description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--kind", choices=[*KINDS, "all"], default="all")
    parser.add_argument("--situation", default="map")
    parser.add_argument("--region", type=float, nargs=4, default=[-72.6, 18.2, -72.0, 18.8])
    parser.add_argument("--versions", type=int, default=1)
    parser.add_argument("--clients", type=int, default=12, help="of each kind")
    parser.add_argument("--seconds", type=float, default=10.0)
    o = parser.parse_args()
    kinds = list(KINDS) if o.kind == "all" else [o.kind]
    print(json.dumps(asyncio.run(demand(o.port, kinds, o.situation, o.region, o.versions, o.clients, o.seconds))))


if __name__ == "__main__":
    main()
