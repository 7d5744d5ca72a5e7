"""A real server at its gate: whom a request is counted against, what is refused unread, who may hold what."""

import json
import os
import re
import select
import socket
import time
from contextlib import ExitStack, contextmanager
from urllib.parse import urlsplit

import httpx
import pytest
from tests.service.served import SOURCE, serving
from tests.service.workspace import FLOOD, HERE

from crowdfield.service import app
from crowdfield.service.access import RouteAccess
from crowdfield.service.clients import Clients, parse_address
from crowdfield.service.limits import RateLimit

HUGE = 150_000_000
REPORTS = "/situations/flood/reports"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Three wrong keys a minute, few streams; no proxy is trusted."""
    settings = {
        "CROWDFIELD_FAILURES_PER_MINUTE": "3", "CROWDFIELD_STREAM_LIMIT": "8", "CROWDFIELD_STREAMS_PER_CLIENT": "3"
    }  # fmt: skip
    with serving(tmp_path_factory.mktemp("gate"), "--no-worker", environment=settings) as served:
        with served.client("admin") as admin:
            admin.post("/situations", json=FLOOD).raise_for_status()
        yield served


@pytest.fixture(scope="module")
def proxied(tmp_path_factory):
    """Behind proxies at 127.0.0.1 and in 10.0.0.0/8; two requests at once without a key."""
    settings = {
        "CROWDFIELD_TRUSTED_PROXIES": '["127.0.0.1", "10.0.0.0/8"]', "CROWDFIELD_ANONYMOUS_PER_SECOND": "0.2",
        "CROWDFIELD_FAILURES_PER_MINUTE": "3",
    }  # fmt: skip
    with serving(tmp_path_factory.mktemp("proxied"), "--no-worker", environment=settings) as served:
        yield served


@contextmanager
def at(server, address, **headers):
    """A client at another address of this machine."""
    transport = httpx.HTTPTransport(local_address=address)
    with httpx.Client(base_url=server.url, transport=transport, headers=headers, timeout=30) as client:
        yield client


def wrong_keys(client, count, **headers):
    return [
        client.get("/me", headers={"Authorization": f"Bearer cf_abc_{time.monotonic_ns()}"} | headers).status_code
        for _ in range(count)
    ]


def forwarded(chain):
    return {"X-Forwarded-For": chain}


# Whom a request is counted against


def test_a_made_up_forwarding_header_does_not_evade_the_throttle_of_wrong_keys(server):
    with at(server, "127.0.0.2") as guesser:
        codes = [wrong_keys(guesser, 1, **forwarded(f"203.0.113.{i}"))[0] for i in range(8)]
        assert codes[:3] == [401] * 3 and codes[-1] == 429
    with at(server, "127.0.0.3") as other:
        assert wrong_keys(other, 1) == [401]


def test_the_owner_of_a_key_is_let_in_beside_a_guesser(server):
    right = {"Authorization": f"Bearer {server.keys['reporter']}"}
    with at(server, "127.0.0.4") as shared:
        assert wrong_keys(shared, 6)[-1] == 429
        assert shared.get("/me", headers=right).status_code == 200


def test_clients_behind_a_trusted_proxy_are_counted_one_by_one(proxied):
    with httpx.Client(base_url=proxied.url) as proxy:
        flood = [proxy.get("/me", headers=forwarded("203.0.113.1")).status_code for _ in range(6)]
        assert flood[0] == 200 and flood[-1] == 429
        assert proxy.get("/me", headers=forwarded("203.0.113.2")).status_code == 200
        # What the client itself wrote stands to the left of what our proxies added, and is not believed.
        assert proxy.get("/me", headers=forwarded("203.0.113.77, 203.0.113.1, 10.1.2.3")).status_code == 429
        assert wrong_keys(proxy, 8, **forwarded("203.0.113.3"))[-1] == 429
        assert wrong_keys(proxy, 1, **forwarded("203.0.113.4")) == [401]


def test_others_do_not_pass_for_a_proxy(proxied):
    with at(proxied, "127.0.0.9") as client:
        codes = [client.get("/me", headers=forwarded(f"203.0.113.{100 + i}")).status_code for i in range(6)]
        assert codes[-1] == 429


def test_links_use_the_scheme_that_the_trusted_proxy_names(proxied):
    ask = forwarded("203.0.113.5") | {"X-Forwarded-Proto": "https"}
    with httpx.Client(base_url=proxied.url) as proxy, at(proxied, "127.0.0.8") as stranger:
        assert proxy.get("/ogc/", headers=ask).json()["links"][0]["href"].startswith("https://")
        assert stranger.get("/ogc/", headers=ask).json()["links"][0]["href"].startswith("http://")


@pytest.mark.parametrize(
    ("peer", "chain", "counted"),
    [
        ("198.51.100.7", "1.2.3.4", "198.51.100.7"),
        ("10.0.0.1", None, "10.0.0.1"),
        ("10.0.0.1", "1.2.3.4", "1.2.3.4"),
        ("10.0.0.1", "6.6.6.6, 1.2.3.4:5555, 10.9.9.9", "1.2.3.4"),
        ("10.0.0.1", "1.2.3.4, nonsense", "10.0.0.1"),
        ("::ffff:10.0.0.1", "[2001:db8::17]:443", "2001:db8::/64"),
        ("2001:db8::1", None, "2001:db8::/64"),
        ("testclient", "1.2.3.4", "unknown"),
    ],
)
def test_the_right_most_hop_that_is_not_ours_is_the_client(peer, chain, counted):
    headers = [(b"x-forwarded-for", chain.encode())] if chain else []
    scope = {"type": "http", "client": (peer, 1), "headers": headers}
    assert Clients(["10.0.0.0/8"]).client(scope) == counted


def test_addresses_are_read_as_proxies_write_them():
    assert str(parse_address(" [fe80::1%eth0]:80 ")) == "fe80::1"
    assert parse_address("1.2.3.4:80:90") is None and parse_address("") is None


def test_work_is_owed_until_it_is_paid_for_and_never_more_than_a_bucket():
    limit = RateLimit(per_second=0.5, burst=30)
    assert limit.owed("a", 0.0, now=0.0) == 0.0
    limit.charge("a", 40.0, now=0.0)
    assert limit.owed("a", 0.0, now=0.0) == pytest.approx(20.0) and limit.owed("b", 0.0, now=0.0) == 0.0
    assert limit.owed("a", 0.0, now=20.0) == 0.0
    limit.charge("a", 1e6, now=20.0)
    assert limit.owed("a", 0.0, now=20.0) == pytest.approx(60.0)


# Refused before the body is read


FILE = b'--x\r\nContent-Disposition: form-data; name="file"; filename="r.csv"\r\n\r\nsource,lat,lon,label\r\n'


def start_request(server, path, *headers, method="POST", length: int | None = HUGE, body=FILE):
    """Send a head that announces a large body, and almost nothing of the body."""
    parts = urlsplit(server.url)
    connection = socket.create_connection((parts.hostname, parts.port), timeout=10)
    lines = [f"{method} {path} HTTP/1.1", f"Host: {parts.hostname}", *headers]
    lines += [f"Content-Length: {length}"] if length is not None else []
    connection.sendall("\r\n".join([*lines, "", ""]).encode() + body)
    return connection


def refusal(connection):
    """Status, body and whether the server then closed the connection."""
    with connection:
        received = b""
        while chunk := connection.recv(65536):
            received += chunk
    head, _, body = received.partition(b"\r\n\r\n")
    assert b"application/problem+json" in head and b"connection: close" in head.lower()
    return int(head[9:12]), json.loads(body)


WITH_BODIES = [
    ("/situations/flood/import", "multipart/form-data; boundary=x"),
    ("/import", "multipart/form-data; boundary=x"),
    ("/situations/flood/totals", "multipart/form-data; boundary=x"),
    (REPORTS, "application/json"),
    (REPORTS, "text/csv"),
    ("/situations/flood/webhook/ushahidi", "application/json"),
    ("/situations", "application/json"),
    ("/keys", "application/json"),
]


@pytest.mark.parametrize(("path", "media"), WITH_BODIES)
def test_nobody_sends_150_megabytes_to_be_told_401_or_403(server, path, media):
    began = time.perf_counter()
    kind = f"Content-Type: {media}"
    assert refusal(start_request(server, path, kind))[0] == 401
    assert refusal(start_request(server, path, kind, "Authorization: Bearer cf_abc_wrong"))[0] in (401, 429)
    reader = f"Authorization: Bearer {server.keys['reader']}"
    assert refusal(start_request(server, path, kind, reader))[0] == 403
    assert time.perf_counter() - began < 5


def test_a_chunked_body_is_not_read_either(server):
    chunk = b"400\r\n" + b"x" * 1024 + b"\r\n"
    connection = start_request(server, "/import", "Transfer-Encoding: chunked", length=None, body=chunk)
    assert refusal(connection)[0] == 401


def test_the_gate_knows_the_role_of_every_request_that_has_a_body(workspace):
    access = RouteAccess(app.routers())
    for path, operations_ in workspace.app.openapi()["paths"].items():
        for method in set(operations_) & {"post", "put", "patch", "delete"}:
            asked = re.sub(r"{\w+}", "a", path)  # every name, number and id may be that
            scope = {"type": "http", "method": method.upper(), "path": asked, "headers": []}
            assert access.find(scope).needs, (method, path)


def test_one_client_does_not_hold_all_uploads(server):
    reporter, kind = f"Authorization: Bearer {server.keys['reporter']}", "Content-Type: multipart/form-data; boundary=x"
    with ExitStack() as stack:
        held = [
            stack.enter_context(start_request(server, "/situations/flood/import", reporter, kind)) for _ in range(4)
        ]
        # One of the four, whichever the server saw last; the others wait for the rest of their bodies.
        (answered,), _, _ = select.select(held, [], [], 30)
        assert answered.recv(65536)[9:12] == b"429"
        # Reports and other people's files are not held up.
        with server.client("reporter") as client:
            assert client.post(REPORTS, json=HERE | {"label": "dry"}).status_code == 201
        with server.client("trusted") as client:
            table = "source,lat,lon,label\ns,18.5,-72.3,dry\n"
            assert client.post("/situations/flood/import", files={"file": ("r.csv", table)}).status_code == 201


# Heads


def endless(server, start, piece, most=4_000_000):
    """Send a request that never ends its head; how many bytes the server took, and what it answered."""
    parts = urlsplit(server.url)
    with socket.create_connection((parts.hostname, parts.port), timeout=30) as connection:
        sent = 0
        try:
            connection.sendall(start)
            while sent < most:
                connection.sendall(piece)
                sent += len(piece)
                if select.select([connection], [], [], 0.002)[0]:
                    return sent, connection.recv(65536)
        except OSError:  # closed under our hands
            return sent, b""
    return sent, b""


@pytest.mark.parametrize(
    ("start", "piece"),
    [
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n", b"A: b\r\n" * 2000),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nA: ", b"b" * 16_000),
        (b"GET /", b"b" * 16_000),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", b"A: b\r\n" * 2000),
    ],
    ids=["headers", "a header", "an address", "trailers"],
)
def test_a_head_without_end_is_cut_off(server, start, piece):
    """Any stranger could fill the memory with it."""
    sent, answer = endless(server, start, piece)
    assert sent < 4_000_000
    assert answer == b"" or answer[9:12] in (b"431", b"400", b"200")
    with at(server, "127.0.0.30") as client:
        assert client.get("/ready").status_code == 200


def test_a_large_body_in_small_chunks_is_no_head(server):
    rows = [HERE | {"label": "dry", "id": f"chunked-{i}", "text": "x" * 200} for i in range(1000)]
    body = json.dumps(rows).encode()
    with server.client("reporter") as client:
        pieces = (body[i : i + 100] for i in range(0, len(body), 100))
        reply = client.post(REPORTS, content=pieces, headers={"Content-Type": "application/json"})
        assert reply.json()["stored"] == 1000


def test_a_connection_that_never_says_what_it_wants_is_closed(tmp_path):
    (tmp_path / "sitecustomize.py").write_text("from crowdfield.service import heads\nheads.HEAD_SECONDS = 1.0\n")
    with serving(tmp_path, environment={"PYTHONPATH": f"{tmp_path}{os.pathsep}{SOURCE}"}) as served:
        parts = urlsplit(served.url)
        for said in (b"", b"GET / HTTP/1.1\r\nHost: localhost\r\n"):
            with socket.create_connection((parts.hostname, parts.port), timeout=30) as connection:
                connection.sendall(said)
                assert connection.recv(100) == b""


# Event streams


def test_one_client_holds_only_its_share_of_the_streams(server):
    with ExitStack() as stack:

        def open_stream(address, role=None):
            headers = {"Authorization": f"Bearer {server.keys[role]}"} if role else {}
            client = stack.enter_context(at(server, address, **headers))
            return stack.enter_context(client.stream("GET", "/situations/flood/events")).status_code

        assert [open_stream("127.0.0.20") for _ in range(5)] == [200, 200, 200, 429, 429]
        assert [open_stream("127.0.0.21") for _ in range(3)] == [200] * 3
        # Without a key three quarters of all may be held; the others are for those who have one.
        assert open_stream("127.0.0.22") == 503
        assert [open_stream("127.0.0.23", "reader") for _ in range(2)] == [200, 200]
    with at(server, "127.0.0.20") as client:
        for _ in range(100):  # the places are free again when the server has noticed
            with client.stream("GET", "/situations/flood/events") as stream:
                if stream.status_code == 200:
                    break
            time.sleep(0.05)
        assert stream.status_code == 200
