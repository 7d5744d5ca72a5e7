"""Rivers, lakes and names under the map, without vector tiles: from a GeoJSON file like the service's own ground."""

import json

import pytest
from tests.browser import needs_chromium
from tests.service.page.live import DESKTOP, PHONE, Live, opened, ready, serious, shot, until, wait
from tests.service.served import serving
from tests.service.workspace import FLOOD

pytestmark = needs_chromium


def feature(geometry, coordinates, **properties):
    return {"type": "Feature", "properties": properties, "geometry": {"type": geometry, "coordinates": coordinates}}


def town(name, longitude, latitude, population, *names):
    return feature("Point", [longitude, latitude], kind="place", name=name, population=population, names=names)


LAND = [[-73.5, 17.9], [-71.2, 17.9], [-71.2, 19.2], [-73.5, 19.2], [-73.5, 17.9]]
LAKE = [[-72.2, 18.6], [-72.05, 18.6], [-72.05, 18.7], [-72.2, 18.7], [-72.2, 18.6]]
GROUND = {
    "type": "FeatureCollection",
    "attribution": "The survey · <b>2026</b>",
    "features": [
        feature("Polygon", [LAND]),
        feature("Polygon", [LAKE], kind="lake"),
        feature("LineString", [[-72.6, 18.3], [-72.3, 18.45], [-72.0, 18.3]], kind="river"),
        town("Port-au-Prince", -72.34, 18.54, 1234742, "太子港", "بورت أو برانس"),
        town("Delmas", -72.34, 18.54, 395260),
        town("Léogâne", -72.6, 18.51, 134190, "Leyogàn"),
        town("Ti Rivyè", -72.2, 18.4, 700),
        town("Elsewhere", -71.5, 18.0, 5000),
    ],
}
NAMES = "crowdfieldMap.queryRenderedFeatures({ layers: ['places'] }).map(f => f.properties.name).sort()"


@pytest.fixture(scope="module")
def grounded(tmp_path_factory, browser):
    """A server with that file, and a map of ten reports in one place."""
    folder = tmp_path_factory.mktemp("grounded")
    (folder / "ground.geojson").write_text(json.dumps(GROUND))
    options = {"CROWDFIELD_WORKER": "true", "CROWDFIELD_REST_SECONDS": "3600"}
    with serving(folder, "--basemap", str(folder / "ground.geojson"), environment=options) as served:
        with served.client("admin") as api:
            api.post("/situations", json=FLOOD | {"columns": 24}).raise_for_status()
            reports = [
                {"longitude": -72.34 + 0.001 * i, "latitude": 18.54, "label": FLOOD["states"][i % 2], "source": f"s{i}"}
                for i in range(10)
            ]
            assert api.post("/situations/flood/reports", json=reports).json()["stored"] == 10
            wait(lambda: not api.get("/situations/flood").json()["waiting"])
        live = Live(0, dict(served.keys), browser)
        live.url = served.url
        yield live


def drawn(page, layer):
    return f"crowdfieldMap.queryRenderedFeatures({{ layers: ['{layer}'] }}).length > 0"


def test_rivers_lakes_and_names_are_drawn_the_largest_places_first(grounded):
    with opened(grounded, **DESKTOP) as page:
        ready(page)
        for layer in ("lakes", "rivers", "places", "place-dots"):
            until(page, drawn(page, layer))
        outlined = "crowdfieldMap.queryRenderedFeatures({ layers: ['land', 'borders'] })"
        assert page.evaluate(f"{outlined}.length && {outlined}.every(f => !f.properties.kind)")
        # The village is named from a higher zoom on; where two places are one, each has a side of its own.
        page.evaluate("crowdfieldMap.jumpTo({ center: [-72.34, 18.54], zoom: 8.5 })")
        until(page, f"{NAMES}.join() === 'Delmas,Léogâne,Port-au-Prince'")
        page.evaluate("crowdfieldMap.jumpTo({ center: [-72.3, 18.45], zoom: 11.2 })")
        until(page, f"{NAMES}.includes('Ti Rivyè')")
        assert page.inner_text("#basemap-credit") == "The survey · <b>2026</b>"
        shot(page, "ground")
        assert serious(page) == []


def test_places_are_found_by_name_in_any_spelling_that_the_ground_has(grounded):
    with opened(grounded) as page:
        ready(page)

        def found(text):
            page.fill("#search-text", text)
            page.press("#search-text", "Enter")
            return page.locator("#search-found button").all_inner_texts()

        until(page, drawn(page, "places"))
        assert found("leogane") == ["Léogâne"] and found("LEYOGAN") == ["Léogâne (Leyogàn)"]
        assert "among the largest" in page.inner_text("#search-said")
        assert found("port au prince") == ["Port-au-Prince"]
        assert found("太子") == ["Port-au-Prince (太子港)"]
        assert found("بورت او برانس") == ["Port-au-Prince (بورت أو برانس)"]  # without the hamza
        assert found("e")[-1] == "Elsewhere"  # outside the map, so after all others
        assert found("-") == [] and found("Paris") == []
        assert page.inner_text("#search-said").startswith("Nothing found among the largest places")
        found("leogane")
        page.click("#search-found button")
        until(page, "Math.abs(crowdfieldMap.getCenter().lng + 72.6) < 0.01")


def test_names_suit_the_dark_theme_and_arabic_pages(grounded):
    with opened(grounded, query="?lang=ar", color_scheme="dark", **PHONE) as page:
        ready(page)
        until(page, f"{NAMES}.includes('بورت أو برانس')")
        until(page, "crowdfieldMap.hasImage('name/dark/بورت أو برانس')")
        assert not page.evaluate("crowdfieldMap.hasImage('name/light/بورت أو برانس')")
        shot(page, "ground-dark-phone-ar")
        assert serious(page) == []


# A map of 1,000 by 600 pixels on which a degree is a pixel, and marks that remember where they are put.
ARRANGED = """async ([marks, clusters, places]) => {
  const { arrange } = await import("/static/labels.js");
  const container = { clientWidth: 1000, clientHeight: 600 };
  const map = { project: ([x, y]) => ({ x, y }), getZoom: () => 12, getContainer: () => container };
  const moved = [];
  const element = Object.defineProperty(document.createElement("i"), "offsetWidth", { value: 28 });
  const setOffset = (by) => moved.push(by);
  const made = marks.map((at) => ({ getElement: () => element, getLngLat: () => at, setOffset }));
  const numbers = clusters.map((coordinates) => ({ geometry: { coordinates } }));
  const names = arrange(map, { clusters: numbers, marks: made, places });
  return [moved, names.map(({ properties: { name, size, offset } }) => [name, offset.map((part) => part * size)])];
}"""


@pytest.fixture(scope="module")
def arranging(grounded):
    """A page for what leaves no trace on it: to open one takes longer than to arrange anything."""
    with opened(grounded) as page:
        ready(page)
        yield page


def test_places_to_look_at_do_not_hide_numbers_of_reports_or_each_other(arranging):
    marks, clusters = [[100, 100], [300, 300], [300, 300], [500, 500]], [[102, 100], [800, 300]]
    moved, _ = arranging.evaluate(ARRANGED, [marks, clusters, []])
    shown = [(x + dx, y + dy) for (x, y), (dx, dy) in zip(marks, moved, strict=True)]
    assert moved[1] == moved[3] == [0, 0]  # nothing in the way
    for i, (x, y) in enumerate(shown):
        # Half of a mark and half of a number are 31 pixels together, two halves of marks 28.
        assert all(max(abs(x - u), abs(y - v)) >= 31 for u, v in clusters)
        assert all(max(abs(x - u), abs(y - v)) >= 28 for u, v in shown[:i])


def test_names_do_not_hide_numbers_of_reports_or_each_other(arranging):
    towns = [(f"Town {i}", 100 + 20 * (i % 12), 100 + 20 * (i // 12), 1000 - i) for i in range(60)]
    places = [dict(zip(("name", "longitude", "latitude", "inhabitants"), one, strict=True)) for one in towns]
    _, names = arranging.evaluate(ARRANGED, [[], [[110, 110], [200, 140]], places])
    assert names[0][0] == "Town 0" and 5 < len(names) < 40  # the largest is named, and not all are
    where = {name: (x, y) for name, x, y, _ in towns}
    middles = [(where[name][0] + dx, where[name][1] + dy) for name, (dx, dy) in names]
    for i, (x, y) in enumerate(middles):
        assert all(abs(x - u) > 20 or abs(y - v) > 14 for u, v in middles[:i])
        assert all(abs(x - u) > 20 or abs(y - v) > 20 for u, v in [(110, 110), (200, 140)])
