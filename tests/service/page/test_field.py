"""The page for reports from the field: on a phone, with its position, offline and online again."""

import io
import json

import pytest
from PIL import Image
from tests.browser import needs_chromium
from tests.service.page.live import PHONE, opened, serious, shot, until, wait
from tests.service.workspace import FLOOD

pytestmark = needs_chromium
HERE = {"longitude": -72.31, "latitude": 18.52, "accuracy": 8}


@pytest.fixture
def photo(tmp_path):
    path = tmp_path / "water.jpg"
    Image.new("RGB", (64, 48), "steelblue").save(path)
    return path


@pytest.fixture(scope="module")
def fieldwork(live):
    """A map of its own, and the address of the page for reports to it."""
    with live.api() as api:
        api.post("/situations", json=FLOOD | {"id": "fieldwork", "title": "Fieldwork"}).raise_for_status()
        yield "/field/?situation=fieldwork"
        api.delete("/situations/fieldwork").raise_for_status()


def stored(live):
    """The reports that the map has seen, each by its words and place."""
    with live.api() as api:
        points = api.get("/situations/fieldwork/points").json()["features"]
    told = ((f["properties"], f["geometry"]["coordinates"]) for f in points)
    return sorted((about["text"], about["time"], about["accuracy"], *place) for about, place in told)


def states(page):
    return page.locator("#queue li").evaluate_all("all => all.map(li => li.className)")


def write(page, label, words):
    page.click("#locate")
    page.wait_for_selector("#place-said:has-text('give or take 8 m')")
    page.check(f"input[name=label][value={label}]")
    page.fill("#words", words)


def test_reports_from_the_field_wait_for_the_network_and_arrive_once(live, fieldwork, photo):
    options = PHONE | {"geolocation": HERE, "permissions": ["geolocation"]}
    # Without a network the browser itself says so on its console.
    lost = ("ERR_INTERNET_DISCONNECTED", "ERR_FAILED")
    with opened(live, "reporter", path=fieldwork, expect=lost, **options) as page:
        until(page, "navigator.serviceWorker.controller !== null")
        page.wait_for_selector("#reach.on")
        assert page.locator("input[name=label]:checked").count() == 0  # nothing is said beforehand
        page.click("#send")
        assert "latitude, longitude" in page.inner_text("#place-said")
        page.fill("#place", "48.85, 2.35")
        page.click("#send")
        assert "outside the map" in page.inner_text("#place-said")
        write(page, "flooded", "Knee deep")
        page.set_input_files("#photo", photo)
        assert "stays on this phone" in page.inner_text("#photo-more")
        shot(page, "field")
        assert serious(page) == []
        page.click("#send")
        page.wait_for_selector("#outcome:has-text('Received')")
        assert states(page) == ["sent"] and page.locator("#queue img").count() == 1
        # Offline, and opened anew: the page, its maps and its reports are there.
        page.context.set_offline(True)
        page.reload()
        page.wait_for_selector("#reach:has-text('Offline')")
        write(page, "dry", "Bridge is free")
        page.click("#send")
        page.wait_for_selector("#outcome:has-text('Kept on this phone')")
        page.wait_for_selector("#queue li.waiting")
        assert states(page) == ["waiting", "sent"] and "1 report waits" in page.inner_text("#queue-said")
        page.clock.install()
        page.reload()
        page.wait_for_selector("#queue li.waiting")
        assert page.inner_text("#key") == "Your key"  # it is still there, though nobody can say whose it is
        shot(page, "field-offline")
        # With the network back it is sent. The answer gets lost, so it is sent again.
        sent = []

        def lose(route):
            sent.append(route.request.post_data_json)
            if len(sent) > 1:
                return route.continue_()
            route.fetch()
            return route.abort()

        page.context.route("**/situations/fieldwork/reports", lose)
        page.context.set_offline(False)
        wait(lambda: page.evaluate("navigator.onLine") and len(sent) == 1)
        page.wait_for_selector("#queue li.waiting")
        page.clock.fast_forward(15_000)  # to the next attempt
        page.wait_for_selector("#queue-said:has-text('Everything was sent')")
        assert len(sent) >= 2 and all(report == sent[0] for report in sent)
        # Removing is for this phone only.
        page.click("#queue button >> nth=0")
        page.click("#queue button >> nth=0")
        page.wait_for_selector("#queue-said:has-text('None yet')")
        page.context.unroute_all(behavior="ignoreErrors")
    wait(lambda: len(stored(live)) >= 2)
    bridge, knee = stored(live)
    assert bridge[0] == "Bridge is free" and knee[0] == "Knee deep"
    assert bridge[1:] == pytest.approx((sent[0]["time"], 8, -72.31, 18.52))


def test_without_a_key_reports_are_kept_and_a_refused_one_is_marked(live, fieldwork):
    refused = {"title": "Refused", "status": 422, "detail": "the label is none of this situation's"}
    with opened(live, None, path=f"{fieldwork}&lang=ar", expect=("422", "401"), color_scheme="dark", **PHONE) as page:
        page.wait_for_selector("#reach.on")
        assert page.is_visible("#need-key") and page.get_attribute("html", "dir") == "rtl"
        page.fill("#place", "18.5, -72.3")
        page.check("input[name=label][value=dry]")
        page.click("#send")
        page.wait_for_selector("#queue li.key")
        page.click("#key")
        page.fill("#key-value", live.keys["reporter"])
        page.context.route("**/fieldwork/reports", lambda r: r.fulfill(status=422, body=json.dumps(refused)), times=1)
        page.click("#key-form button[value=use]")
        page.wait_for_selector("#queue li.refused")
        assert "none of this situation" in page.inner_text("#queue li")
        assert page.evaluate("localStorage.getItem('crowdfield-field-key')") is None  # kept only where somebody says so
        shot(page, "field-arabic-dark")
        assert serious(page) == []
        # What was never received exists only on this phone, so removing it is asked twice.
        page.click("#queue button")
        assert page.locator("#queue li").count() == 1
        page.click("#queue button")
        until(page, "document.querySelectorAll('#queue li').length === 0")


def test_the_page_for_the_field_can_be_installed(live):
    with live.api() as api:
        assert api.get("/field", follow_redirects=False).headers["location"] == "field/"
        manifest = api.get("/field/manifest.webmanifest")
        assert manifest.headers["content-type"].startswith("application/manifest+json")
        assert manifest.json()["start_url"] == manifest.json()["scope"] == "/field/"
        for icon in manifest.json()["icons"]:
            answer = api.get(icon["src"])
            assert "immutable" in answer.headers["cache-control"]
            if icon["type"] == "image/png":
                assert "x".join(map(str, Image.open(io.BytesIO(answer.content)).size)) == icon["sizes"]
        worker = api.get("/field/worker.js")
        assert worker.headers["cache-control"] == "no-cache" and 'RELEASE = "assets"' not in worker.text
