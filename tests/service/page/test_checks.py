"""Spot checks on the page: drawing places, taking them along, handing in the answers."""

import csv
import io
import json

from tests.browser import needs_chromium
from tests.service.page.live import PHONE, click_feature, opened, ready, serious, shot, until

pytestmark = needs_chromium


def answered(path):
    """A plan with what is true filled in: flooded east of the middle."""
    rows = list(csv.DictReader(io.StringIO(path.read_text())))
    for row in rows:
        row["state"] = ("dry", "flooded")[float(row["longitude"]) > -72.3]
    out = io.StringIO()
    writer = csv.DictWriter(out, rows[0])
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def test_places_are_drawn_taken_along_and_judged(live, tmp_path):
    with opened(live, "reporter", expect=("422",)) as page:
        ready(page)
        page.click("#tab-checks")
        page.fill("#checks-plan input >> nth=0", "60")
        page.fill("#checks-plan input >> nth=1", "7")
        page.click("#checks-plan button[type=submit]")
        page.wait_for_selector("#checks-planned p:has-text('60 places')")
        files = {}
        for name in ("CSV", "GeoJSON", "KML"):
            with page.expect_download() as saving:
                page.click(f"#checks-planned button:text-is('{name}')")
            files[name] = saving.value
            assert "-checks-v" in saving.value.suggested_filename and "-seed7." in saving.value.suggested_filename
        assert "mapped" not in files["KML"].path().read_text()  # who checks must not see what to say
        shot(page, "checks-plan")
        plan = tmp_path / files["CSV"].suggested_filename
        plan.write_text(answered(files["CSV"].path()))
        page.set_input_files("#checks-answers input[type=file]", plan)
        page.click("#checks-answers button[type=submit]")
        page.wait_for_selector("#checks-found .big")
        assert page.inner_text("#checks-found .big").endswith("right")
        table = page.inner_text("#checks-found table >> nth=0")
        assert "flooded" in table and "between" in table and "km²" in table
        page.locator("#checks-found").scroll_into_view_if_needed()
        shot(page, "checks")
        assert serious(page) == []
        # A file without answers is explained; what was there before stays.
        plan.write_text("longitude,latitude,state\n-72.3,18.5,\n")
        page.set_input_files("#checks-answers input[type=file]", plan)
        page.click("#checks-answers button[type=submit]")
        page.wait_for_selector("#alert:has-text('fewer than two places')")
        assert page.locator("#checks-found .big").count() == 1


MARKS = "crowdfieldMap.queryRenderedFeatures({ layers: ['checks'] })"
DONE = f"{MARKS}.filter(f => f.properties.done).length"


def test_planned_places_are_marked_on_the_map_and_answered_there(live):
    with opened(live, "reporter") as page:
        ready(page)
        page.click("#tab-checks")
        page.fill("#checks-plan input >> nth=0", "12")
        page.click("#checks-plan button[type=submit]")
        page.wait_for_selector("#checks-places p:has-text('0 of 12 places answered')")
        until(page, f"{MARKS}.length === 12 && {DONE} === 0")
        # Nobody who answers is told what the map says: marks hold a number and whether it is done.
        told = page.evaluate(f"{MARKS}.map(f => Object.keys(f.properties).sort().join())")
        assert set(told) == {"done,id"}
        click_feature(page, "checks")
        page.wait_for_selector("#check-here h3")
        assert page.is_visible("#tab-checks[aria-selected=true]") and page.locator("#why .big").count() == 0
        page.click("#check-here button:text-is('flooded')")
        until(page, f"{DONE} === 1")
        assert page.get_attribute("#check-here button:text-is('flooded')", "aria-pressed") == "true"
        # By the keyboard: the nearest place that is left, then one of the list; an answer can be taken back.
        page.focus("#check-here .buttons:last-child button")
        page.keyboard.press("Enter")
        page.focus("#check-here button:text-is('dry')")
        page.keyboard.press("Enter")
        until(page, f"{DONE} === 2")
        page.click("#checks-places summary")
        page.focus("#check-list button >> nth=11")
        page.keyboard.press("Enter")
        until(page, "document.activeElement.id === 'check-here'")
        shot(page, "checks-marks")
        page.click("#tab-layers")
        assert page.is_visible("#check-shapes") and page.locator("#check-shapes svg").count() == 2
        shot(page, "checks-marks-legend")
        page.uncheck("#show-checks")
        until(page, f"{MARKS}.length === 0")
        page.check("#show-checks")
        # Answers outlive the page; handing them in needs no file.
        page.reload()
        ready(page)
        page.click("#tab-checks")
        page.wait_for_selector("#checks-places p:has-text('2 of 12 places answered')")
        until(page, f"{DONE} === 2")
        for number in range(12):
            page.evaluate(f"document.querySelectorAll('#check-list button')[{number}].click()")
            page.click(f"#check-here button:text-is('{('dry', 'flooded')[number % 2]}')")
        page.wait_for_selector("#check-here:has-text('All other places')")
        page.click("#checks-places button:text-is('Show what 12 answers say')")
        page.wait_for_selector("#checks-found .big")
        with page.expect_download() as saving:
            page.click("#checks-places button:text-is('Save the answers')")
        saved = json.loads(saving.value.path().read_text())
        assert {feature["properties"]["state"] for feature in saved["features"]} == {"dry", "flooded"}


def test_without_a_key_places_can_be_drawn_on_a_phone_but_not_judged(live):
    with opened(live, None, query="?lang=ar", color_scheme="dark", **PHONE) as page:
        ready(page)
        page.click("#tab-checks")
        page.click("#checks-plan button[type=submit]")
        page.wait_for_selector("#checks-planned table")
        until(page, f"{MARKS}.length > 20")
        shot(page, "checks-marks-arabic-dark-phone")
        # One that can be seen: below the search, and above the sheet.
        seen = "p => p.y > 150 && p.y < 350"
        mark = page.evaluate(f"{MARKS}.map(f => crowdfieldMap.project(f.geometry.coordinates)).find({seen})")
        frame = page.locator("#map").bounding_box()
        page.touchscreen.tap(frame["x"] + mark["x"] + 5, frame["y"] + mark["y"] + 5)
        page.wait_for_selector("#check-here h3")
        assert page.locator("#check-here [aria-pressed]").count() == 0
        shot(page, "checks-here-arabic-dark-phone")
        assert page.locator("#checks-answers").count() == 0 and page.locator("#checks input[type=file]").count() == 0
        page.evaluate("document.getElementById('checks-planned').scrollIntoView()")
        shot(page, "checks-arabic-dark-phone")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        assert serious(page) == []
