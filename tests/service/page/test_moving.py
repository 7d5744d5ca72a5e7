"""Maps whose state changes over time: the colours follow the slider of events."""

import numpy as np
import pytest
from tests.browser import needs_chromium
from tests.service.page.live import DESKTOP, PHONE, newest, opened, picture, ready, serious, shot, until, wait
from tests.service.test_districts import HALVES
from tests.service.test_moments import MOVING, front, iso

pytestmark = needs_chromium
ROWS = front(160, np.random.default_rng(0))
# Where the flood arrives last, and the middle of the map: longitude, latitude.
LAST, MIDDLE = (-72.12, 18.5), (-72.3, 18.45)
QUERY = "?situation=moving"


@pytest.fixture(scope="module")
def moving(live):
    """A flood that crosses the map in ten hours, in two versions."""
    with live.api() as api:
        api.post("/situations", json=MOVING | {"id": "moving", "title": "Front", "columns": 32}).raise_for_status()
        for part in (ROWS[:150], ROWS[150:]):
            assert api.post("/situations/moving/reports", json=part).json()["stored"] == len(part)
            wait(lambda: not api.get("/situations/moving").json()["waiting"])
        api.put("/situations/moving/districts/halves", files={"file": ("d.geojson", HALVES)}).raise_for_status()
        yield api.get("/situations/moving/versions").json()[0]["info"]["moments"]
        api.delete("/situations/moving").raise_for_status()


def colour(page, place):
    """The colour of the map at a place, the mean of a few pixels: red, green, blue."""
    at = page.evaluate(f"(({{ x, y }}) => [x, y])(crowdfieldMap.project({list(place)}))")
    x, y = (round(coordinate) for coordinate in at)
    return picture(page)[y - 4 : y + 5, x - 4 : x + 5].reshape(-1, 3).mean(axis=0)


def plain(page):
    """Only the colours: no reports and no places to look at."""
    for box in ("#show-reports", "#show-next"):
        page.uncheck(box)


def follows(page, moment):
    """The tiles of this moment, and no others, are drawn; None for the newest."""
    sources = "Object.entries(crowdfieldMap.getStyle().sources).filter(([name]) => name.startsWith('overlay-'))"
    asked = f"includes('moment={iso(moment)[:16]}')" if moment else "match(/probability(?!.*moment)/)"
    alone = f"(shown => shown.length === 1 && shown[0][1].tiles[0].{asked})({sources})"
    until(page, f"{alone} && crowdfieldMap.areTilesLoaded()")


def test_the_colours_follow_the_time_of_events(live, moving):
    with opened(live, query=QUERY, **DESKTOP) as page:
        ready(page)
        plain(page)
        follows(page, None)
        assert page.inner_text("#event-all") == "Newest" and page.get_attribute("#event-all", "aria-pressed") == "true"
        assert page.inner_text("#event-moment").startswith("Mar 1, 2023, ")
        assert "follows" in page.inner_text("#event-note")
        late = colour(page, LAST)
        shot(page, "moving-newest")
        page.focus("#event-slider")
        page.keyboard.press("Home")
        page.keyboard.press("ArrowRight")
        follows(page, moving[1])
        early = colour(page, LAST)
        # Water is dark blue and dry land is bright yellow: the flood has not come yet.
        assert early[0] - early[2] > 50 and late[2] - late[0] > 20
        assert "this time" in page.inner_text("#event-note") and page.get_attribute("#live", "aria-pressed") == "true"
        until(page, f"location.search.includes('event={iso(moving[1])[:16]}')")
        assert serious(page) == []
        shot(page, "moving-early")
        # A shared address shows the same moment.
        page.goto(page.url)
        ready(page)
        plain(page)
        follows(page, moving[1])
        assert np.abs(colour(page, LAST) - early).max() < 3


def test_reasons_districts_and_files_are_those_of_the_moment(live, moving):
    with opened(live, query=f"{QUERY}&event={iso(moving[1])[:16]}Z&place=18.5,-72.12") as page:
        ready(page)
        until(page, "document.getElementById('why').textContent.includes('As of Mar 1, 2023')")
        dry = page.inner_text("#why .big")
        page.click("#tab-districts")
        page.wait_for_selector("#districts tbody tr:nth-child(3)")
        figures = "document.querySelector('#districts tr[data-area=east] td').textContent"
        before = page.evaluate(figures)
        assert "As of Mar 1, 2023" in page.inner_text("#districts")
        page.click("#tab-files")
        with page.expect_download() as file:
            page.click("#exports button:has-text('GeoJSON')")
        assert iso(moving[1])[:13] in file.value.suggested_filename
        page.click("#tab-districts")
        page.click("#event-all")
        follows(page, None)
        wait(lambda: page.evaluate(figures) != before)
        page.click("#tab-why")
        wait(lambda: page.inner_text("#why .big") != dry)


def test_play_goes_through_the_moments_and_ends_at_the_newest(live, moving):
    with opened(live, query=QUERY) as page:
        ready(page)
        asked = []
        page.on("request", lambda r: asked.append(r.url) if "/tiles/" in r.url else None)
        page.focus("#event-slider")
        for _ in range(3):
            page.keyboard.press("ArrowLeft")
        follows(page, moving[-4])
        page.click("#event-play")
        assert page.inner_text("#event-play") == "Pause"
        until(page, "document.getElementById('event-play').textContent === 'Play'")
        follows(page, None)
        assert page.get_attribute("#event-all", "aria-pressed") == "true"
        assert all(any(f"moment={iso(moment)[:16]}" in url for url in asked) for moment in moving[-4:-1])


def test_the_two_times_are_not_confused(live, moving):
    with opened(live, query=f"{QUERY}&event={iso(moving[2])[:16]}Z") as page:
        ready(page)
        follows(page, moving[2])
        # Changes are those between versions.
        page.check("input[name=layer][value=difference]")
        assert "between versions" in page.inner_text("#event-note")
        until(page, "crowdfieldMap.areTilesLoaded()")
        page.check("input[name=layer][value=probability]")
        follows(page, moving[2])
        # An earlier version shows its newest moment, and says so.
        page.focus("#slider")
        page.keyboard.press("Home")
        ready(page, 1)
        follows(page, None)
        assert "newest moment, Mar 1, 2023" in page.inner_text("#event-note")
        assert page.inner_text("#event-moment").startswith("Mar 1, 2023, 2:00")  # the reports still follow
        page.click("#live")
        ready(page, 2)
        assert newest(page) == 2 and page.inner_text("#event-all") == "Newest"


def test_readers_see_the_map_of_whole_days(live):
    """Without a key: one moment for each day, with the places that have enough reports of that day."""
    with live.api() as api:
        situation = MOVING | {"id": "days", "title": "Days", "access": "public"}
        api.post("/situations", json=situation).raise_for_status()
        api.post("/situations/days/reports", json=front(80, np.random.default_rng(5), 86_400.0)).raise_for_status()
        wait(lambda: not api.get("/situations/days").json()["waiting"])
        shown = api.get("/situations/days/versions").json()[0]["info"]["moments"]
    with opened(live, None, query="?situation=days") as page:
        ready(page)
        plain(page)
        assert page.inner_text("#event-moment") == "Mar 10, 2023"
        late = colour(page, MIDDLE)
        page.focus("#event-slider")
        page.keyboard.press("Home")
        follows(page, shown[0])
        assert page.inner_text("#event-moment").startswith("Mar 1, 2023")
        assert "on the day" in page.inner_text("#event-note")
        assert np.abs(colour(page, MIDDLE) - late).max() > 50
        page.check("#show-reports")
        until(page, "crowdfieldMap.areTilesLoaded()")
        # Of a slider that is moved quickly only the last position is asked for.
        asked = []
        page.on("request", lambda r: asked.append(r.url) if "/tiles/" in r.url else None)
        step = "slider.value = at; slider.dispatchEvent(new Event('input'));"
        drag = f"(slider, to) => {{ for (let at = 1; at <= to; at++) {{ {step} }} }}"
        page.locator("#event-slider").evaluate(drag, len(shown) - 2)
        follows(page, shown[-2])
        assert not any(f"moment={iso(moment)[:10]}" in url for url in asked for moment in shown[1:-2])
        assert serious(page) == []


@pytest.mark.parametrize("language", ["fr", "ar"])
def test_on_a_phone_in_other_languages(live, moving, language):
    with opened(live, query=f"{QUERY}&lang={language}&event={iso(moving[1])[:16]}Z", **PHONE) as page:
        ready(page)
        follows(page, moving[1])
        assert page.is_visible("#event-note") and page.locator("#event-slider").bounding_box()["width"] > 100
        shot(page, f"moving-phone-{language}")
        assert serious(page) == []


def test_a_file_with_times_starts_a_map_that_moves_and_an_admin_stops_it(live, tmp_path):
    table = tmp_path / "front.csv"
    lines = [f"{r['longitude']},{r['latitude']},{r['label']},{r['source']},{iso(r['time'])}" for r in ROWS[::4]]
    table.write_text("\n".join(["longitude,latitude,label,source,time", *lines]))
    with opened(live) as page:
        ready(page)
        page.click("#tab-files")
        page.check("#import-new")
        page.set_input_files("#file", table)
        page.check("#preview-moving")
        until(page, "document.getElementById('preview-status').textContent === ''")
        assert page.is_checked("#preview-moving")
        shot(page, "moving-preview")
        assert serious(page) == []
        page.click("#preview-take")
        until(page, "document.title.startsWith('front')")
        ready(page)
        until(page, "document.getElementById('event-all').textContent === 'Newest'")
        page.click("#tab-manage")
        assert page.is_checked("#manage-moving")
        page.uncheck("#manage-moving")
        page.click("#settings button[type=submit]")
        until(page, "document.getElementById('event-all').textContent === 'All times'")
