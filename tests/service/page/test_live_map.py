"""The page, in a real browser that can reach nothing but the service: as a duty officer would use it."""

import httpx
import numpy as np
import pytest
from tests.browser import needs_chromium
from tests.service.page.live import (
    DESKTOP,
    DRAWN,
    PHONE,
    click_feature,
    click_map,
    drawn,
    newest,
    opened,
    picture,
    ready,
    serious,
    shot,
    unexpected,
    until,
    wait,
)
from tests.service.test_districts import HALVES
from tests.service.test_weights import people
from tests.service.workspace import FLOOD

pytestmark = needs_chromium


@pytest.fixture(scope="class")
def admins_window(live):
    """One page for tests that go on from where the one before left it: to open it takes longer than most of them."""
    with opened(live, **DESKTOP) as page:
        ready(page)
        yield page


@pytest.fixture
def admins_page(admins_window):
    yield admins_window
    assert unexpected(admins_window) == []


class TestThePageOfAnAdmin:
    def test_the_page_loads_offline_and_shows_the_map(self, admins_page, live):
        page = admins_page
        ready(page)
        assert live.keys["admin"] not in page.url  # the key is gone from the address bar
        assert "60 reports" in page.inner_text("#status") and page.title().startswith("Léogâne")
        assert page.locator("#legend").is_visible() and "flooded" in page.inner_text("#legend-title")
        image = picture(page)
        coloured = (image.max(axis=-1) - image.min(axis=-1)) > 40
        assert coloured.mean() > 0.02  # not only grey: something is known
        assert page.locator("#label-colours li").count() == 2
        shot(page, "desktop")
        assert serious(page) == []

    def test_layers_and_states_switch(self, admins_page):
        page = admins_page
        ready(page)
        seen = [picture(page)]
        for layer in ("uncertainty", "probability"):
            page.check(f"input[value={layer}]")
            until(page, f"document.getElementById('legend-image').src.includes('{layer}')")
            ready(page)
            seen.append(picture(page))
        page.select_option("#state", "dry")
        ready(page)
        assert "dry" in page.inner_text("#legend-title")
        seen.append(picture(page))
        assert (abs(seen[0] - seen[1]).max(axis=-1) > 25).mean() > 0.1
        assert (abs(seen[0] - seen[2]).max(axis=-1) > 25).mean() < 0.05  # back to where it was
        # Water is blue whichever state is asked about, on the map and in its dots: the scale is turned round instead.
        assert (abs(seen[0] - seen[3]).max(axis=-1) > 25).mean() < 0.05
        assert page.get_attribute("#legend-image", "src").endswith("scale=water-reversed")
        page.select_option("#state", "flooded")
        ready(page)

    def test_tiles_that_do_not_come_leave_no_layer_behind(self, admins_page):
        page = admins_page
        ready(page)
        page.route("**/tiles/uncertainty/**", lambda route: None)  # never answered
        page.check("input[value=uncertainty]")
        until(page, "document.getElementById('legend-image').src.includes('uncertainty')")
        page.check("input[value=probability]")
        overlays = "crowdfieldMap.getStyle().layers.filter(layer => layer.id.startsWith('overlay-')).length"
        until(page, f"{overlays} > 1")
        until(page, f"{overlays} === 1")
        page.unroute("**/tiles/uncertainty/**")

    def test_exports_are_saved(self, admins_page):
        page = admins_page
        ready(page)
        page.click("#tab-files")
        for form, start in (("GeoTIFF", b"II"), ("GeoJSON", b"{"), ("CSV", b"")):
            with page.expect_download() as saving:
                page.click(f"#exports button:has-text('{form}')")
            path = saving.value.path()
            assert saving.value.suggested_filename.startswith("flood-v") and path.read_bytes().startswith(start)
        assert serious(page) == []

    def test_every_control_is_reached_by_keyboard(self, admins_page):
        page = admins_page
        page.click("#tab-layers")
        ready(page)
        reached = set()
        page.focus("#situation")
        for _ in range(60):
            page.keyboard.press("Tab")
            reached.add(page.evaluate("document.activeElement.id || document.activeElement.className"))
        assert {"key", "slider", "tab-layers", "state", "show-reports", "show-next"} <= reached
        assert any("maplibregl-canvas" in name for name in reached)
        page.focus("#tab-layers")
        page.keyboard.press("ArrowRight")
        assert page.get_attribute("#tab-why", "aria-selected") == "true"

    def test_why_tells_the_sources_and_the_slider_goes_back(self, admins_page, live):
        page = admins_page
        ready(page)
        page.focus("#map canvas")
        page.keyboard.press("Enter")  # a click in the middle would open the reports that lie there
        page.wait_for_selector("#why .spoken")
        assert "%" in page.inner_text("#why .big") and "away, speak" in page.inner_text("#why .spoken")
        assert page.is_hidden("#why ol.forces")  # numbers are behind the words
        page.click("#why-numbers summary")
        assert page.is_visible("#why ol.forces")
        shot(page, "why")
        # Where nobody knows there is no number in large letters.
        page.evaluate("crowdfieldMap.jumpTo({ center: [-72.05, 18.75], zoom: 11 })")
        page.focus("#map canvas")
        page.keyboard.press("Enter")
        page.wait_for_selector("#why .unknown")
        assert page.inner_text("#why .big b") == "Unknown" and "guess" in page.text_content(
            "#why-numbers .hint >> nth=0"
        )
        # Trust is given to one report, never to the next one as well.
        page.check("#report-trusted")
        page.focus("#map canvas")
        page.keyboard.press("Enter")
        until(page, "!document.getElementById('report-trusted').checked")
        page.click("#tab-sources")
        page.click("details.source >> nth=0")
        assert page.locator("details.source >> nth=0").locator("table.matrix td").count() >= 5
        assert "<b>s" in page.inner_text("#sources")  # names are text, whatever they look like
        shot(page, "sources")
        last = newest(page)
        page.focus("#slider")
        page.keyboard.press("Home")
        ready(page, 1)
        assert "40 reports" in page.inner_text("#moment")
        assert page.get_attribute("#live", "aria-pressed") == "false"
        assert "earlier version" in page.inner_text("#version-note")
        page.click("#live")
        ready(page, last)
        assert page.is_hidden("#version-note")

    def test_places_to_look_at_are_compared_with_the_best_one(self, admins_page):
        page = admins_page
        page.click("#tab-next")
        assert page.locator("#next small").count() > 2
        assert "%" not in page.inner_text("#next small >> nth=0")
        assert "% as informative as place 1" in page.inner_text("#next small >> nth=1")

    def test_a_place_outside_the_map_is_said_to_be_there(self, admins_page):
        page = admins_page
        page.evaluate("crowdfieldMap.jumpTo({ center: [-70, 18.75], zoom: 9 })")
        page.focus("#map canvas")
        page.keyboard.press("Enter")
        page.wait_for_selector("#why:has-text('outside the map')")
        assert page.is_hidden("#report")

    def test_a_file_that_only_says_one_thing_is_offered_silence_and_can_be_left(self, admins_page, tmp_path):
        page = admins_page
        table = tmp_path / "Trapped.csv"
        rows = [f"s{i % 4},{18.5 + 0.003 * (i % 9)},{-72.3 + 0.01 * (i // 9)},trapped" for i in range(36)]
        table.write_text("\n".join(["source,lat,lon,label", *rows]))
        ready(page)
        page.click("#tab-files")
        page.check("#import-new")
        page.set_input_files("#file", table)
        page.wait_for_selector("#preview-silence")
        assert not page.is_checked("#preview-silence") and "Every report says “trapped”" in page.inner_text(".offer")
        page.check("#preview-silence")
        page.wait_for_selector("#preview-silence-count")
        # What cannot be followed is said, and can be changed again.
        page.fill("#preview-region", "1, 2, 3")
        page.keyboard.press("Tab")
        until(page, "document.getElementById('preview-status').textContent.includes('did not work')")
        page.click("#preview-cancel")
        assert page.is_hidden("#import-preview") and page.is_visible("#file")
        # On a map that is there: labels that it does not have are not taken unless somebody says what they mean.
        page.uncheck("#import-new")
        page.set_input_files("#file", table)
        page.wait_for_selector("#preview-take")
        assert page.is_disabled("#preview-take")
        page.select_option("#import-preview table select", "flooded")
        until(page, "document.getElementById('preview-take')?.textContent === 'Add 36 reports'")
        page.click("#preview-cancel")
        assert unexpected(page, "422") == []

    def test_districts_have_figures_and_alerts_on_the_page(self, admins_page, live, tmp_path):
        page = admins_page
        file = tmp_path / "halves.geojson"
        file.write_bytes(HALVES)
        ready(page)
        page.click("#tab-districts")
        page.wait_for_selector("#districts form")
        page.fill("#districts form input:not([type=file])", "The halves")
        page.set_input_files("#districts form input[type=file]", file)
        page.click("#districts form button[type=submit]")
        page.wait_for_selector("#districts tbody tr:nth-child(3)")
        assert page.inner_text("#districts select option >> nth=0") == "the-halves (3)"
        # East of the middle they say "flooded": that district comes first. One is not on the map at all.
        assert page.inner_text("#districts tbody tr:first-child th") == "east"
        assert "between" in page.inner_text("#districts tbody tr:first-child")
        # Most of each half is unknown: its share is a guess, and no bar.
        assert page.inner_text("#districts tbody tr:first-child b") == "Unknown"
        assert page.locator("#districts tbody .meter").count() == 0
        assert "not on this map" in page.inner_text("#districts tbody tr:last-child")
        # Their outlines are on the map: the one under the pointer tells its figures, and a click finds its row.
        until(page, "crowdfieldMap.queryRenderedFeatures({ layers: ['district-lines'] }).length > 0")
        box, bubble = page.locator("#map").bounding_box(), ".maplibregl-popup.district"
        page.mouse.move(box["x"] + 0.6 * box["width"], box["y"] + 0.75 * box["height"])
        page.wait_for_selector(bubble)
        name = page.inner_text(bubble).split(":")[0]
        assert name in ("west", "east") and "Unknown, a guess" in page.inner_text(bubble)
        assert serious(page) == []
        shot(page, "district-outlines")
        click_map(page, 0.6, 0.75)
        assert page.get_attribute("#districts tr.chosen", "data-area") == name
        # A pointer that rests gets the figures of the outlines that come, and loses those of outlines that go.
        shapes = page.evaluate("crowdfieldMap.getSource('districts').serialize().data")
        put = "data => crowdfieldMap.getSource('districts').setData(data)"
        page.evaluate(put, {"type": "FeatureCollection", "features": []})
        page.wait_for_selector(bubble, state="detached")
        page.evaluate(put, shapes)
        page.wait_for_selector(bubble)
        page.mouse.move(box["x"] + box["width"] + 40, box["y"] + 40)
        page.wait_for_selector(bubble, state="detached")
        # Without a pointer: Enter is for the centre of the map.
        page.focus("#map canvas")
        page.keyboard.press("Enter")
        page.wait_for_selector(bubble)
        assert page.get_attribute("#districts tr.chosen", "data-area") in page.inner_text(bubble)
        page.fill("#districts form.alert input[placeholder]", "duty@agency.example")
        page.click("#districts form.alert button[type=submit]")
        # No mail server is set here: that is said, and nothing else breaks.
        page.wait_for_selector("#alert:not([hidden])")
        assert "there is no mail server" in page.inner_text("#alert")
        shot(page, "districts")
        # A raster of people: from now on the panel counts them, and says so.
        page.click("#districts details.weights summary")
        wrong, right = tmp_path / "wrong.tif", tmp_path / "people.tif"
        wrong.write_bytes(HALVES)
        right.write_bytes(people(2000, 300))
        for raster in (wrong, right):
            page.set_input_files("#districts details.weights input[type=file]", raster)
            page.click("#districts details.weights button[type=submit]")
            if raster is wrong:
                page.wait_for_selector("#alert:has-text('is not a GeoTIFF')")
        page.wait_for_selector("#districts thead th:has-text('people where it is flooded')")
        assert "a guess: " in page.inner_text("#districts tbody tr:first-child")
        assert "not on this map" in page.inner_text("#districts tbody tr:last-child")
        assert "of people in a district" in page.inner_text("#districts form.alert")
        assert page.is_hidden("#alert")  # what went wrong before is over
        page.evaluate("document.getElementById('page-districts').scrollTop = 0")
        shot(page, "districts-people")
        page.click("#districts details.weights summary")
        page.locator("#districts details.weights button >> nth=1").scroll_into_view_if_needed()
        shot(page, "districts-people-form")
        assert serious(page) == []
        assert unexpected(page, "422") == []
        with opened(live, "reader", query="?lang=ar", color_scheme="dark", **PHONE) as page:
            ready(page)
            assert page.is_hidden("#tab-reports") and page.is_hidden("#tab-manage")  # readers have no list of reports
            page.click("#tab-districts")
            page.wait_for_selector("#districts tbody tr")
            assert page.locator("#districts form").count() == 0
            assert "people" in page.inner_text("#districts thead")
            assert page.evaluate("document.documentElement.scrollWidth") <= 390
            shot(page, "districts-phone")

    def test_maps_and_keys_have_a_life_on_the_page(self, admins_page, live):
        page = admins_page
        ready(page)
        page.click("#tab-manage")
        page.fill("#create-title", "Bridges")
        page.fill("#create-states", "open")
        page.click("#create button[type=submit]")
        assert "at least two states" in page.inner_text("#create-outcome")
        page.fill("#create-states", "open, closed")
        page.click("#create button[type=submit]")
        until(page, "document.title.startsWith('Bridges')")
        # Nothing of the map before is left; what to do next is said.
        until(page, f"{DRAWN} === 0")
        assert page.is_visible("#welcome")
        page.click("#tab-manage")
        page.fill("#manage-title", "Bridges of the north")
        page.select_option("#manage-positive", "open")
        page.check("#manage-archived")
        page.select_option("#manage-colours", "harm")
        page.select_option("#manage-access", "keys")
        page.click("#settings button[type=submit]")
        until(page, "document.getElementById('manage-outcome').textContent === 'Saved.'")
        assert page.get_attribute("#legend-image", "src").endswith("scale=harm")
        assert page.input_value("#manage-access") == "keys" and page.input_value("#manage-colours") == "harm"
        assert page.input_value("#state") == "open" and "(archived)" in page.inner_text("#situation")
        page.fill("#new-key-name", "Field team")
        page.select_option("#new-key-role", "trusted")
        page.fill("#new-key-days", "30")
        page.click("#new-key button[type=submit]")
        page.wait_for_selector("#new-key-outcome code")
        key = page.inner_text("#new-key-outcome code")
        me = httpx.get(f"{live.url}/me", headers={"Authorization": f"Bearer {key}"}).json()
        assert (me["name"], me["maps"]) == ("Field team", ["bridges"])
        shot(page, "manage")
        assert serious(page) == []
        # A key cannot revoke itself, so that is not offered.
        assert "your own key" in page.inner_text("#keys li:has-text('the admin')")
        assert page.locator("#keys li:has-text('the admin') button").count() == 0
        page.click("#keys button[aria-label='Revoke: Field team']")
        page.click("#keys button[aria-label='Revoke for good? Field team']")  # asked once more
        page.wait_for_selector("#keys li:has-text('revoked')")
        assert httpx.get(f"{live.url}/me", headers={"Authorization": f"Bearer {key}"}).status_code == 401
        page.click("#manage-delete")
        assert page.is_disabled("#delete-sure")
        page.fill("#delete-name", "Bridges of the north")
        page.click("#delete-sure")
        until(page, "document.title.startsWith('Léogâne')")
        assert unexpected(page, "404") == []
        with live.api() as api:
            assert {one["id"] for one in api.get("/situations").json()} == {"flood"}


def test_what_an_admin_types_about_alerts_stays_when_a_version_comes(live, publish):
    publish(1)
    with live.api() as api:
        api.put("/situations/going/districts/halves", files={"file": ("d.geojson", HALVES)}).raise_for_status()
    with opened(live, query="?situation=going") as page:
        ready(page, 1)
        page.click("#tab-districts")
        page.fill("#districts form.alert input[placeholder]", "neither a URL nor")
        page.click("#districts form.alert button[type=submit]")
        # The browser itself says what is expected, before anything is sent.
        assert page.evaluate("!document.querySelector('#districts form.alert').checkValidity()")
        page.fill("#districts form.alert input[placeholder]", "duty@agency")
        publish(2)
        ready(page, 2)
        page.wait_for_selector("#districts .hint:has-text('Of map version 2')")
        assert page.input_value("#districts form.alert input[placeholder]") == "duty@agency"
        assert page.evaluate("document.activeElement.matches('#districts form.alert input[placeholder]')")


def test_a_dropped_file_starts_a_map(live, tmp_path):
    table = tmp_path / "Bridges down.csv"
    rows = [f"team{i % 2},{18.5 + 0.001 * i},{-72.3 + 0.001 * (i % 7)},{('ok', 'down')[i % 3 == 0]}" for i in range(60)]
    table.write_text("\n".join(["source,lat,lon,label", *rows, "team1,48.85,2.35,ok"]))
    # Refused regions, and tiles of versions that went with the old one, are told on the console.
    with opened(live, expect=("422", "404")) as page:
        ready(page)
        page.click("#tab-files")
        page.check("#import-new")
        page.set_input_files("#file", table)
        page.wait_for_selector("#preview-take")
        assert "60 usable reports" in page.inner_text("#preview-rows") and page.is_hidden("#exports")
        assert page.input_value("#preview-map-title") == "Bridges down"
        # The one place far away is told, and the rows that are not used can be saved.
        assert "1 report lies outside" in page.inner_text("#preview-outside")
        with page.expect_download() as saving:
            page.click("#preview-rejects")
        assert "outside the region" in saving.value.path().read_text()
        page.select_option("#preview-positive", "ok")
        until(page, "document.getElementById('preview-status').textContent === ''")
        page.wait_for_timeout(300)
        shot(page, "preview")
        assert serious(page) == []
        page.click("#preview-take")
        until(page, "document.title.startsWith('Bridges down')")
        until(page, "document.getElementById('status').textContent.includes('60 reports')")
        until(page, "document.getElementById('import-outcome').textContent.includes('60 stored')")
        box = page.locator("#import-outcome").bounding_box()
        assert box["y"] > 0 and box["y"] + box["height"] < page.viewport_size["height"]  # in sight, without scrolling
        assert page.locator("#state option").all_inner_texts() == ["down", "ok"]
        page.click("#tab-manage")
        # Its region can be changed: to what the map shows, or by hand; what cannot be meant is explained.
        page.click("#region-view")
        west, south, east, north = map(float, page.input_value("#region-value").split(","))
        assert -73 < west < -72.3 < east < -72 and 18 < south < 18.5 < north < 19
        for given, said in (
            ("-72.4, -72.2, 18.4, 18.6", "west,south,east,north"),
            ("-72.4, 18.4, -72.2, 18.51", "49 "),
        ):
            page.fill("#region-value", given)
            page.click("#region button[type=submit]")
            until(page, f"document.getElementById('region-outcome').textContent.includes('{said}')")
        until(page, "document.getElementById('status').textContent.includes('11 reports')")
        assert serious(page) == []
    with live.api() as api:
        assert "bridges-down" in {s["id"] for s in api.get("/situations").json()}
        api.delete("/situations/bridges-down").raise_for_status()


@pytest.fixture
def publish(live):
    """One more report on a map of its own, until the version with this number is there."""
    with live.api() as api:
        api.post("/situations", json=FLOOD | {"id": "going", "title": "Going"}).raise_for_status()

        def report(version):
            row = {"id": f"g{version}", "longitude": -72.5, "latitude": 18.4, "label": "dry", "source": "s"}
            assert api.post("/situations/going/reports", json=[row]).json()["stored"] == 1
            wait(lambda: [v["number"] for v in api.get("/situations/going/versions").json()[:1]] == [version])

        yield report
        api.delete("/situations/going").raise_for_status()


def test_a_version_that_comes_while_another_one_goes_is_shown(live, publish):
    """As after a change of the region: what the page asks about an old version is not found any more."""
    publish(1)
    with opened(live, query="?situation=going", expect=("404",)) as page:
        ready(page, 1)
        held = []
        page.route("**/sources?version=2", lambda route: held.append(route))
        publish(2)
        wait(lambda: page.evaluate("true") and held)  # routes are called while the page is asked something
        publish(3)
        page.wait_for_timeout(500)  # until the event has arrived
        held[0].fulfill(status=404, json={"title": "Not Found", "status": 404, "detail": "no such version"})
        ready(page, 3)


def test_a_version_that_comes_while_the_page_connects_is_shown(live, publish):
    publish(1)
    with opened(live, query="?situation=going") as page:
        ready(page, 1)
        until(page, "document.getElementById('status').className === 'on'")
        held = []
        page.route("**/going/events", lambda route: held.append(route))
        page.select_option("#situation", "flood")
        until(page, "document.title.startsWith('Léogâne')")
        page.select_option("#situation", "going")
        wait(lambda: page.evaluate("true") and held)
        publish(2)
        page.wait_for_timeout(1000)  # until the service has told everybody who listens
        held[0].continue_()
        ready(page, 2)


def test_a_report_by_click_changes_the_map_and_says_how(live):
    with opened(live, reduced_motion="no-preference") as page:
        ready(page)
        before, image = newest(page), picture(page)
        click_map(page, 0.25, 0.3)
        page.wait_for_selector("#why .big b")
        assert page.is_visible("#report") and page.is_visible("#tab-why[aria-selected=true]")
        assert page.input_value("#report-label") == ""  # nothing is said beforehand
        page.click("#report button[type=submit]")  # the browser asks for the label
        assert page.evaluate("document.activeElement.id") == "report-label" and newest(page) == before
        page.select_option("#report-label", "flooded")
        assert not page.is_checked("#report-trusted")  # trust is never given unasked
        page.check("#report-trusted")
        page.fill("#report-text", "<script>alert('x')</script>")
        page.click("#report button[type=submit]")
        page.wait_for_selector("#report-outcome b")
        said = page.inner_text("#report-outcome b")
        assert "before" in said and "now" in said
        assert newest(page) > before and not page.is_checked("#report-trusted")
        assert page.input_value("#report-label") == ""
        ready(page)
        shot(page, "report-sent")
        page.click("#report-outcome button")
        ready(page)
        page.click("#tab-layers")
        assert page.is_checked("input[value=difference]") and page.is_visible("#base-row")
        assert (abs(picture(page) - image).max(axis=-1) > 25).mean() > 0.01
        shot(page, "difference")


def test_reports_can_be_read_filtered_and_judged(live):
    with opened(live, "trusted") as page:
        ready(page)
        page.click("#tab-reports")
        page.wait_for_selector("#report-list button")
        shown = page.locator("#report-list button").count()
        assert shown >= 60
        page.click("#filters summary")
        until(page, f"crowdfieldMap.areTilesLoaded() && {DRAWN} >= 60")
        everything, held = page.evaluate(DRAWN), []
        page.route("**/points/*/*/*.mvt*", lambda request: held.append(request))
        page.select_option("#filter-label", "dry")
        until(page, f"(n => 0 < n && n < {shown})(document.querySelectorAll('#report-list button').length)")
        dry = page.locator("#report-list button").count()
        # The reports of before stay on the map until the new ones are there.
        wait(lambda: page.evaluate(DRAWN) and held)
        assert page.evaluate(DRAWN) == everything
        for request in held:
            request.continue_()
        page.unroute("**/points/*/*/*.mvt*")
        until(page, f"crowdfieldMap.areTilesLoaded() && {DRAWN} === {dry}")
        page.select_option("#filter-trust", "trusted")
        page.select_option("#filter-label", "")
        page.select_option("#filter-trust", "")
        until(page, f"document.querySelectorAll('#report-list button').length === {shown}")
        page.click("#report-list button >> nth=3")
        page.wait_for_selector("#report-chosen blockquote")
        assert "<img src=x" in page.inner_text("#report-chosen blockquote")  # words are text
        assert "within about 40 m" in page.inner_text("#report-chosen")
        page.click("#report-accept")
        page.wait_for_selector("#report-chosen:has-text('checked and accepted')")
        page.check("input[name=list][value=accepted]")
        until(page, "document.querySelectorAll('#report-list button').length === 1")
        until(page, f"{drawn('listed')}.length === 1")
        shot(page, "reports")
        page.check("input[name=list][value=retracted]")
        page.wait_for_selector("#report-count:has-text('No report was retracted')")
        assert serious(page) == []
        page.check("input[name=list][value=all]")
        # A number on the map opens into its reports; a report on the map opens in full.
        until(page, f"{drawn('clusters')}.length > 0")
        zoom = page.evaluate("crowdfieldMap.getZoom()")
        click_feature(page, "clusters")
        until(
            page,
            f"crowdfieldMap.getZoom() > {zoom} + 0.5 && !crowdfieldMap.isMoving() && crowdfieldMap.areTilesLoaded()",
        )
        page.evaluate("crowdfieldMap.jumpTo({ zoom: 12 })")
        until(
            page,
            f"crowdfieldMap.areTilesLoaded() && {drawn('reports')}.length > 0",
        )
        page.click("#tab-layers")
        click_feature(page, "reports")
        page.wait_for_selector("#page-reports:not([hidden]) #report-chosen blockquote")


def test_what_a_busy_service_does_not_answer_is_asked_again(live):
    asked = {"sources": 0, "tiles": 0}

    def busy(route, kind):
        asked[kind] += 1
        if asked[kind] == 1:
            return route.fulfill(status=503, headers={"Retry-After": "1"}, json={"title": "Busy", "status": 503})
        return route.continue_()

    with opened(live, None, path="/docs", expect=("503",)) as page:
        page.route("**/sources?version=*", lambda route: busy(route, "sources"))
        page.route("**/tiles/probability/**", lambda route: busy(route, "tiles"))
        page.goto(f"{live.url}/#key={live.keys['admin']}")
        ready(page)
        assert asked["sources"] == 2 and page.is_hidden("#alert")
        first = asked["tiles"]
        wait(
            lambda: page.evaluate("true") and asked["tiles"] > first
        )  # routes are called while the page is asked something
        ready(page)


def test_an_empty_map_explains_itself_and_takes_its_first_report_by_keyboard(live):
    with live.api() as api:
        api.post("/situations", json=FLOOD | {"id": "empty", "title": "Empty"}).raise_for_status()
    try:
        with opened(live, query="?situation=empty") as page:
            page.wait_for_selector("#welcome:not([hidden])")
            assert "first report" in page.inner_text("#welcome") and "/situations/empty/reports" in page.inner_text(
                "#welcome"
            )
            until(page, "crowdfieldMap.loaded()")
            image = picture(page)
            height, width, _ = image.shape
            middle = image[height // 3 : height // 2, width // 3 : width // 2]
            # Grey, and not all of one grey: hatched. Outlines of land and water may cross it.
            assert (middle.max(axis=-1) - middle.min(axis=-1) < 4).mean() > 0.9
            assert np.ptp(middle) > 20
            shot(page, "empty")
            page.focus("#map canvas")
            before = page.evaluate("crowdfieldMap.getCenter().lng")
            page.keyboard.press("ArrowRight")
            until(page, f"crowdfieldMap.getCenter().lng > {before} && !crowdfieldMap.isMoving()")
            page.keyboard.press("Enter")
            page.wait_for_selector("#report:not([hidden])")
            page.focus("#report-label")
            page.keyboard.press("f")  # the first label that begins so
            assert page.input_value("#report-label") == "flooded"
            page.focus("#report button[type=submit]")
            page.keyboard.press("Enter")
            page.wait_for_selector("body[data-version='1']")
            assert page.is_hidden("#welcome")
    finally:
        with live.api() as api:
            api.delete("/situations/empty").raise_for_status()


def test_without_the_map_library_the_page_says_so_and_the_rest_works(live):
    page = live.browser.new_page()
    page.route("**/maplibre-gl.js", lambda route: route.fulfill(status=404))
    page.goto(f"{live.url}/#key={live.keys['admin']}")
    page.wait_for_selector("#cover:not([hidden])")
    assert "MapLibre GL JS is not installed" in page.inner_text("#cover")
    page.wait_for_selector("body[data-version]", timeout=240_000)
    page.click("#tab-sources")
    until(page, "document.querySelectorAll('details.source').length >= 3")
    page.close()


@pytest.fixture(scope="class")
def visitors_window(live):
    with opened(live, None) as page:
        ready(page)
        yield page


@pytest.fixture
def visitors_page(visitors_window):
    yield visitors_window
    assert unexpected(visitors_window) == []


class TestThePageOfAVisitor:
    def test_the_operators_own_map_is_drawn_under_it_with_its_names(self, visitors_page):
        page = visitors_page
        ready(page)
        page.evaluate("crowdfieldMap.jumpTo({ center: [-60, 15], zoom: 2.5 })")
        for layer in ("street-water", "street-places"):
            until(page, f"crowdfieldMap.queryRenderedFeatures({{ layers: ['{layer}'] }}).length === 1")
        assert page.inner_text("#basemap-credit") == "© OpenStreetMap"
        shot(page, "streets")

    def test_the_page_says_that_a_key_is_wrong(self, visitors_page):
        page = visitors_page
        ready(page)
        page.click("#key")
        assert page.is_hidden("#key-dialog button[value=forget]")  # there is none to forget
        page.fill("#key-value", "cf_abc_wrong")
        page.press("#key-value", "Enter")
        page.wait_for_selector("#alert:not([hidden])")
        assert "revoked" in page.inner_text("#alert")
        assert unexpected(page, "401") == []


def test_where_all_reports_say_the_same_no_percentage_is_shown(live):
    rows = [
        {
            "longitude": -72.3 + 0.01 * (i % 6),
            "latitude": 18.5 + 0.01 * (i // 6),
            "label": "flooded",
            "source": f"s{i % 4}",
        }
        for i in range(24)
    ]
    with live.api() as api:
        api.post("/situations", json=FLOOD | {"id": "same", "title": "All the same"}).raise_for_status()
        api.post("/situations/same/reports", json=rows).raise_for_status()
        wait(lambda: api.get("/situations/same").json()["version"])
        api.put("/situations/same/districts/halves", files={"file": ("d.geojson", HALVES)}).raise_for_status()
        # What no report reaches is unknown, although everybody says the same.
        assert api.get("/situations/same/point/-72.05,18.25").json()["unknown"]
        api.post("/situations", json=FLOOD | {"id": "none", "title": "None"}).raise_for_status()
    try:
        with opened(live, query="?situation=same&at=18.515,-72.275,11") as page:
            ready(page)
            page.focus("#map canvas")
            page.keyboard.press("Enter")
            page.wait_for_selector("#why .spoken")
            assert page.inner_text("#why .big") == "Reported\n“flooded”"
            assert "not how probable it is" in page.inner_text("#why .unknown")
            shown = page.inner_text("#why")
            assert "%" not in shown and "cannot show" not in shown
            page.click("#why-numbers summary")
            assert "rests on an assumption" in page.inner_text("#why-numbers") and "%" in page.inner_text(
                "#why-numbers"
            )
            shot(page, "why-all-the-same")
            assert serious(page) == []
            page.click("#tab-districts")
            page.wait_for_selector("#districts tbody tr")
            assert page.inner_text("#districts tbody tr:first-child b") == "Unknown"
            assert "cannot show where that is not true" in page.inner_text("#districts")
            # A map without a version shows nothing of this one.
            page.click("#tab-reports")
            page.wait_for_selector("#report-list li")
            page.select_option("#situation", "none")
            page.wait_for_selector("#welcome:has-text('waits')", state="attached")
            assert page.locator("#report-list li, details.source, #next li, #remarks li").count() == 0
    finally:
        with live.api() as api:
            for name in ("same", "none"):
                api.delete(f"/situations/{name}").raise_for_status()


@pytest.mark.parametrize(("p", "prior", "said"), [(0.2, -3.0, "rare"), (0.8, 3.0, "common"), (0.8, -1.0, None)])
def test_reasons_do_not_contradict_the_number_above_them(live, p, prior, said):
    """Where the reports say one thing and the number another, the reasons say what counts for more."""
    total = float(np.log(p / (1 - p)))
    side = {"reports": 2, "sources": 1, "nearest": 300.0, "accuracy": 0.9}
    why = {
        "total": total, "prior": prior, "uncertainty": 0.0, "reports": [],
        "sources": [{"source": "s1", "log_odds": total - prior, "reports": 2}],
        "summary": {"for" if total > prior else "against": side},
    }  # fmt: skip

    def answer(route):
        given = route.fetch().json() | {"probability": {"dry": 1 - p, "flooded": p}, "unknown": False, "known": 0.8}
        route.fulfill(json=given | {"why": why})

    with opened(live) as page:
        ready(page)
        page.route("**/point/**", answer)
        page.focus("#map canvas")
        page.keyboard.press("Enter")
        page.wait_for_selector("#why .spoken")
        told = page.inner_text("#why .spoken")
        assert (
            (f"How {said} “flooded” is on this map counts for more" in told)
            if said
            else ("counts for more" not in told)
        )
