"""The two times, the hints, and finding a place."""

import pytest
from tests.browser import needs_chromium
from tests.service.page.live import DRAWN, PHONE, drawn, newest, opened, ready, serious, shot, until
from tests.service.workspace import FLOOD

pytestmark = needs_chromium
DAY = 86400.0
FIRST = 1_263_254_400.0  # 12 January 2010, 00:00 UTC


@pytest.fixture(scope="module")
def dated(live):
    """A map of things that happened on three days of January 2010, and one without a time."""
    days = [0.4, 0.5, 2.1, 2.2, 2.9, 6.5, None]
    rows = [
        {"longitude": -72.4 + 0.03 * i, "latitude": 18.5, "label": "flooded", "source": f"s{i}", "id": f"dated-{i}"}
        | ({} if day is None else {"time": FIRST + day * DAY})
        for i, day in enumerate(days)
    ]
    with live.api() as api:
        api.post("/situations", json=FLOOD | {"id": "dated", "title": "Dated"}).raise_for_status()
        assert api.post("/situations/dated/reports", json=rows).json()["stored"] == len(rows)
        yield "?situation=dated"
        api.delete("/situations/dated").raise_for_status()


def shows(n):
    """Whether so many reports are drawn: single ones, and those behind the numbers."""
    return f"crowdfieldMap.areTilesLoaded() && {DRAWN} === {n}"


def test_when_things_happened_is_not_when_the_map_was_made(live, dated):
    with opened(live, query=dated) as page:
        ready(page)
        version = newest(page)
        assert page.inner_text("#event-moment") == "All times" and page.is_hidden("#event-note")
        until(page, shows(7))
        # However many say the same: nothing tells where it is not so, and the page does not claim to know.
        assert page.inner_text("#legend-note").startswith("Every report says “flooded”.")
        assert page.inner_text("#legend-title") == "Where “flooded” was reported"
        assert [page.inner_text(f"#legend-{end}") for end in ("low", "high")] == ["no report near", "reports near"]
        assert "/legend/reported.png?scale=water" in page.get_attribute("#legend-image", "src")
        page.focus("#event-slider")
        page.keyboard.press("Home")
        assert page.inner_text("#event-moment") == "All times"  # all of them stand before the first
        page.keyboard.press("ArrowRight")
        first = page.inner_text("#event-moment")
        assert first.startswith("Jan 12, 2010") and "1 report" in first  # in steps of three hours
        until(page, shows(1))
        # Only reports follow; the page says so, and the version is what it was.
        assert "of all times" in page.inner_text("#event-note") and newest(page) == version
        assert page.get_attribute("#live", "aria-pressed") == "true"
        page.click("#tab-reports")
        until(page, "document.querySelectorAll('#report-list button').length === 1")
        until(page, "location.search.includes('event=2010-01-12T09:00Z')")
        page.click("#event-play")
        until(page, "document.getElementById('event-moment').textContent.startsWith('Jan 14')")
        page.click("#event-play")  # pauses
        assert page.inner_text("#event-play") == "Play"
        until(page, shows(1))
        shot(page, "event-time")
        assert serious(page) == []
        page.click("#event-all")
        until(page, "document.querySelectorAll('#report-list button').length === 7")
        page.goto(f"{live.url}/{dated}&event=2010-01-18T12:00Z")
        ready(page)
        assert page.inner_text("#event-moment").startswith("Jan 18, 2010")
        until(page, shows(1))


def test_readers_follow_the_days_on_which_many_people_reported(live):
    """Without a key: whole days, places with enough reports, and nothing of the day that one person tells of."""
    here = {"longitude": -72.3, "latitude": 18.5, "label": "flooded"}
    rows = [here | {"source": f"s{i % 3}", "time": FIRST + DAY * (2 * (i // 3) + 0.1 * (i % 3))} for i in range(6)]
    rows.append(here | {"source": "s4", "latitude": 18.6, "time": FIRST + DAY})
    with live.api() as api:
        api.post("/situations", json=FLOOD | {"id": "days", "title": "Days"}).raise_for_status()
        api.post("/situations/days/reports", json=rows).raise_for_status()
    try:
        with opened(live, None, query="?situation=days", **PHONE) as page:
            ready(page)
            assert page.is_hidden("#tab-reports") and page.inner_text("#event-moment") == "All times"
            page.focus("#event-slider")
            page.keyboard.press("ArrowRight")
            assert page.inner_text("#event-moment") == "Jan 12, 2010 · 3 published reports"
            assert "on the day it was received" in page.inner_text("#event-note")
            cells = f"crowdfieldMap.areTilesLoaded() && {drawn('cells')}.length"
            until(page, f"{cells} === 1")
            # On a phone its words stand under the slider, which keeps room to be moved.
            assert page.locator("#event-slider").bounding_box()["width"] > 100
            shot(page, "event-time-reader-phone")
            page.keyboard.press("ArrowRight")
            assert page.inner_text("#event-moment") == "Jan 13, 2010 · 0 published reports"
            until(page, f"{cells} === 0")
            assert serious(page) == []
    finally:
        with live.api() as api:
            api.delete("/situations/days").raise_for_status()


def test_five_hints_are_given_once_and_can_be_called_back(live):
    with opened(live, None, hints=True) as page:
        ready(page)
        page.wait_for_selector("#tour:not([hidden])")
        assert "Unknown does not mean safe" in page.inner_text("#tour")
        assert page.evaluate("document.activeElement === document.body")  # nobody's keyboard is taken over
        shot(page, "hints")
        assert serious(page) == []
        titles = []
        for _ in range(5):
            titles.append(page.inner_text("#tour-title"))
            page.click("#tour-next")
        assert titles == [f"Hint {n} of 5" for n in range(1, 6)] and page.is_hidden("#tour")
        assert page.locator(".pointed").count() == 0
        page.reload()
        ready(page)
        assert page.is_hidden("#tour")
        page.click("#menu-button")
        page.click("#tour-again")
        assert page.is_visible("#tour")
        page.keyboard.press("Escape")
        assert page.is_hidden("#tour")


def test_places_are_found_by_name_by_coordinates_and_by_this_device(live):
    here = {"longitude": -72.25, "latitude": 18.45, "accuracy": 30}
    with opened(live, geolocation=here, permissions=["geolocation"]) as page:
        ready(page)
        until(page, "crowdfieldMap.isSourceLoaded('streets')")
        page.fill("#search-text", "leogane")  # without its accents
        page.press("#search-text", "Enter")
        assert "part of the map that is loaded" in page.inner_text("#search-said")
        assert page.locator("#search-found button").all_inner_texts() == ["Léogâne"]
        page.fill("#search-text", "Atlantis")
        page.press("#search-text", "Enter")
        assert "Nothing found" in page.inner_text("#search-said")
        page.fill("#search-text", "18.4, -72.2")
        page.press("#search-text", "Enter")
        page.wait_for_selector("#why .big b")
        until(page, "Math.abs(crowdfieldMap.getCenter().lat - 18.4) < 0.01 && crowdfieldMap.getZoom() >= 13")
        page.click("#locate")
        page.wait_for_selector("#search-said:has-text('give or take 30 m')")
        until(page, "Math.abs(crowdfieldMap.getCenter().lat - 18.45) < 0.01")
        page.context.set_geolocation({"longitude": 2.35, "latitude": 48.85})
        page.click("#locate")
        page.wait_for_selector("#search-said:has-text('outside this map')")
        assert serious(page) == []
