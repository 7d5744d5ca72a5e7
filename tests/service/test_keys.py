"""What a key may do on a real server: on which maps, until when, in whose name, and under which report ids."""

import contextlib
import hashlib
import io
import json
import os
import stat
import threading
import time
from types import SimpleNamespace

import httpx
import pytest
from sqlalchemy import text
from tests.service.served import serving
from tests.service.workspace import FLOOD, HERE

from crowdfield.cli import main
from crowdfield.service.access import RouteAccess
from crowdfield.service.auth import Keys, Role
from crowdfield.service.database import connect, migrate, open_database
from crowdfield.service.routes import keys, maps, ogc, operations, reports, situations

REPORT = HERE | {"label": "flooded"}
# A stream must end within this time of its key; the service looks every second.
SOON = 10.0


def run(served, *arguments, check=True):
    """A command of the operator on the same machine: in this process, because a new one takes seconds to start."""
    done = SimpleNamespace(returncode=0)
    mask = os.umask(0o022)
    try:
        with (
            pytest.MonkeyPatch.context() as patch,
            contextlib.redirect_stdout(io.StringIO()) as said,
            contextlib.redirect_stderr(io.StringIO()) as complained,
        ):
            patch.setenv("CROWDFIELD_DATABASE", served.database)
            main(list(arguments))
    except SystemExit as stopped:
        done.returncode = stopped.code or 0
    finally:
        os.umask(mask)
    done.stdout, done.stderr = said.getvalue(), complained.getvalue()
    assert not check or done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="module")
def closed(tmp_path_factory):
    """A server that tells strangers nothing, with an older map `flood` and a newer one `quake`."""
    with serving(
        tmp_path_factory.mktemp("closed"), environment={"CROWDFIELD_ANONYMOUS_READING": "false"}
    ) as running, running.client("admin") as admin:  # fmt: skip
        admin.post("/situations", json=FLOOD).raise_for_status()
        admin.post("/situations", json=FLOOD | {"id": "quake"}).raise_for_status()
        yield running


def made(served, name="Field team", role="reporter", **rights):
    with served.client("admin") as admin:
        answer = admin.post("/keys", json={"name": name, "role": role, **rights})
        assert answer.status_code == 201, answer.text
        return answer.json()["key"]


def stored(served, situation="flood"):
    """All that stands, by id."""
    with served.client("admin") as admin:
        found = admin.get(f"/ogc/collections/{situation}/items", params={"limit": 10_000}).json()["features"]
    return {one["id"]: one["properties"]["source"] for one in found}


# Maps


def test_a_key_for_one_map_is_worth_nothing_on_the_others(closed):
    with closed.client(key=made(closed, role="trusted", maps=["flood"])) as client:
        assert client.get("/me").json()["maps"] == ["flood"]
        assert client.post("/situations/flood/reports", json=REPORT).status_code == 201
        assert client.get("/situations/flood/points").json()["exact"]
        assert [one["id"] for one in client.get("/situations").json()] == ["flood"]
        assert [one["id"] for one in client.get("/ogc/collections").json()["collections"]] == ["flood"]
        # A short address means the newest map that the key is for.
        assert client.get("/ogc/").status_code == 200
        assert client.get("/points").json()["exact"]
        for address in (
            "/situations/quake", "/situations/quake/points", "/points?situation=quake", "/ogc/collections/quake/items",
            "/situations/quake/events", "/situations/quake/tiles/probability/0/0/0.png", "/metrics",
        ):  # fmt: skip
            assert client.get(address).status_code == 403, address
        # Nor does it learn which other maps there are.
        assert client.get("/situations/none").json()["detail"] == client.get("/situations/quake").json()["detail"]
        assert client.post("/situations/quake/reports", json=REPORT).status_code == 403
        file = {"file": ("reports.csv", b"lat,lon,label\n18.5,-72.3,dry\n")}
        assert client.post("/situations/quake/import", files=file).status_code == 403


def test_strangers_do_not_learn_which_maps_there_are(closed):
    with closed.client() as stranger:
        assert stranger.get("/situations/none").status_code == stranger.get("/situations/flood").status_code == 401


def test_an_admin_of_one_map_rules_that_one_only(closed):
    with closed.client(key=made(closed, role="admin", maps=["flood"])) as client:
        trust = {"level": "low"}
        assert client.put("/situations/flood/sources/somebody/trust", json=trust).status_code == 202
        assert client.put("/situations/quake/sources/somebody/trust", json=trust).status_code == 403
        assert client.delete("/situations/quake").status_code == 403
        assert client.post("/situations", json=FLOOD | {"id": "third"}).status_code == 403
        assert client.get("/keys").status_code == 403
        assert client.post("/keys", json={"name": "x", "role": "admin"}).status_code == 403
        file = {"file": ("reports.csv", b"lat,lon,label\n18.5,-72.3,dry\n")}
        assert client.post("/import", files=file).status_code == 403


def test_a_key_for_a_map_that_is_removed_does_not_open_a_later_map_of_that_name(closed):
    with closed.client("admin") as admin:
        admin.post("/situations", json=FLOOD | {"id": "brief"}).raise_for_status()
        key = made(closed, role="trusted", maps=["brief"])
        admin.delete("/situations/brief").raise_for_status()
        admin.post("/situations", json=FLOOD | {"id": "brief"}).raise_for_status()
        with closed.client(key=key) as client:
            assert client.get("/situations/brief").status_code == 403 and client.get("/situations").json() == []
        admin.delete("/situations/brief").raise_for_status()
        assert admin.post("/keys", json={"name": "x", "role": "reader", "maps": ["brief"]}).status_code == 404


def test_where_strangers_may_read_a_key_for_one_map_is_a_stranger_on_the_others(tmp_path):
    with serving(tmp_path) as served, served.client("admin") as admin:
        admin.post("/situations", json=FLOOD).raise_for_status()
        admin.post("/situations", json=FLOOD | {"id": "quake"}).raise_for_status()
        admin.post("/situations/quake/reports", json=REPORT | {"source": "a name"}).raise_for_status()
        with served.client(key=made(served, role="trusted", maps=["flood"])) as client:
            assert len(client.get("/situations").json()) == 2
            found = client.get("/situations/quake/points").json()
            assert not found["exact"] and found["features"] == [] and "a name" not in json.dumps(found)
            assert client.post("/situations/quake/reports", json=REPORT).status_code == 403


def test_every_route_says_whether_it_is_about_one_map_or_all():
    """A route that is about all maps but asks for a role on one would let a limited key through."""
    named = (situations, reports, keys, ogc, operations)
    routers = [*(module.router for module in named), maps.situation_routes(), maps.short_routes()]
    public = {"/health", "/ready", "/me"}
    seen = 0
    for route, needs in RouteAccess(routers)._routes:
        if route.path not in public:
            about_one = any(field.name == "situation" for field in _parameters(route.dependant))
            scopes = {need.scope for need in needs}
            assert scopes == {"map"} if about_one else scopes and "map" not in scopes, route.path
            seen += 1
    assert seen > 30


def _parameters(dependant):
    yield from dependant.path_params
    yield from dependant.query_params
    for inner in dependant.dependencies:
        yield from _parameters(inner)


# Time


def test_an_expired_key_opens_nothing_and_its_stream_ends(closed):
    key = made(closed, role="reader", expires=time.time() + 4.0)
    with closed.client(key=key) as client:
        assert client.get("/situations").status_code == 200
        assert client.get("/me").json()["expires"] > time.time()
        assert Listener(client).ended.wait(SOON)
        assert client.get("/situations").status_code == 401
    with closed.client("admin") as admin:
        assert [k["state"] for k in admin.get("/keys").json() if k["id"] == key.split("_")[1]] == ["expired"]
        assert admin.post("/keys", json={"name": "x", "role": "reader", "expires": 5}).status_code == 422


@pytest.mark.parametrize("by", ["another client", "a command"])
def test_a_revoked_key_loses_its_stream_and_others_keep_theirs(closed, by):
    key = made(closed, role="reader")
    identity = key.split("_")[1]
    with closed.client(key=key) as client, closed.client("reader") as other:
        kept, lost = Listener(other), Listener(client)
        if by == "a command":
            run(closed, "keys", "revoke", identity)
        else:
            with closed.client("admin") as admin:
                assert admin.delete(f"/keys/{identity}").status_code == 204
        assert lost.ended.wait(SOON) and not kept.ended.is_set()
        until = time.monotonic() + SOON  # a server asks again whether a key stands within a second
        while (status := client.get("/me").status_code) != 401 and time.monotonic() < until:
            time.sleep(0.1)
        assert status == 401


class Listener:
    """An open event stream, and whether the server has ended it."""

    def __init__(self, client):
        self.opened, self.ended = threading.Event(), threading.Event()
        threading.Thread(target=self._listen, args=(client,), daemon=True).start()
        assert self.opened.wait(30)

    def _listen(self, client):
        with contextlib.suppress(httpx.HTTPError), client.stream("GET", "/situations/flood/events") as stream:
            for line in stream.iter_lines():
                if "connected" in line:
                    self.opened.set()
            self.ended.set()


# Sources


def test_a_key_reports_as_itself_unless_it_may_speak_for_others(closed):
    with closed.client(key=made(closed, "Field team 7")) as client:
        own = client.post("/situations/flood/reports", json=REPORT).json()["ids"][0]
        assert stored(closed)[own] == "Field team 7"
        assert client.post("/situations/flood/reports", json=REPORT | {"source": "Field team 7"}).status_code == 201
        borrowed = client.post("/situations/flood/reports", json=REPORT | {"source": "fire brigade"})
        assert borrowed.status_code == 403 and "Field team 7" in borrowed.json()["detail"]
        counted = client.post("/situations/flood/reports", json=REPORT | {"count": 12})
        assert counted.status_code == 403 and "counts once" in counted.json()["detail"]
        body = b"lat,lon,label,source\n18.5,-72.3,dry,one\n18.5,-72.3,dry,two\n"
        headers = {"Content-Type": "text/csv"}
        assert client.post("/situations/flood/reports", content=body, headers=headers).status_code == 403
        file = {"file": ("reports.csv", body)}
        assert client.post("/situations/flood/import", files=file).status_code == 403
    with closed.client(key=made(closed, "Gateway", any_source=True)) as client:
        told = client.post("/situations/flood/reports", json=REPORT | {"source": "fire brigade"}).json()["ids"][0]
        assert stored(closed)[told] == "fire brigade"


def test_trust_in_a_key_is_for_that_key_alone(closed):
    with closed.client("admin") as admin:
        admin.put("/situations/flood/sources/Brigade/trust", json={"level": "high"}).raise_for_status()
    with closed.client(key=made(closed, "Brigade")) as client:
        assert client.post("/situations/flood/reports", json=REPORT).status_code == 201
    with closed.client(key=made(closed, "Gateway", any_source=True)) as client:
        assert client.post("/situations/flood/reports", json=REPORT | {"source": "Brigade"}).status_code == 403
    with closed.client("admin") as admin:
        assert admin.post("/keys", json={"name": "trusted: me", "role": "reporter"}).status_code == 422


# Report ids


POST = {"id": 17, "values": {"place": [{"lat": 18.5, "lon": -72.3}]}, "source": "sms"}


def test_nobody_can_use_up_the_id_of_a_webhooks_report(closed):
    webhook = made(closed, "Ushahidi", any_source=True)
    prefix = webhook.split("_")[1]
    taken = ["ushahidi-17", f"{prefix}:ushahidi-17"]
    with closed.client(key=made(closed, "Squatter")) as squatter:
        for identity in taken:
            answer = squatter.post("/situations/quake/reports", json=REPORT | {"label": "dry", "id": identity})
            assert answer.status_code == 201
    with closed.client("reporter") as old:  # a key from before, without a prefix of its own
        for identity in [*taken, "c" + "0" * 32]:
            answer = old.post("/situations/quake/reports", json=REPORT | {"label": "dry", "id": identity})
            assert answer.status_code == 422 and "reserved for the service" in answer.json()["detail"]
    with closed.client(key=webhook) as client:
        sent = client.post("/situations/quake/webhook/ushahidi", json=POST)
        assert sent.status_code == 201 and sent.json()["ids"] == [f"{prefix}:ushahidi-17"]
        assert client.post("/situations/quake/webhook/ushahidi", json=POST).json()["duplicate"] == 1
    found = stored(closed, "quake")
    assert found[f"{prefix}:ushahidi-17"] == "ushahidi sms" and list(found.values()).count("Squatter") == 2


def test_a_webhook_with_a_plain_key_reports_as_that_key(closed):
    with closed.client(key=made(closed, "Our Ushahidi")) as client:
        sent = client.post("/situations/quake/webhook/ushahidi", json=POST)
        assert stored(closed, "quake")[sent.json()["ids"][0]] == "Our Ushahidi"


def test_ids_belong_to_their_key_and_to_the_one_that_replaces_it(closed):
    first, second = made(closed, "Gateway", any_source=True), made(closed, "Other", any_source=True)
    report = REPORT | {"id": "sms-1", "source": "a witness"}
    with closed.client(key=first) as client:
        assert client.post("/situations/flood/reports", json=report).status_code == 201
        assert client.post("/situations/flood/reports", json=report).json()["duplicate"] == 1
    with closed.client(key=second) as client:
        assert client.post("/situations/flood/reports", json=report | {"label": "dry"}).status_code == 201
    with closed.client("admin") as admin:
        replaced = admin.post(f"/keys/{first.split('_')[1]}/rotate").json()["key"]
        assert admin.post(f"/keys/{first.split('_')[1]}/rotate").status_code == 404
    with closed.client(key=first) as client:
        assert client.get("/me").status_code == 401
    with closed.client(key=replaced) as client:
        assert client.post("/situations/flood/reports", json=report).json()["duplicate"] == 1
        assert client.get("/me").json() | {"name": "Gateway", "any_source": True} == client.get("/me").json()


@pytest.mark.parametrize("length", [1, 180, 200])
def test_a_report_is_taken_back_by_its_own_id_or_by_that_of_the_receipt(closed, length):
    with closed.client(key=made(closed, "Team", "trusted")) as client:
        for number in (0, 1):
            own = str(number) * length
            (told,) = client.post("/situations/quake/reports", json=REPORT | {"id": own}).json()["ids"]
            assert len(told) <= 200 and told in stored(closed, "quake")
            assert client.delete(f"/situations/quake/reports/{(own, told)[number]}").status_code == 202
            assert told not in stored(closed, "quake")
        assert client.delete(f"/situations/quake/reports/{own}").status_code == 404


def test_a_report_that_was_retracted_cannot_be_sent_again(closed):
    """It was acknowledged once more, and never stood."""
    with closed.client("trusted") as client:
        row = HERE | {"label": "dry", "id": "taken-back"}
        assert client.post("/situations/flood/reports", json=row).status_code == 201
        assert client.delete("/situations/flood/reports/taken-back").status_code == 202
        again = client.post("/situations/flood/reports", json=row)
        assert again.status_code == 409 and "retracted" in again.json()["detail"]
        many = client.post("/situations/flood/reports", json=[row, row | {"id": "another"}]).json()
        assert (many["stored"], many["retracted"], many["duplicate"]) == (1, 1, 0)


def test_keys_made_before_keep_what_they_could_do(database):
    engine = connect(database)
    migrate(engine, "0004")
    with engine.begin() as connection:
        connection.execute(
            text(
                "INSERT INTO api_key (id, digest, name, role, created, revoked) "
                "VALUES ('0123456789ab', :digest, 'Old', 'reporter', 1, :no)"
            ),
            {"digest": hashlib.sha256(b"key").hexdigest(), "no": False},
        )
    engine.dispose()
    engine = open_database(database)
    try:
        (key,) = Keys(engine).all()
        assert (key.name, key.state, key.maps, key.expires, key.any_source) == ("Old", "valid", None, None, True)
        owner = Keys(engine).check("cf_0123456789ab_key")
        assert owner is not None and owner.origin == "" and owner.any_source and owner.role is Role.reporter
    finally:
        engine.dispose()


# The command line, and files


def test_the_command_line_makes_keys_with_rights(closed, tmp_path):
    create = ("keys", "create", "--name", "Patrol")
    key = run(closed, *create, "--expires", "90d", "--map", "flood", "--map", "quake").stdout.strip()
    with closed.client(key=key) as client:
        me = client.get("/me").json()
        assert me["maps"] == ["flood", "quake"] and not me["any_source"]
        assert me["expires"] == pytest.approx(time.time() + 90 * 86400, abs=600)
    dated = run(closed, *create, "--expires", "2999-12-31", "--may-report-as-others", "--role", "trusted", "--json")
    with closed.client(key=json.loads(dated.stdout)["key"]) as client:
        assert client.get("/me").json()["any_source"] and client.get("/me").json()["expires"] > 3e10
    listed = run(closed, "keys", "list").stdout
    assert "Patrol" in listed and "only flood, quake" in listed and "until 2999-12-31" in listed
    for wrong in (("--map", "none"), ("--expires", "soon"), ("--expires", "1999-01-01"), ("--role", "king")):
        assert run(closed, *create, *wrong, check=False).returncode == 1


def test_a_key_can_go_to_a_file_that_only_its_owner_reads(closed, tmp_path):
    file = tmp_path / "patrol.key"
    done = run(closed, "keys", "create", "--name", "Patrol", "--output", str(file))
    assert "cf_" not in done.stdout + done.stderr and stat.S_IMODE(file.stat().st_mode) == 0o600
    with closed.client(key=file.read_text().strip()) as client:
        assert client.get("/me").json()["name"] == "Patrol"
    # Never over a file that is there: others may have it open, or may have put a link there.
    again = run(closed, "keys", "create", "--name", "Patrol", "--output", str(file), check=False)
    assert again.returncode == 1
    failed = run(closed, "keys", "create", "--name", "P", "--map", "none", "-o", str(tmp_path / "no.key"), check=False)
    assert failed.returncode == 1 and not (tmp_path / "no.key").exists()


def test_workspaces_backups_and_restored_workspaces_are_readable_by_their_owner_only(closed, tmp_path):
    saved, fresh, empty = tmp_path / "saved.zip", tmp_path / "fresh.db", tmp_path / "empty.db"
    empty.touch(mode=0o644)
    run(closed, "backup", str(saved))
    run(closed, "restore", str(saved), "--database", str(fresh))
    run(closed, "restore", str(saved), "--database", str(empty))
    folder = os.path.dirname(closed.database)
    found = [saved, fresh, empty] + [
        entry for entry in os.scandir(folder) if entry.name.startswith("workspace.db")
    ]  # fmt: skip
    assert len(found) == 6, found  # the server's own file, its log and its shared memory
    assert [str(file) for file in found if stat.S_IMODE(os.stat(file).st_mode) & 0o077] == []


def test_a_workspace_that_others_can_read_or_replace_is_noted_at_the_start(tmp_path):
    folder = tmp_path / "open"
    folder.mkdir()
    database = folder / "workspace.db"
    open_database(str(database)).dispose()
    database.chmod(0o644)
    folder.chmod(0o777)
    with serving(folder) as served:
        assert f"chmod 600 {database}" in served.said() and f"chmod o-w {folder}" in served.said()
