"""The page on a phone, in the dark, from right to left, shared by its address, inside another page, and on paper."""

import io
import re

import httpx
import numpy as np
from PIL import Image
from tests.browser import needs_chromium
from tests.service.page.live import DESKTOP, PHONE, click_map, opened, ready, serious, shot, until

pytestmark = needs_chromium


def box(page, selector):
    return page.locator(selector).bounding_box()


def at_rest(page):
    until(page, "document.getElementById('panel').getAnimations().length === 0")


def drag(page, selector, up):
    """Slowly, so that it counts as a drag and not as a flick."""
    at_rest(page)
    at = box(page, selector)
    x, y = at["x"] + at["width"] / 3, at["y"] + at["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x, y - up, steps=4)
    page.wait_for_timeout(60)
    page.mouse.move(x, y - up - 1)
    page.mouse.up()


def test_on_a_phone_the_legend_is_part_of_a_sheet_and_never_covers_the_map(live):
    with opened(live, None, **PHONE) as page:
        ready(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390  # nothing sticks out
        shown = box(page, "#map")
        assert shown["height"] > 450 and box(page, "#legend")["y"] >= shown["y"] + shown["height"]
        # The legend says all it has to say.
        for part in ("#legend-title", "#legend .scale"):
            assert page.evaluate(f"(e => e.scrollWidth <= e.clientWidth)(document.querySelector('{part}'))"), part
        shot(page, "phone")
        assert serious(page) == []
        page.tap("#sheet-handle")
        assert page.get_attribute("body", "data-sheet") == "half"
        assert page.get_attribute("#sheet-handle", "aria-expanded") == "true"
        drag(page, "#sheet-handle", 300)
        assert page.get_attribute("body", "data-sheet") == "full"
        page.focus("#sheet-handle")
        for expected in ("half", "peek", "peek"):
            page.keyboard.press("ArrowDown")
            assert page.get_attribute("body", "data-sheet") == expected
        page.click("#tab-sources")
        assert page.get_attribute("body", "data-sheet") == "half"
        assert "source-" in page.inner_text("#sources") and "<b>s" not in page.inner_text("#sources")
        drag(page, "#legend", -300)
        assert page.get_attribute("body", "data-sheet") == "peek"
        # What is asked about stays in sight above the sheet.
        at_rest(page)
        click_map(page, 0.5, 0.65)
        page.wait_for_selector("#why .big b")
        assert page.is_hidden("#report")
        until(page, "document.querySelector('.here').getBoundingClientRect().bottom < 430")
        shot(page, "phone-why")
        assert serious(page) == []


def test_in_arabic_and_in_the_dark_everything_is_mirrored_but_the_map_and_its_scale(live):
    with opened(live, locale="ar-SY", color_scheme="dark", **DESKTOP) as page:
        ready(page)
        root = page.locator("html")
        assert [root.get_attribute(name) for name in ("lang", "dir", "data-theme")] == ["ar", "rtl", "dark"]
        assert page.inner_text("#tab-layers") == "الخريطة" and box(page, "#panel")["x"] == 0
        assert page.get_attribute("#situation", "dir") == "ltr"  # a long title in Latin letters is cut at its end
        # 0 % is at the left, where the image has it.
        assert box(page, "#legend-low")["x"] < box(page, "#legend-high")["x"]
        assert box(page, "#map .maplibregl-ctrl-top-right")["x"] > box(page, "#map")["x"] + 400
        click_map(page, 0.45, 0.5)
        page.click("#tab-sources")
        page.click("details.source >> nth=0")
        shot(page, "arabic-dark")
        assert serious(page) == []
        # The next tab is to the left; the example in the search field is in the language of the page.
        page.focus("#tab-layers")
        page.keyboard.press("ArrowLeft")
        assert page.get_attribute("#tab-why", "aria-selected") == "true"
        assert page.evaluate("getComputedStyle(document.getElementById('search-text')).direction") == "rtl"
        # Both can be changed, and are remembered.
        page.click("#menu-button")
        assert serious(page) == []
        page.select_option("#theme", "light")
        assert root.get_attribute("data-theme") == "light"
        page.select_option("#language", "fr")
        page.wait_for_selector("html[lang=fr][dir=ltr]")
        ready(page)
        page.focus("#map canvas")
        page.keyboard.press("Enter")
        page.wait_for_selector("#why dd:has-text('%')", state="attached")
        assert not re.search(r"\s\s%", page.text_content("#why"))  # French has a space of its own before the sign
        page.goto(live.url)
        ready(page)
        assert page.inner_text("#tab-layers") == "Carte" and root.get_attribute("data-theme") == "light"


def test_the_address_shows_somebody_else_the_same(live):
    with opened(live, query="?layer=uncertainty&state=dry&version=1&at=18.5,-72.3,10.5&place=18.45,-72.28") as page:
        ready(page, 1)
        assert page.is_checked("input[value=uncertainty]") and page.input_value("#state") == "dry"
        assert page.get_attribute("#tab-why", "aria-selected") == "true"
        page.wait_for_selector("#why .big b")
        assert abs(page.evaluate("crowdfieldMap.getZoom()") - 10.5) < 0.01
        page.click("#tab-layers")
        page.check("input[value=probability]")
        page.click("#live")
        page.evaluate("crowdfieldMap.jumpTo({ center: [-72.2, 18.4], zoom: 11 })")
        until(page, "location.search.includes('at=18.40000,-72.20000,11.00')")
        query = httpx.QueryParams(page.url.split("?")[1])
        assert query["state"] == "dry" and query["lang"] == "en" and "version" not in query and "layer" not in query
    # What is no longer kept is said, and what cannot be understood is passed over.
    with opened(live, query="?version=99999&at=here&layer=heat&state=lava") as page:
        ready(page)
        assert "no longer kept" in page.inner_text("#alert")
        assert page.input_value("#state") == "flooded" and page.is_checked("input[value=probability]")


def test_inside_another_page_there_is_the_map_its_legend_and_a_way_out(live):
    with opened(live, query="?embed=1&state=dry", width=700, height=480) as page:
        ready(page)
        assert page.is_hidden("header") and page.is_hidden("[role=tablist]") and page.is_visible("#legend")
        assert "dry" in page.inner_text("#legend-title")
        assert box(page, "#legend")["y"] >= box(page, "#map")["y"] + box(page, "#map")["height"]
        assert page.evaluate("sessionStorage.getItem('crowdfield-key')") is None  # never with a key
        assert "embed" not in page.get_attribute("#embed-open", "href")
        click_map(page, 0.5, 0.5)
        assert page.is_hidden("#why")
        shot(page, "embedded")
        assert serious(page) == []


def test_paper_shows_the_map_its_legend_and_where_it_comes_from(live):
    with opened(live, color_scheme="dark") as page:
        ready(page)
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        page.emulate_media(media="print")
        page.set_viewport_size({"width": 718, "height": 1000})
        assert page.is_hidden("header") and page.is_hidden("[role=tablist]") and page.is_hidden("#page-layers")
        assert "Léogâne" in page.inner_text("#paper-title") and "situation=flood" in page.inner_text("#paper-address")
        assert re.search(r"\d{4}", page.inner_text("#moment"))  # paper is read on other days
        assert page.is_visible("#legend") and page.evaluate("document.documentElement.scrollWidth") <= 718
        image = np.asarray(Image.open(io.BytesIO(page.locator("#frame").screenshot())).convert("RGB")).astype(int)
        assert ((image.max(axis=-1) - image.min(axis=-1)) > 40).mean() > 0.02  # the map itself, not an empty surface
        assert (image.max(axis=-1) < 90).mean() < 0.1  # in light colours, whatever the screen has
        shot(page, "paper")
        until(page, "document.getElementById('legend-image').complete")
        image = np.asarray(Image.open(io.BytesIO(page.locator("#legend-image").screenshot())).convert("RGB")).astype(
            int
        )
        assert ((image.max(axis=-1) - image.min(axis=-1)) > 40).mean() > 0.2  # the colours of the legend
        page.emulate_media(media="screen")
        assert page.is_hidden("#paper-map")  # the copy of the map stays on paper
        printed = page.pdf(format="A4")  # by the browser itself, which waits for no image
        widths = [int(w) for w in re.findall(rb"/Subtype /Image\s+/Width (\d+)", printed)]
        assert max(widths) > 500
