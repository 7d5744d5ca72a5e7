"""`crowdfield follow` against a real HTTP server that speaks what KoboToolbox and ODK Central document."""

import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from crowdfield import io
from crowdfield.cli import main

PAGE = 7  # submissions that the server gives at once, however many are asked for
FAST = ("--cell", "1km", "--lengthscale", "3km", "--seed", "0", "--quiet", "--json")


def kobo(number):
    place = f"{18.5 + number / 300:.5f} {-72.3 - (number % 5) / 100:.5f} 12.0 4.5"
    return {
        "_id": 1000 + number,
        "_uuid": f"uuid-{number}",
        "_submission_time": f"2026-05-01T10:{number:02d}:00",
        "_submitted_by": f"person {number % 4}",
        "_geolocation": [float(part) for part in place.split()[:2]],
        "_validation_status": {},
        "group/location": place,
        "group/damage": "destroyed" if number % 3 else "intact",
    }


def central(number):
    return {
        "__id": f"uuid:{number}",
        "__system": {"submissionDate": f"2026-05-01T10:{number:02d}:00.000Z", "submitterName": f"person {number % 4}"},
        "location": {
            "type": "Point",
            "coordinates": [-72.3 - (number % 5) / 100, 18.5 + number / 300, 12.0],
            "properties": {"accuracy": 4.5},
        },
        "damage": "destroyed" if number % 3 else "intact",
    }


class Reporting(ThreadingHTTPServer):
    origin: str
    state: dict[str, Any]


class Server(BaseHTTPRequestHandler):
    """Submissions are numbered from 0; `state` says how many there are, and what goes wrong."""

    def do_GET(self):
        assert isinstance(self.server, Reporting)
        state, parts = self.server.state, urlsplit(self.path)
        asked = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        state["asked"].append(asked)
        is_kobo = parts.path == "/api/v2/assets/aBcDeF/data.json"
        if state.get("redirect"):
            return self.answer(302, {}, location="http://elsewhere.example/")
        if not is_kobo and parts.path != "/v1/projects/1/forms/damage.svc/Submissions":
            return self.answer(404, {"detail": "Not found."})
        if self.headers["Authorization"] != ("Token secret" if is_kobo else "Bearer secret"):
            return self.answer(401, {"detail": "Invalid token."})
        rows = [(kobo if is_kobo else central)(number) for number in range(state["count"])]
        if not is_kobo:
            rows.reverse()  # ODK Central gives the newest first
        if is_kobo:
            assert json.loads(asked["sort"]) == {"_id": 1}
            least = json.loads(asked.get("query", '{"_id": {"$gt": -1}}'))["_id"]["$gt"]
            rows = [row for row in rows if row["_id"] > least]
        elif "$filter" in asked:
            assert asked["$filter"].startswith("__system/submissionDate ge ")
            rows = [row for row in rows if row["__system"]["submissionDate"] >= asked["$filter"].split(" ge ")[1]]
        start = int(asked.get("start", 0))
        if start >= state.get("broken_from", 10**9):
            if state["status"] == 200:
                return self.answer(200, None)
            return self.answer(state["status"], {"detail": "no"})
        more = start + PAGE < len(rows)
        link = f"{state.get('link', self.server.origin)}{self.path}&start={start + PAGE}" if more else None
        page = rows[start : start + PAGE]
        body: dict[str, Any] = {"count": len(rows), "next": link, "previous": None, "results": page}
        if not is_kobo:
            body = {"@odata.context": "x", "value": page} | ({"@odata.nextLink": link} if link else {})
        return self.answer(200, body)

    def answer(self, status, body, location=None):
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        if location:
            self.send_header("Location", location)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    made = Reporting(("127.0.0.1", 0), Server)
    made.origin = f"http://127.0.0.1:{made.server_address[1]}"
    made.state = {"count": 30, "asked": []}
    thread = threading.Thread(target=made.serve_forever, daemon=True)
    thread.start()
    yield made
    made.shutdown()
    made.server_close()
    thread.join()


FORMS = ("/api/v2/assets/aBcDeF/data.json", "/v1/projects/1/forms/damage.svc")


@pytest.fixture
def run(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "token").write_text("secret\n")

    def call(url, *arguments):
        with pytest.raises(SystemExit) as stop:
            main(["follow", url, "--token-file", "token", *arguments])
        out, err = capsys.readouterr()
        return stop.value.code, out, err

    return call


@pytest.mark.parametrize("form", FORMS)
def test_a_map_follows_a_form_and_each_submission_is_fetched_once(tmp_path, run, server, form):
    code, out, _ = run(server.origin + form, "-o", "map.tif", *FAST)
    first = json.loads(out)
    assert code == 0 and (first["new"], first["submissions"]) == (30, 30)
    assert io.read_map(tmp_path / "map.tif").metadata["reports"] == 30
    kept = io.read(tmp_path / "submissions.jsonl")
    assert kept.layout == "kobo" and kept.reports.labels == ("destroyed", "intact")
    assert len(kept.reports.sources) == 4 and (kept.reports.accuracy == 4.5).all()
    assert (tmp_path / "submissions.jsonl").stat().st_mode & 0o077 == 0

    server.state["asked"].clear()
    assert json.loads(run(server.origin + form, *FAST)[1])["new"] == 0
    assert len(server.state["asked"]) == 1  # nothing that is known is fetched again

    server.state["count"] = 33
    code, out, _ = run(server.origin + form, *FAST)
    assert code == 0 and (json.loads(out)["new"], json.loads(out)["submissions"]) == (3, 33)
    assert len(io.read(tmp_path / "submissions.jsonl").reports) == 33


@pytest.mark.parametrize("form", FORMS)
def test_a_fetch_that_was_cut_off_loses_nothing(tmp_path, run, server, form):
    run(server.origin + form, "-q")
    kept = tmp_path / "submissions.jsonl"
    whole = kept.read_bytes()
    kept.write_bytes(whole[: len(whole) // 2])
    code, _, _ = run(server.origin + form, "-q")
    assert code == 0 and kept.read_bytes() == whole


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("status", "words"), [(500, "has a problem"), (429, "too often"), (200, "no list of")])
def test_a_page_that_fails_in_between_loses_nothing(tmp_path, run, server, form, status, words):
    server.state |= {"broken_from": 2 * PAGE, "status": status}
    code, _, err = run(server.origin + form, "-q")
    assert code == 1 and words in err
    del server.state["broken_from"]
    code, out, _ = run(server.origin + form, *FAST)
    assert code == 0 and json.loads(out)["submissions"] == 30
    kept = (tmp_path / "submissions.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in kept] == [(kobo if "assets" in form else central)(n) for n in range(30)]


def test_a_map_that_could_not_be_made_is_made_when_nothing_new_has_come(tmp_path, run, server):
    url = server.origin + FORMS[0]
    code, _, err = run(url, "-o", "map.csv", "--label", "nothing", *FAST)
    assert code == 1 and "no column 'nothing'" in " ".join(err.split())
    code, out, _ = run(url, "-o", "map.csv", *FAST)
    assert code == 0 and json.loads(out)["new"] == 0 and (tmp_path / "map.csv").exists()


def test_following_goes_on_after_what_cannot_be_mapped_yet(tmp_path, run, server, monkeypatch):
    server.state |= {"count": 1}

    def sleep(_):
        if server.state["count"] == 30:
            raise KeyboardInterrupt
        server.state["count"] = 30

    monkeypatch.setattr("crowdfield.cli.follow.time.sleep", sleep)
    _, _, err = run(server.origin + FORMS[0], "-o", "map.csv", "--every", "60", *(o for o in FAST if o != "--quiet"))
    assert "Only one class of report" in " ".join(err.split()) and "Asking again in 60 s" in " ".join(err.split())
    assert (tmp_path / "map.csv").exists()


def test_a_form_without_submissions_makes_no_file(tmp_path, run, server):
    server.state["count"] = 0
    code, out, _ = run(server.origin + FORMS[0], "-o", "map.tif")
    assert code == 0 and "0 new submissions" in out
    assert [path.name for path in tmp_path.iterdir()] == ["token"]


@pytest.mark.parametrize(
    ("change", "path", "words"),
    [
        ({"token": "wrong"}, FORMS[0], "does not accept the token. Name a file"),
        ({"redirect": True}, FORMS[1], "it redirects.*Is the token right"),
        ({"link": "http://127.0.0.2"}, FORMS[0], "links to another server"),
        ({}, "/api/v2/assets/unknown/data.json", "no such form. Is the address right"),
        ({"kept": "lat,lon\n"}, FORMS[0], "not a file of submissions. Name a new one"),
    ],
)
def test_errors_say_what_is_wrong_and_never_show_the_token(tmp_path, run, server, change, path, words):
    server.state |= change
    if "token" in change:
        (tmp_path / "token").write_text(change["token"])
    if "kept" in change:
        (tmp_path / "submissions.jsonl").write_text(change["kept"])
    code, out, err = run(server.origin + path, "-q")
    said = " ".join(err.split())
    assert code == 1 and out == "" and "Traceback" not in err and "secret" not in err
    assert re.search(words, said), said
