"""A running service and a browser that can reach nothing else, for tests that look at its pages."""

import io
import os
import time
from contextlib import contextmanager
from pathlib import Path

import httpx
import numpy as np
from axe_playwright_python.sync_playwright import Axe
from PIL import Image
from playwright.sync_api import Browser
from tests.browser import QUIET

# MapLibre needs WebGL, which a machine without a screen has only in software.
# Only the map is drawn that way: the page around it is drawn by the processor directly, which is faster.
WEBGL = [
    *(arg for arg in QUIET if arg != "--disable-gpu"),
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
    "--disable-gpu-compositing",
]
SHOTS = Path(os.environ.get("CROWDFIELD_SHOTS", Path(__file__).resolve().parents[3] / "out" / "screenshots"))
# A small window unless a test is about the layout: without a graphics card, every pixel takes the processor's time.
SMALL = {"width": 1000, "height": 640}
DESKTOP = {"width": 1280, "height": 800}
PHONE = {"width": 390, "height": 844, "has_touch": True, "is_mobile": True}


# How many reports the map shows, with those behind the numbers: read from the tiles that are drawn.
def drawn(*layers):
    """The features that these layers of reports show; while the map changes, also those that it showed before."""
    names = "|".join(layers)
    shown = f"crowdfieldMap.getStyle().layers.map(l => l.id).filter(id => /^({names})(-[0-9]+)?$/.test(id))"
    return f"crowdfieldMap.queryRenderedFeatures({{ layers: {shown} }})"


DRAWN = f"{drawn('reports', 'clusters')}.reduce((n, f) => n + (f.properties.points ?? 1), 0)"


class Live:
    def __init__(self, port: int, keys: dict[str, str], browser: Browser):
        self.url, self.keys, self.browser = f"http://127.0.0.1:{port}", keys, browser

    def api(self, role: str = "admin") -> httpx.Client:
        return httpx.Client(base_url=self.url, headers={"Authorization": f"Bearer {self.keys[role]}"}, timeout=60)


# Only what never happens takes this long, also where other tests keep the processors busy.
PATIENCE = 240.0
# Answers of a service that has too much to do: the page asks again.
BUSY = ("the server responded with a status of 503", "the server responded with a status of 504")


def wait(true, seconds=PATIENCE):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.03)


@contextmanager
def opened(
    live,
    role="admin",
    *,
    query="",
    path="/",
    width=SMALL["width"],
    height=SMALL["height"],
    expect=(),
    hints=False,
    **options,
):
    """The page with a key. On leaving: nothing on the console, and no request to anywhere else.

    As for somebody who prefers less motion, unless a test asks for it: each frame of a fade or a flight takes a
    processor that draws the map a tenth of a second."""
    options = {"reduced_motion": "reduce", "accept_downloads": True} | options
    context = live.browser.new_context(viewport={"width": width, "height": height}, **options)
    if not hints:  # as for somebody who has been here before
        context.add_init_script("localStorage.setItem('crowdfield-tour', 'seen')")
    page = context.new_page()
    trouble: list[str] = []
    elsewhere: list[str] = []
    page.set_default_timeout(1000 * PATIENCE)
    page.trouble = trouble
    page.on("console", lambda m: trouble.append(m.text) if m.type == "error" else None)
    page.on("pageerror", lambda error: trouble.append(str(error)))
    page.on("dialog", lambda dialog: trouble.append(f"a dialog: {dialog.message}"))
    page.on("request", lambda r: None if r.url.startswith((live.url, "blob:", "data:")) else elsewhere.append(r.url))
    page.goto(f"{live.url}{path}{query}" + (f"#key={live.keys[role]}" if role else ""))
    yield page
    context.close()
    assert not elsewhere
    assert unexpected(page, *expect) == []


def unexpected(page, *expected):
    """What the page told on its console since this was last asked, except for what is expected there."""
    told = [text for text in page.trouble if not any(known in text for known in (*expected, *BUSY))]
    page.trouble.clear()
    return told


def ready(page, version=None):
    """Everything of a version is there and drawn."""
    page.wait_for_selector(f"body[data-version='{version}']" if version else "body[data-version]")
    until(page, "crowdfieldMap.loaded() && crowdfieldMap.areTilesLoaded()")


def until(page, true):
    """Asked from outside: the page's own policy forbids it to evaluate text."""
    wait(lambda: page.evaluate(true))


def newest(page):
    return int(page.get_attribute("body", "data-version"))


def shot(page, name):
    SHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SHOTS / f"{name}.png")


def picture(page):
    """The drawn map, as the browser shows it."""
    page.wait_for_timeout(400)
    return np.asarray(Image.open(io.BytesIO(page.locator("#map canvas").screenshot())).convert("RGB")).astype(int)


def click_map(page, across, down):
    box = page.locator("#map").bounding_box()
    page.mouse.click(box["x"] + across * box["width"], box["y"] + down * box["height"])


def click_feature(page, layer):
    """Click the first feature of a layer that is drawn and not under a control."""
    places = page.evaluate(f"{drawn(layer)}.map(f => crowdfieldMap.project(f.geometry.coordinates))")
    box = page.locator("#map").bounding_box()
    inside = [p for p in places if 60 < p["x"] < box["width"] - 60 and 60 < p["y"] < box["height"] - 60]
    page.mouse.click(box["x"] + inside[0]["x"], box["y"] + inside[0]["y"])


def serious(page):
    return [
        (v["id"], [node["html"][:120] for node in v["nodes"][:3]])
        for v in Axe().run(page).response["violations"]
        if v["impact"] in ("serious", "critical")
    ]
