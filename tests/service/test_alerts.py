"""Alerts: one message when a district passes its limit, one when it is over, and only to whom the operator allows."""

import asyncio
import email
import hashlib
import hmac
import json
import socket
import threading
import time
from base64 import b64decode, b64encode
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from tests.service.served import serving
from tests.service.test_districts import HALVES
from tests.service.workspace import FLOOD, Workspace

from crowdfield.errors import InputError
from crowdfield.service import webhooks
from crowdfield.service.alerts import MOST_ATTEMPTS, Alert, Alerts, changes
from crowdfield.service.courier import Courier
from crowdfield.service.database import connect
from crowdfield.service.settings import Settings

RULE = Alert(
    id="a", situation="flood", districts="halves", area=None, state="flooded", probability=0.7, share=0.05, clear=0.04,
    webhook="https://x.example", email=None, secret="", created=0.0,
)  # fmt: skip


@pytest.mark.parametrize(
    "standing, share, expected",
    [
        (None, 0.05, ""), (None, 0.051, "raised"), (None, 0.0, ""),
        (False, 0.06, "raised"), (True, 0.06, ""), (True, 0.045, ""), (True, 0.04, ""), (True, 0.039, "cleared"),
        (False, 0.045, ""),
    ],
)  # fmt: skip
def test_an_alert_sends_a_message_only_when_its_state_changes(standing, share, expected):
    before = {} if standing is None else {"west": standing}
    raised, cleared = changes(RULE, before, {"west": share})
    assert (raised, cleared) == (["west"] * (expected == "raised"), ["west"] * (expected == "cleared"))


@pytest.mark.parametrize(
    "address",
    [
        "ftp://hooks.example/", "file:///etc/passwd", "hooks.example", "https://", "https://user:secret@hooks.example/",
        "https://hooks.example/#here", "https://hooks.example:99999/", "https://hooks.example/a b", "https://höoks.example/",
        "https://hooks.example\r\nHost: inside/", "https://hooks.example\\@inside/", "https://other.example/",
        "http://hooks.example/", "https://hooks.example:8443/", "https://hooks.example.evil/", "//hooks.example/",
    ],
)  # fmt: skip
def test_an_address_that_the_operator_has_not_named_is_refused(address):
    with pytest.raises(InputError):
        webhooks.allowed(address, ["https://hooks.example"])


def test_an_address_of_an_origin_that_the_operator_has_named_is_taken():
    target = webhooks.allowed("https://HOOKS.example./a?b=c", ["https://hooks.example"])
    assert target == webhooks.Target("https", "hooks.example", 443, "/a?b=c")


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "localhost", "::1", "::ffff:127.0.0.1", "0.0.0.0", "10.1.2.3", "192.168.0.1", "169.254.169.254",
     "fe80::1", "fd00::1", "100.64.0.1", "224.0.0.1", "2002:7f00:1::", "no-such-host.invalid"],
)  # fmt: skip
def test_no_message_goes_to_an_address_that_is_not_public(host):
    with pytest.raises(webhooks.NotSent):
        webhooks.reachable(webhooks.Target("http", host, 80), [])


@contextmanager
def receiver(*statuses, location=None):
    """A web server that answers with these statuses, then with the last again; what it heard."""
    heard = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"]))
            heard.append((dict(self.headers), body))
            self.send_response(statuses[min(len(heard), len(statuses)) - 1])
            if location:
                self.send_header("Location", location)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", heard
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_receiver_that_answers_byte_by_byte_is_left_after_a_while():
    with socket.create_server(("127.0.0.1", 0)) as server:

        def drip():
            connection, _ = server.accept()
            with connection, suppress(OSError):
                for _ in range(100):
                    connection.sendall(b"x")
                    time.sleep(0.05)

        thread = threading.Thread(target=drip)
        thread.start()
        target, began = webhooks.Target("http", "127.0.0.1", server.getsockname()[1]), time.monotonic()
        with pytest.raises(webhooks.NotSent, match="no answer"):
            webhooks.send(target, "127.0.0.1", b"{}", {}, seconds=0.3)
        assert time.monotonic() - began < 3
        thread.join()


def test_a_receiver_without_a_certificate_that_can_be_trusted_gets_nothing():
    with receiver(200) as (origin, heard):
        target = webhooks.Target("https", "127.0.0.1", webhooks.parse(origin).port)
        with pytest.raises(webhooks.NotSent, match="SSL"):
            webhooks.send(target, "127.0.0.1", b"{}", {}, seconds=5.0)
        assert heard == []


@contextmanager
def mailbox():
    """A mail server that takes everything; its port, and what it was given."""
    given, loop, started = [], asyncio.new_event_loop(), threading.Event()
    port = []

    async def talk(reader, writer):
        writer.write(b"220 here\r\n")
        while line := await reader.readline():
            word = line.strip().upper()
            if word == b"DATA":
                writer.write(b"354 go on\r\n")
                given.append((await reader.readuntil(b"\r\n.\r\n"))[:-5])
            writer.write(b"221 bye\r\n" if word == b"QUIT" else b"250 ok\r\n")
            await writer.drain()
            if word == b"QUIT":
                break
        writer.close()

    async def run():
        server = await asyncio.start_server(talk, "127.0.0.1", 0)
        port.append(server.sockets[0].getsockname()[1])
        started.set()
        async with server:
            await stop.wait()

    stop = asyncio.Event()
    thread = threading.Thread(target=loop.run_until_complete, args=(run(),))
    thread.start()
    started.wait(10)
    try:
        yield port[0], given
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()


def until(true, seconds=60.0):
    end = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)
    return found


def certain(n, label, start, west=-72.55):
    return [
        {"longitude": west + 0.04 * (i % 5), "latitude": 18.25 + 0.1 * (i // 5), "label": label, "trusted": True,
         "id": f"{start + i}"}
        for i in range(n)
    ]  # fmt: skip


def verified(secret, headers, body):
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    key = b64decode(secret.removeprefix("whsec_"))
    return headers["webhook-signature"] == "v1," + b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()


def test_a_real_server_tells_a_webhook_and_a_mailbox_once_when_a_district_passes_its_limit_and_once_when_it_is_over(
    tmp_path,
):
    with receiver(500, 200) as (origin, heard), mailbox() as (port, mails):
        environment = {
            "CROWDFIELD_WORKER": "true", "CROWDFIELD_ALERT_HOSTS": origin, "CROWDFIELD_ALERT_NETWORKS": "127.0.0.1/32",
            "CROWDFIELD_ALERT_RETRY_SECONDS": "0.2", "CROWDFIELD_SMTP_HOST": "127.0.0.1",
            "CROWDFIELD_SMTP_PORT": str(port), "CROWDFIELD_SMTP_SECURITY": "none",
            "CROWDFIELD_SMTP_SENDER": "map@agency.example", "CROWDFIELD_REST_SECONDS": "3600",
        }  # fmt: skip
        with serving(tmp_path, environment=environment) as live, live.client("admin") as admin:
            kept = Alerts(connect(live.database))
            admin.post("/situations", json=FLOOD).raise_for_status()
            admin.put("/situations/flood/districts/halves", files={"file": ("d", HALVES)}).raise_for_status()
            rule = {"districts": "halves", "state": "flooded", "probability": 0.7, "share": 0.05}
            made = admin.post("/situations/flood/alerts", json=rule | {"webhook": f"{origin}/hook"}).json()
            to = {"email": "duty@agency.example", "area": "west"}
            assert admin.post("/situations/flood/alerts", json=rule | to).status_code == 201

            def report(rows):
                before = admin.get("/situations/flood").json()["version"] or 0
                admin.post("/situations/flood/reports", json=rows).raise_for_status()
                until(lambda: (admin.get("/situations/flood").json()["version"] or 0) > before)
                until(lambda: not kept.not_compared())  # both alerts were compared with the new version

            report(certain(15, "flooded", 0) + certain(15, "dry", 50, west=-72.25))
            until(lambda: len(heard) == 2 and len(mails) == 1)
            assert heard[0][1] == heard[1][1]  # the same message again after a failure
            headers, body = heard[1]
            told = json.loads(body)
            assert verified(made["secret"], headers, body) and told["type"] == "alert"
            assert [one["area"] for one in told["raised"]] == ["west"] and told["cleared"] == []
            letter = email.message_from_bytes(mails[0])
            assert letter["To"] == "duty@agency.example" and letter["Subject"] == "Flood: flooded: west"
            report(certain(3, "flooded", 100))  # still so: nobody is told again, and nothing waits to be sent
            assert [len(one["messages"]) for one in admin.get("/situations/flood/alerts").json()] == [1, 1]
            assert len(heard) == 2 and len(mails) == 1
            for i in range(15):
                admin.delete(f"/situations/flood/reports/{i}").raise_for_status()
            report(certain(15, "dry", 200))
            until(lambda: len(heard) == 3 and len(mails) == 2)
            assert [one["area"] for one in json.loads(heard[2][1])["cleared"]] == ["west"]
            listed = admin.get("/situations/flood/alerts").json()
            assert all(one["over"] == [] for one in listed) and "secret" not in json.dumps(listed)
            assert {m["state"] for one in listed for m in one["messages"]} == {"sent"}


@pytest.fixture
def told_to(tmp_path):
    """A workspace with a map over the limit of an alert to an address; the courier that carries its message."""
    made: list[Courier | Workspace] = []

    def make(address, **settings):
        given = Settings(
            database=str(tmp_path / "w.db"), worker=False, coalesce_seconds=0, alert_retry_seconds=1e-3, **settings
        )
        space = Workspace(given)
        admin = space.client("admin")
        admin.post("/situations", json=FLOOD).raise_for_status()
        admin.put("/situations/flood/districts/halves", files={"file": ("d", HALVES)}).raise_for_status()
        sent = admin.post(
            "/situations/flood/alerts", json={"districts": "halves", "state": "flooded", "webhook": address}
        )
        assert sent.status_code == 201, sent.text
        admin.post("/situations/flood/reports", json=certain(15, "flooded", 0)).raise_for_status()
        space.fit()
        courier = Courier(given)
        made.extend((courier, space))
        return admin, courier

    make.space = lambda: made[-1]  # type: ignore[attr-defined]
    yield make
    for one in made:
        one.close()


def test_a_loopback_address_hears_nothing_unless_the_operator_named_its_network(told_to):
    with receiver(200) as (origin, heard):
        admin, courier = told_to(f"{origin}/hook", alert_hosts=[origin])
        assert courier.compare() == 1 and courier.compare() == 0  # compared once
        assert courier.deliver() == 0 and heard == []
        (message,) = admin.get("/situations/flood/alerts").json()[0]["messages"]
        assert message["state"] == "waiting" and "not public" in message["error"]


def test_where_nobody_knows_nothing_counts_as_probable(told_to):
    admin, courier = told_to("https://hooks.example/", alert_hosts=["https://hooks.example"])
    rule = {"districts": "halves", "state": "flooded", "probability": 0.4, "webhook": "https://hooks.example/"}
    admin.post("/situations/flood/alerts", json=rule).raise_for_status()
    north = [row | {"latitude": row["latitude"] + 0.3} for row in certain(15, "dry", 50)]
    admin.post("/situations/flood/reports", json=north).raise_for_status()
    told_to.space().fit()
    courier.compare()
    # Half of the reports say so, so that it is as likely as not where there are none, and no alert.
    assert [one["area"] for one in admin.get("/situations/flood/alerts").json()[1]["over"]] == ["west"]


def test_a_redirection_is_not_followed_and_a_message_is_given_up_after_a_while(told_to):
    with receiver(200) as (inside, unheard), receiver(302, location=inside) as (origin, heard):
        admin, courier = told_to(f"{origin}/hook", alert_hosts=[origin], alert_networks=["127.0.0.1"])
        courier.compare()
        until(lambda: courier.deliver() or len(heard) == MOST_ATTEMPTS)
        assert courier.deliver() == 0 and unheard == []
        (message,) = admin.get("/situations/flood/alerts").json()[0]["messages"]
        assert message["state"] == "given up" and "not followed" in message["error"]
        assert admin.get("/health").json()["checks"]["alerts"] == "failing"


def test_a_receiver_that_is_gone_gets_no_second_message_and_a_test_message_says_so(told_to):
    with receiver(410) as (origin, heard):
        admin, courier = told_to(f"{origin}/hook", alert_hosts=[origin], alert_networks=["127.0.0.1"])
        one = admin.get("/situations/flood/alerts").json()[0]["id"]
        assert admin.post(f"/situations/flood/alerts/{one}/test").status_code == 202
        courier.deliver()
        time.sleep(0.05)
        assert courier.deliver() == 0 and len(heard) == 1 and json.loads(heard[0][1])["type"] == "test"
        assert admin.delete("/situations/flood/districts/halves").status_code == 409  # an alert is about them
        assert admin.delete(f"/situations/flood/alerts/{one}").status_code == 204
        assert admin.delete("/situations/flood/districts/halves").status_code == 204


@pytest.mark.parametrize(
    "change, words",
    [
        ({"webhook": "https://elsewhere.example/"}, "CROWDFIELD_ALERT_HOSTS"),
        ({"webhook": "http://169.254.169.254/latest"}, "CROWDFIELD_ALERT_HOSTS"),
        ({"email": "a@b.example"}, "CROWDFIELD_SMTP_HOST"),
        ({"email": "a@b.example\r\nBcc: c@d.example"}, ""),
        ({}, ""),
        ({"webhook": "https://ok.example/", "email": "a@b.example"}, ""),
        ({"webhook": "https://ok.example/", "state": "lava"}, "no such state"),
        ({"webhook": "https://ok.example/", "area": "north"}, "no such area"),
        ({"webhook": "https://ok.example/", "share": 0.1, "clear": 0.2}, ""),
        ({"webhook": "https://ok.example/", "share": 1.1}, ""),
    ],
)
def test_an_alert_that_cannot_work_is_refused_when_it_is_set(workspace, change, words):
    workspace.settings.alert_hosts.append("https://ok.example")
    admin = workspace.client("admin")
    if "area" in change:
        admin.put("/situations/flood/districts/halves", files={"file": ("d", HALVES)}).raise_for_status()
    told = admin.post("/situations/flood/alerts", json={"districts": "halves", "state": "flooded"} | change)
    assert told.status_code == 422 and words in told.json()["detail"], told.text


def test_only_admins_see_and_set_alerts(workspace):
    for role in (None, "reader", "reporter", "trusted"):
        client = workspace.client(role)
        assert client.get("/situations/flood/alerts").status_code in (401, 403)
        assert client.post("/situations/flood/alerts", json={}).status_code in (401, 403)
        assert client.post("/situations/flood/alerts/ab/test").status_code in (401, 403)
        assert client.delete("/situations/flood/alerts/ab").status_code in (401, 403)
