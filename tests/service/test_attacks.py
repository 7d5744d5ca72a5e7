"""Attacks, each refused: with a status below 500, as problem+json, and without doing anything."""

import gzip
import io
import json
import logging
import zipfile
import zlib

import pytest
from tests.service.workspace import FLOOD, HERE

from crowdfield.service import logs
from crowdfield.service.limits import RateLimit
from crowdfield.service.settings import Settings

REPORT = HERE | {"label": "flooded", "source": "s"}
URL = "/situations/flood/reports"
JSON = {"Content-Type": "application/json"}


def problem(reply, *statuses):
    assert reply.status_code in statuses, (reply.status_code, reply.text[:300])
    assert reply.headers["content-type"] == "application/problem+json"
    body = reply.json()
    assert body["status"] == reply.status_code and body["detail"] and "Traceback" not in reply.text
    return body


def stored(workspace):
    return len(workspace.service.store.active_reports("flood"))


INJECTIONS = [
    "'; DROP TABLE entry; --",
    "x' OR '1'='1",
    '"; DELETE FROM situation; --',
    "%27%20OR%201=1",
    "\\'; SELECT 1",
]


@pytest.mark.parametrize("text", INJECTIONS)
def test_sql_in_values_is_a_value(workspace, text):
    client = workspace.client("trusted")
    reply = client.post(URL, json=REPORT | {"source": text, "text": text, "id": text})
    assert reply.status_code == 201
    (row,) = workspace.service.store.active_reports("flood")
    assert (row.source, row.text, row.id) == (text, text, text)
    problem(client.post(URL, json=REPORT | {"label": text}), 422)
    for path in (
        f"/situations/{text}/points",
        f"/ogc/collections/{text}/items",
        f"/tiles/probability/1/0/0.png?state={text}",
    ):
        problem(client.get(path), 404, 422)
    for query in ({"bbox": text}, {"datetime": text}, {"limit": text}):
        problem(client.get("/ogc/collections/flood/items", params=query), 400, 422)
    assert workspace.service.store.counts("flood") == {"report": 1}


@pytest.mark.parametrize("text", ["=cmd|' /C calc'!A0", "+1+1", "-2+3", "@SUM(A1)", "\t=1"])
def test_a_formula_never_leaves_in_a_csv(make_workspace, text):
    space = make_workspace()
    admin = space.client("admin")
    name = text.strip()
    assert admin.post("/situations", json=FLOOD | {"states": ["dry", name], "title": name}).status_code == 201
    admin.post(URL, json=HERE | {"label": name, "source": name})
    space.fit()
    table = admin.get("/situations/flood/export/csv").text
    cells = [cell for line in table.splitlines() for cell in line.split(",")]
    assert not any(cell.strip('"').startswith(name[:2]) for cell in cells)


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "javascript:alert(1)",
        "</title><svg onload=alert(1)>",
    ],
)
def test_markup_in_reports_stays_text(workspace, text):
    client = workspace.client("trusted")
    client.post(URL, json=REPORT | {"text": text, "source": text})
    workspace.fit()
    for path in ("/points", "/sources", "/ogc/collections/flood/items"):
        reply = client.get(path)
        # JSON that no browser takes for a page, whatever it holds.
        assert reply.headers["content-type"].startswith(("application/json", "application/geo+json"))
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert "default-src 'none'" in reply.headers["content-security-policy"]
    page = client.get("/situations/flood/export/html")
    assert text not in page.text and "attachment" in page.headers["content-disposition"]
    assert "sandbox" in page.headers["content-security-policy"]


def test_the_page_runs_only_our_own_scripts(workspace):
    policy = workspace.client().get("/").headers["content-security-policy"]
    assert "script-src 'self';" in policy and "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy and "base-uri 'none'" in policy


NAMES = [
    "../../../etc/passwd",
    "..\\..\\x.csv",
    "/etc/passwd",
    "a\x00b.csv",
    "x.csv/../../y",
    "%2e%2e%2fx",
    "." * 300,
    "con",
]


@pytest.mark.parametrize("name", NAMES)
def test_file_names_cannot_reach_other_files(workspace, name, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    table = "source,lat,lon,label\ns,18.5,-72.3,dry\n"
    reply = workspace.client("reporter").post("/situations/flood/import", files={"file": (name, table)})
    assert reply.status_code in (201, 400, 422)
    assert list(tmp_path.iterdir()) in ([], [tmp_path / "workspace0.db"]) or not [
        p for p in tmp_path.iterdir() if "workspace" not in p.name
    ]


@pytest.mark.parametrize("name", ["../app.py", "..%2fapp.py", "%2e%2e/app.py", "app.js/../../app.py", "nothing", "."])
def test_paths_cannot_reach_other_files(workspace, name):
    for folder in ("static", "vendor", "legend"):
        reply = workspace.client().get(f"/{folder}/{name}")
        assert reply.status_code in (404, 422) and "import " not in reply.text


def bomb(size):
    return gzip.compress(b" " * size, 9, mtime=0)


def test_oversized_bodies_are_refused_declared_or_not(make_workspace):
    space = make_workspace(body_limit=10_000)
    space.client("admin").post("/situations", json=FLOOD)
    client = space.client("reporter")
    problem(client.post(URL, content=b"x" * 10_001, headers=JSON), 413)

    def endless():
        for _ in range(1000):
            yield b"x" * 1000

    problem(client.post(URL, content=endless(), headers=JSON), 413)
    lying = JSON | {"Content-Length": "5"}
    assert client.post(URL, content=b"x" * 50_000, headers=lying).status_code in (400, 413)


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_compression_bombs_are_refused(workspace, encoding):
    client = workspace.client("reporter")
    packed = bomb(300 * 2**20) if encoding == "gzip" else zlib.compress(b" " * (300 * 2**20), 9)
    problem(client.post(URL, content=packed, headers=JSON | {"Content-Encoding": encoding}), 413)
    honest = json.dumps([REPORT] * 50).encode()
    packed = gzip.compress(honest, mtime=0) if encoding == "gzip" else zlib.compress(honest)
    assert client.post(URL, content=packed, headers=JSON | {"Content-Encoding": encoding}).json()["stored"] == 50


@pytest.mark.parametrize(
    ("body", "encoding"), [(b"not gzip", "gzip"), (bomb(1000)[:-9], "gzip"), (b"{}", "br"), (b"{}", "gzip, gzip")]
)
def test_wrong_encodings_are_refused(workspace, body, encoding):
    client = workspace.client("reporter")
    problem(client.post(URL, content=body, headers=JSON | {"Content-Encoding": encoding}), 400, 415)


def test_a_zip_bomb_as_an_upload_is_refused(make_workspace):
    space = make_workspace(import_limit=2**20)
    space.client("admin").post("/situations", json=FLOOD)
    table = "source,lat,lon,label\n" + "s,18.5,-72.3,dry\n" * 500_000
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("reports.csv", table)
    assert len(packed.getvalue()) < 2**20
    files = {"file": ("r.csv.gz", gzip.compress(table.encode()))}
    problem(space.client("reporter").post("/situations/flood/import", files=files), 413)
    body = problem(
        space.client("reporter").post("/situations/flood/import", files={"file": ("r.zip", packed.getvalue())}),
        413,
        422,
    )
    assert "/tmp" not in body["detail"]


def test_too_many_rows_are_refused(make_workspace):
    space = make_workspace(row_limit=10)
    space.client("admin").post("/situations", json=FLOOD)
    client = space.client("reporter")
    problem(client.post(URL, json=[REPORT] * 11), 413)
    table = "source,lat,lon,label\n" + "".join(f"s{i},18.5,-72.3,dry\n" for i in range(11))
    problem(client.post(URL, content=table, headers={"Content-Type": "text/csv"}), 413)
    assert stored(space) == 0


BAD_BODIES = [
    b"", b"{", b"[[[[", b"null", b"7", b'"x"', b"[" * 100_000, b'{"longitude": NaN, "latitude": 18.5, "label": "dry"}',
    b'{"longitude": 1e999, "latitude": 18.5, "label": "dry"}', b"\xff\xfe\x00", b'{"longitude": -72.3}',
    b'{"longitude": "x", "latitude": [], "label": {}}',
    b'{"longitude":-72.3,"latitude":18.5,"label":"dry","id":"a\\u0000b"}',
    b'{"longitude":-72.3,"latitude":18.5,"label":"dry","source":"\\ud800"}',
    b'{"longitude":-72.3,"latitude":18.5,"label":"dry","time":1e300}',
    b'{"longitude":-72.3,"latitude":18.5,"label":"dry","time":"99999-01-01"}',
    json.dumps(REPORT | {"id": "x" * 5000}).encode(), json.dumps(REPORT | {"text": "x" * 6000}).encode(),
    b'{"type": "Feature", "geometry": null, "properties": null}',
    b'{"type":"Feature","geometry":{"type":"Point","coordinates":[]}}',
]  # fmt: skip


@pytest.mark.parametrize("body", BAD_BODIES, ids=range(len(BAD_BODIES)))
def test_bad_bodies_are_refused(workspace, body):
    problem(workspace.client("reporter").post(URL, content=body, headers=JSON), 400, 422)
    assert stored(workspace) == 0


@pytest.mark.parametrize(
    "media",
    [
        "",
        "text/plain",
        "application/xml",
        "text/html",
        "multipart/form-data",
        "application/x-www-form-urlencoded",
        "image/svg+xml",
    ],
)
def test_wrong_content_types_are_refused(workspace, media):
    problem(workspace.client("reporter").post(URL, content=json.dumps(REPORT), headers={"Content-Type": media}), 415)
    problem(
        workspace.client("reporter").post(
            "/situations/flood/webhook/ushahidi", content="{}", headers={"Content-Type": media}
        ),
        415,
    )


FORGED = [
    "", "x", "cf__", "cf_000000000000_x", "cf_' OR 1=1 --_x", "Bearer", "cf_" + "a" * 5000 + "_b", "cf_é_x",
]  # fmt: skip


@pytest.mark.parametrize("key", FORGED, ids=range(len(FORGED)))
def test_forged_keys_are_refused(workspace, key):
    for headers in ({"Authorization": f"Bearer {key}"}, {"X-API-Key": key}, {"Authorization": f"Digest {key}"}):
        if headers.get("X-API-Key") == "":
            continue
        problem(workspace.client().get("/me", headers={k: v.encode("latin-1") for k, v in headers.items()}), 401)


def test_a_key_with_another_secret_is_refused(workspace):
    identity = workspace.keys["admin"].split("_")[1]
    problem(workspace.client().get("/keys", headers={"Authorization": f"Bearer cf_{identity}_{'A' * 43}"}), 401)


def test_guessing_keys_is_slowed_down(make_workspace):
    space = make_workspace(failures_per_minute=5)
    client = space.client()
    codes = [client.get("/me", headers={"Authorization": f"Bearer cf_abc_{i}"}).status_code for i in range(9)]
    assert codes[:5] == [401] * 5 and codes[-1] == 429


NEEDED = [
    ("GET", "/keys", None, "admin"),
    ("POST", "/keys", {"name": "x", "role": "admin"}, "admin"),
    ("DELETE", "/keys/abc", None, "admin"),
    ("POST", "/situations", FLOOD | {"id": "new"}, "admin"),
    ("DELETE", "/situations/flood", None, "admin"),
    ("PUT", "/situations/flood/sources/me/trust", {"level": "certain"}, "admin"),
    ("DELETE", "/situations/flood/reports/r", None, "trusted"),
    ("POST", URL, REPORT, "reporter"),
    ("POST", "/situations/flood/webhook/ushahidi", {}, "reporter"),
]
ROLES = [None, "reader", "reporter", "trusted", "admin"]


@pytest.mark.parametrize(("method", "path", "body", "least"), NEEDED)
def test_nobody_acts_above_their_role(workspace, method, path, body, least):
    for role in ROLES[: ROLES.index(least)]:
        reply = workspace.client(role).request(method, path, json=body)
        problem(reply, 401 if role is None else 403)
    assert workspace.service.store.counts("flood") == {}
    assert workspace.client(least).request(method, path, json=body).status_code not in (401, 403)


def test_a_reporter_cannot_borrow_trust(workspace):
    admin, reporter = workspace.client("admin"), workspace.client("reporter")
    admin.put("/situations/flood/sources/Fire brigade/trust", json={"level": "certain"})
    before = workspace.service.store.counts("flood")
    for claim in (
        {"trusted": True},
        {"source": "Fire brigade"},
        {"source": "trusted: a trusted"},
        {"source": "trusted:x"},
    ):
        problem(reporter.post(URL, json=REPORT | claim), 403)
        problem(reporter.post(URL, json=[REPORT | claim]), 403)
    table = "source,lat,lon,label\nFire brigade,18.5,-72.3,dry\n"
    problem(reporter.post("/situations/flood/import", files={"file": ("x.csv", table)}), 403)
    assert workspace.service.store.counts("flood") == before
    assert workspace.client("trusted").post(URL, json=REPORT | {"source": "Fire brigade"}).status_code == 201


def test_an_admin_cannot_lock_itself_out(workspace):
    admin = workspace.client("admin")
    problem(admin.delete(f"/keys/{workspace.keys['admin'].split('_')[1]}"), 409)


def test_other_sites_are_not_let_in(make_workspace):
    space = make_workspace(cors_origins=["https://ours.example"])
    ask = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
    client = space.client()
    refused = client.options("/situations", headers=ask)
    problem(refused, 403)
    assert "access-control-allow-origin" not in refused.headers
    assert (
        "access-control-allow-origin"
        not in client.get("/situations", headers={"Origin": "https://evil.example"}).headers
    )
    allowed = client.options("/situations", headers=ask | {"Origin": "https://ours.example"})
    assert allowed.headers["access-control-allow-origin"] == "https://ours.example"
    assert "access-control-allow-credentials" not in allowed.headers


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example:8000", ""])
def test_names_that_are_not_ours_are_not_answered(workspace, host):
    problem(workspace.client().get("/situations", headers={"Host": host}), 421, 400)


def test_a_flood_is_slowed_down(make_workspace):
    space = make_workspace(anonymous_per_second=2)
    client = space.client()
    codes = [client.get("/health").status_code for _ in range(40)]
    assert codes[0] == 200 and codes[-1] == 429
    reply = client.get("/health")
    problem(reply, 429)
    assert int(reply.headers["retry-after"]) >= 1


def test_a_bucket_fills_again():
    limit = RateLimit(per_second=10, burst=5)
    assert [limit.wait("a", now=0.0) for _ in range(5)] == [0.0] * 5
    assert limit.wait("a", now=0.0) == pytest.approx(0.1)
    assert limit.wait("b", now=0.0) == 0.0  # others are not held up
    assert limit.wait("a", now=1.0) == 0.0


def test_no_secret_reaches_the_log(workspace, caplog):
    key = workspace.keys["admin"]
    caplog.set_level(logging.DEBUG)
    workspace.client("admin").post(URL, json=REPORT | {"text": "call Zebedee"})
    workspace.client().get("/situations", params={"key": key}, headers={"Authorization": f"Bearer {key}x"})
    workspace.client().get(f"/static/{key}")
    lines = [logs.Lines().format(record) for record in caplog.records if record.name.startswith("crowdfield")]
    assert lines
    for line in lines:
        assert key.split("_", 2)[2] not in line and "Zebedee" not in line
        json.loads(line)
    assert "secret" not in logs.redact("postgresql://me:secret@host/db") and "cf_…" in logs.redact(f"see {key}")


def test_errors_say_problem_json_everywhere(workspace):
    client = workspace.client("admin")
    for method, path in [
        ("GET", "/nope"),
        ("PATCH", "/situations"),
        ("GET", "/situations/none"),
        ("GET", "/tiles/x/1/1/1.png"),
        ("GET", "/point/1,2"),
        ("GET", "/export/exe"),
        ("GET", "/tiles/probability/3/9/0.png"),
        ("DELETE", "/situations/flood/reports/none"),
        ("POST", "/situations"),
    ]:
        problem(client.request(method, path), 404, 405, 422, 400)


def test_only_named_sites_may_show_a_map_inside_their_pages(make_workspace):
    space = make_workspace(embed_origins=["https://ours.example"])
    client = space.client()
    policy = client.get("/?embed=1").headers["content-security-policy"]
    assert "frame-ancestors https://ours.example" in policy
    # The whole page, with its keys, never; nor any map where no site was named.
    for page in (client.get("/"), client.get("/?embed=yes"), make_workspace().client().get("/?embed=1")):
        assert "frame-ancestors 'none'" in page.headers["content-security-policy"]


@pytest.mark.parametrize("origin", ["*", "https://a.example; script-src *", "ours.example", "https://*.example"])
def test_sites_that_may_show_a_map_are_named_one_by_one(origin):
    with pytest.raises(ValueError, match="each site"):
        Settings(embed_origins=[origin])
