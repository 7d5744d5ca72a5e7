"""Files that leave a choice, on the page: several at once, several layers, reports all over the world."""

import pytest
from tests.browser import needs_chromium
from tests.io import exports
from tests.service.page.live import PHONE, drawn, opened, ready, serious, shot, unexpected
from tests.service.workspace import FLOOD

pytestmark = needs_chromium
HERE = "lat,lon,label\n18.5,-72.3,dry\n18.51,-72.31,flooded\n"
ANYWHERE = "lat,lon,label\n-7,110,dry\n40,-105,flooded\n45,9,dry\n-8,110,flooded\n"


def file(name, text):
    return {"name": name, "mimeType": "text/csv", "buffer": text.encode()}


def dropped(page, *files):
    """The files are given to the open page, to start a new map with them."""
    ready(page)
    page.click("#tab-files")
    page.check("#import-new")
    page.set_input_files("#file", list(files))


@pytest.fixture(scope="class")
def window(live):
    """One page for files that are only looked at: to open it takes longer than most of these tests."""
    with opened(live) as page:
        ready(page)
        yield page


@pytest.fixture
def page(window):
    yield window
    assert unexpected(window) == []


class TestFilesThatAreOnlyLookedAt:
    def test_files_dropped_together_are_one_upload_whose_layer_is_chosen(self, page):
        dropped(page, file("villages.csv", HERE), file("roads – été.csv", HERE.replace("dry", "open")))
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

    def test_a_layer_that_cannot_be_read_is_left_for_another_one(self, page):
        dropped(page, file("villages.csv", HERE), file("wells.csv", "lat,lon\n18.5,-72.3\n"))
        page.wait_for_selector("#preview-layer")
        page.select_option("#preview-layer", "wells.csv")
        page.wait_for_selector("#import-preview .problem:has-text('label')")
        assert page.input_value("#preview-layer") == "wells.csv"  # still offered, and says which one was chosen
        page.select_option("#preview-layer", "villages.csv")
        page.wait_for_selector("#preview-take:not([disabled])")
        # The colours of the points on the map are those beside the labels.
        assert page.locator("#import-preview tbody th .dot").count() == 2
        assert page.is_hidden("#status")  # it is about the map that is open
        page.click("#preview-cancel")

    def test_an_answer_that_is_no_state_is_told_to_be_none(self, page):
        rows = [f"{18.5 + 0.01 * i},-72.3,{('yes', 'no', 'maybe')[i % 3]},s{i % 4}" for i in range(24)]
        dropped(page, file("votes.csv", "\n".join(["lat,lon,label,source", *rows])))
        page.wait_for_selector("#preview-take")
        chosen = "select => select.selectedOptions[0].textContent"
        said = [row.evaluate(chosen) for row in page.query_selector_all("#import-preview tbody select")]
        assert said == ["(neither)", "no", "yes"]
        assert "the map learns from the reports what it says" in page.inner_text("#import-preview")
        page.click("#preview-cancel")

    def test_a_preview_says_why_rows_are_not_used(self, page):
        """Most museum records of animals have no place."""
        lines = exports.gbif(status=False).splitlines()
        at = [lines[0].split("\t").index(name) for name in ("decimalLatitude", "decimalLongitude")]
        nowhere = ["" if i in at else value for i, value in enumerate(lines[1].split("\t"))]
        table = "\n".join([*lines, *["\t".join(nowhere)] * 7])
        dropped(page, file("occurrence.txt", table))
        page.wait_for_selector("#import-preview select")
        page.select_option("#import-preview select", "species")
        page.wait_for_selector("#preview-reasons")
        assert page.locator("#preview-reasons li").all_inner_texts() == ["7 rows: decimalLatitude: has no latitude"]
        assert serious(page) == []
        shot(page, "import-reasons")
        page.click("#preview-cancel")


def test_layers_of_one_name_can_be_told_apart_in_a_narrow_list(live):
    with opened(live) as page:
        names = [f"EMSR190_NORCIA_02GRADING_v2_{what}.csv" for what in ("buildings", "roads")]
        dropped(page, *[file(name, HERE) for name in names])
        page.wait_for_selector("#preview-layer")
        assert page.locator("#preview-layer option").all_inner_texts() == ["(choose)", "…buildings.csv", "…roads.csv"]
        with page.expect_request("**/basemap.json?around=*"):  # the coast of the new map in detail
            page.select_option("#preview-layer", names[1])
        page.wait_for_selector("#preview-take:not([disabled])")
        # The legend and the times of the map that is open say nothing of the file.
        assert page.is_hidden("#legend") and page.is_hidden("#time")
        page.click("#preview-cancel")
        assert page.is_visible("#legend") and page.is_visible("#time")


def test_the_first_use_says_what_to_do_also_on_a_phone(live):
    """As a key sees it whose only map was deleted."""
    with live.api() as api:
        api.post("/situations", json=FLOOD | {"id": "gone", "title": "Gone"}).raise_for_status()
        key = api.post("/keys", json={"name": "first", "role": "admin", "maps": ["gone"]}).json()["key"]
        api.patch("/situations/flood", json={"access": "keys"}).raise_for_status()
        api.delete("/situations/gone").raise_for_status()
    live.keys["first"] = key
    try:
        with opened(live, "first", **PHONE) as page:
            page.wait_for_selector("#welcome")
            assert page.locator("#welcome button").is_visible()  # the sheet has opened by itself
            # Nothing is offered that a map is needed for.
            page.click("#menu-button")
            assert page.is_visible("#language") and page.is_hidden("#share") and page.is_hidden("#tour-again")
            page.click("#menu-button")
            assert page.locator("[role=tab]:visible").all_inner_texts() == ["Map", "Files", "Manage"]
            assert page.is_hidden("#state") and page.is_hidden("#situation") and page.is_hidden("#exports")
            page.focus("#tab-layers")
            page.keyboard.press("ArrowRight")  # to the next tab that is offered
            assert page.get_attribute("#tab-files", "aria-selected") == "true"
            page.click("#tab-layers")
            with page.expect_file_chooser():
                page.click("#welcome button")
            shot(page, "first-use-phone")
            assert serious(page) == []
    finally:
        with live.api() as api:
            api.patch("/situations/flood", json={"access": "public"}).raise_for_status()


def test_a_region_is_chosen_on_the_map_for_reports_from_all_over_the_world(live):
    with opened(live) as page:
        dropped(page, file("world.csv", ANYWHERE))
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


def test_shaking_is_named_and_its_people_are_counted(live):
    cells = {"name": "dyfi_geo_10km.geojson", "mimeType": "application/geo+json", "buffer": exports.dyfi()}
    with opened(live) as page:
        dropped(page, cells)
        page.wait_for_selector("#preview-take:not([disabled])")
        assert page.inner_text("#preview-rows") == "4 rows · 4 usable reports · 25 people"
        assert "intensity of shaking (CDI" in page.inner_text("#import-preview")
        page.click("#preview-take")
        page.wait_for_selector("#status:has-text('Version 1')")
        ready(page)
        assert page.inner_text("#status") == "Version 1 · 4 reports · 25 people"
        assert page.inner_text("#legend-title") == "Probability of “intensity 5: moderate shaking”"
        # One source, of which nobody knows how reliable it is: the page says what can be done about it.
        assert page.inner_text("#legend-note").startswith("All reports come from one source")
        # Numbers on the map count people, as the status does.
        numbers = page.evaluate("crowdfieldMap.listImages().filter((name) => name.startsWith('cluster/'))")
        points = page.evaluate(f"{drawn('reports', 'clusters')}.map(f => f.properties)")
        assert sum(point["count"] for point in points) == 25
        assert {number.split("/")[1] for number in numbers} >= {str(p["count"]) for p in points if "points" in p}
        shot(page, "import-dyfi")
