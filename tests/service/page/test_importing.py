"""Files that leave a choice, on the page: several at once, several layers, reports all over the world."""

from tests.browser import needs_chromium
from tests.service.page.live import opened, ready, serious, shot

pytestmark = needs_chromium
HERE = "lat,lon,label\n18.5,-72.3,dry\n18.51,-72.31,flooded\n"
ANYWHERE = "lat,lon,label\n-7,110,dry\n40,-105,flooded\n45,9,dry\n-8,110,flooded\n"


def file(name, text):
    return {"name": name, "mimeType": "text/csv", "buffer": text.encode()}


def test_files_dropped_together_are_one_upload_whose_layer_is_chosen(live):
    with opened(live) as page:
        ready(page)
        page.click("#tab-files")
        page.check("#import-new")
        page.set_input_files(
            "#file", [file("villages.csv", HERE), file("roads – été.csv", HERE.replace("dry", "open"))]
        )
        page.wait_for_selector("#preview-layer")
        assert "villages.zip: holds 2 files" in page.inner_text("#import-preview .problem")
        assert page.locator("#preview-take").count() == 0 and serious(page) == []
        shot(page, "import-layers")
        page.select_option("#preview-layer", "roads – été.csv")
        page.wait_for_selector("#preview-take:not([disabled])")
        assert page.locator("#import-preview tbody th").all_inner_texts() == ["flooded", "open"]
        # The choice can be changed afterwards.
        page.select_option("#preview-layer", "villages.csv")
        page.wait_for_selector("#import-preview tbody th:text-is('dry')")
        page.click("#preview-cancel")


def test_a_region_is_chosen_on_the_map_for_reports_from_all_over_the_world(live):
    with opened(live) as page:
        ready(page)
        page.click("#tab-files")
        page.check("#import-new")
        page.set_input_files("#file", [file("world.csv", ANYWHERE)])
        page.wait_for_selector("#preview-take[disabled]")
        assert page.input_value("#preview-region") == "" and serious(page) == []
        shot(page, "import-world")
        page.evaluate("crowdfieldMap.jumpTo({ center: [110, -7.5], zoom: 6 })")
        page.click("#import-preview button:has-text('Take what the map shows')")
        page.wait_for_selector("#preview-take:not([disabled])")
        west, south, east, north = map(float, page.input_value("#preview-region").split(","))
        assert west < 110 < east and south < -8 < -7 < north
        assert "2 usable" in page.inner_text("#preview-rows")
        page.click("#preview-cancel")
