"""`crowdfield serve` with its worker, and a browser: both started once for all tests of this folder."""

import os
import socket
import subprocess
import sys
from http.client import HTTPConnection, HTTPException

import numpy as np
import pytest
from playwright.sync_api import sync_playwright
from tests.browser import CHROMIUM
from tests.service.page.live import WEBGL, Live, wait
from tests.service.street_tiles import streets, write_pmtiles
from tests.service.workspace import FLOOD

from crowdfield.service.auth import MAY_NAME_ANY_SOURCE, Keys, Role
from crowdfield.service.database import open_database


@pytest.fixture(scope="package")
def browser():
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=WEBGL)
        yield browser
        browser.close()


def answers(port):
    connection = HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request("GET", "/ready")
        return connection.getresponse().status == 200
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()


@pytest.fixture(scope="package")
def live(tmp_path_factory, browser):
    """`crowdfield serve` with its worker, a map of streets, and a map of 60 reports."""
    file = tmp_path_factory.mktemp("ground") / "streets.pmtiles"
    basemap = write_pmtiles(file, {(0, 0, 0): streets()}, attribution="<b>© OpenStreetMap</b>")
    database = str(tmp_path_factory.mktemp("live") / "workspace.db")
    engine = open_database(database)
    keys = {role.name: Keys(engine).create(f"the {role.name}", role, MAY_NAME_ANY_SOURCE) for role in Role if role}
    engine.dispose()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-c", "from crowdfield.cli import main; main()", "serve", "--port", str(port)]
    process = subprocess.Popen(
        [*command, "--log-level", "error"],
        # No version but those that the tests ask for.
        env=os.environ
        | {"CROWDFIELD_DATABASE": database, "CROWDFIELD_REST_SECONDS": "3600", "CROWDFIELD_BASEMAP": str(basemap)},
        stderr=subprocess.DEVNULL,
    )
    try:
        wait(lambda: answers(port))
        service = Live(port, keys, browser)
        with service.api() as api:
            api.post("/situations", json=FLOOD | {"title": "Léogâne", "columns": 48}).raise_for_status()
            rng = np.random.default_rng(0)
            places = rng.normal([-72.3, 18.5], 0.07, (60, 2)).clip([-72.55, 18.25], [-72.05, 18.75])
            for part in (places[:40], places[40:]):
                rows = [
                    {"longitude": x, "latitude": y, "label": FLOOD["states"][int(x > -72.3)],
                     "source": f"<b>s{i % 3}</b>", "text": "<img src=x onerror=alert(1)>",
                     "accuracy": 40}
                    for i, (x, y) in enumerate(part.tolist())
                ]  # fmt: skip
                assert api.post("/situations/flood/reports", json=rows).json()["stored"] == len(rows)
                wait(lambda: not api.get("/situations/flood").json()["waiting"])
        yield service
    finally:
        process.terminate()
        process.wait(30)


@pytest.fixture(autouse=True)
def maps_of_a_test_end_with_it(live):
    """A test that fails leaves no map behind: the next one would open on it."""
    with live.api() as api:
        before = {one["id"] for one in api.get("/situations").json()}
        yield
        for one in api.get("/situations").json():
            if one["id"] not in before:
                api.delete(f"/situations/{one['id']}").raise_for_status()
