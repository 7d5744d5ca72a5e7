"""The page in one file: it opens offline, shows what the map says, and runs nothing that a report brought along."""

import numpy as np
import pandas as pd
from tests.browser import needs_chromium, page

from crowdfield import io
from crowdfield.data import Grid, Heatmap, Reports

GRID = Grid(690_000, 702_000, 7_796_000, 7_806_000, 24, 20, "EPSG:32736")
NASTY = "</script><script>document.title='owned'</script>"


def make(tmp_path):
    p = np.zeros(GRID.shape)
    p[:, 12:] = 1.0  # the east is flooded
    p[:4, :4] = np.nan
    sd = np.where(np.isnan(p), np.nan, 0.01)
    sd[15:, :] = 0.2
    heatmap = Heatmap(
        GRID, ("dry", "flooded"), np.stack([1 - p, p], -1), np.stack([sd, sd], -1), np.ones(GRID.shape, int),
        {"prior_sd": [0.2, 0.2], "note": NASTY},
    )  # fmt: skip
    places = GRID.centres()[::7]
    reports = Reports.from_arrays(places, np.arange(len(places)) % 2, np.full(len(places), NASTY), crs=GRID.crs)
    table = pd.DataFrame(
        {"source": [NASTY], "reports": [3], "accuracy": [0.9], "accuracy_low": [0.5], "accuracy_high": [0.99]}
    )
    path = tmp_path / "map.html"
    return io.write(heatmap, path, reports=reports, table=table, looks=places[:2], title="Flood at Beira")


@needs_chromium
def test_the_page_works_offline(tmp_path):
    path = make(tmp_path)
    with page(viewport={"width": 900, "height": 600}) as window:
        window.goto(path.as_uri())
        window.wait_for_selector("body[data-ready=yes]")
        assert window.title() == "Flood at Beira"
        assert NASTY in window.inner_text("#who")
        assert window.inner_text("#scale").strip() in {"1 km", "2 km"}
        # Without a base map, meridians and parallels say where this is; closer up they are closer together.
        window.focus("#map")
        whole = window.locator("#map").get_attribute("data-graticule")
        assert "34.9° E" in whole and "19.9° S" in whole
        for key in "+++++":
            window.keyboard.press(key)
        assert "34.87" in window.locator("#map").get_attribute("data-graticule")
        window.keyboard.press("0")
        assert window.locator("#map").get_attribute("data-graticule") == whole
        # What the cursor says is what the map holds: wet in the east, dry in the west, unknown in the south.
        box = window.locator("#map").bounding_box()
        for x, y, words in ((0.7, 0.4, "flooded: 100 %"), (0.3, 0.4, "flooded: 0 %"), (0.5, 0.82, "nobody knows")):
            window.mouse.move(box["x"] + x * box["width"], box["y"] + y * box["height"])
            assert words in window.inner_text("#tip")
        assert "-19.9" in window.inner_text("#tip") and "34.8" in window.inner_text("#tip")
        for choice in window.locator("#layer option").all_inner_texts():
            window.select_option("#layer", label=choice)
        window.check("#points")
        window.focus("#map")
        for key in ("+", "-", "ArrowLeft", "0"):
            window.keyboard.press(key)


@needs_chromium
def test_the_page_fits_a_phone(tmp_path):
    with page(viewport={"width": 390, "height": 800}, has_touch=True) as window:
        window.goto(make(tmp_path).as_uri())
        window.wait_for_selector("body[data-ready=yes]")
        assert window.evaluate("document.documentElement.scrollWidth") <= 390
        window.screenshot(path=tmp_path / "phone.png")


def test_the_page_names_no_other_host(tmp_path):
    text = make(tmp_path).read_text()
    assert "http://" not in text and "https://" not in text
