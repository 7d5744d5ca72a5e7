"""Spot checks on the page: drawing places, taking them along, handing in the answers."""

import csv
import io

from tests.browser import needs_chromium
from tests.service.page.live import PHONE, opened, ready, serious, shot

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


def test_without_a_key_places_can_be_drawn_on_a_phone_but_not_judged(live):
    with opened(live, None, query="?lang=ar", color_scheme="dark", **PHONE) as page:
        ready(page)
        page.click("#tab-checks")
        page.click("#checks-plan button[type=submit]")
        page.wait_for_selector("#checks-planned table")
        assert page.locator("#checks-answers").count() == 0 and page.locator("#checks input[type=file]").count() == 0
        page.evaluate("document.getElementById('checks-planned').scrollIntoView()")
        shot(page, "checks-arabic-dark-phone")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        assert serious(page) == []
