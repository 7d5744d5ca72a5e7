"""The report: everything on one page, nothing from elsewhere, nothing that a report brought along runs."""

import json
import re
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pandas as pd
import pytest
import shapely
from matplotlib.text import Text
from tests.browser import needs_chromium, page

from crowdfield import geography, pipeline, plot
from crowdfield.errors import InputError, MissingDependencyError
from crowdfield.io.areas import NamedAreas
from crowdfield.pipeline.report import browser, gather, read_texts
from crowdfield.pipeline.report import page as report_page
from crowdfield.pipeline.totals import totals
from crowdfield.pipeline.totals_picture import choropleth
from crowdfield.plot.changes import change_sheet
from crowdfield.plot.words import ENGLISH, PREFIX, spoken

NASTY = "</section><script>document.title='owned'</script>"


@pytest.fixture(scope="module")
def text(runs):
    first, second = runs
    districts = pd.DataFrame({"district": ["North", NASTY], "reports": [12, 3], "flooded, km²": [4.25, float("nan")]})
    content = gather(
        second,
        title=f"Flood {NASTY}",
        since=first.heatmap,
        districts=districts,
        checks=["52 of 60 places were as the map says"],
        written=datetime(2026, 11, 17, 6, 0, tzinfo=UTC),
    )
    return report_page(content)


def test_the_report_has_every_part(text):
    words = read_texts()
    for name in ("map", "changed", "districts", "looks", "sources", "checks", "unknown", "provenance"):
        assert f"<h2>{words[name]}</h2>" in text
    assert "2026-11-17 06:00 UTC" in text and "160 reports by 4 sources" in text and "100 more reports" in text
    assert "4.25" in text and "nan" not in re.sub(r"base64,[^\"]*", "", text)
    assert text.count("data:image/png;base64,") == 2


def test_the_report_makes_no_requests_and_has_no_scripts(text):
    assert "http:" not in text and "https:" not in text and "<script" not in text
    assert "&lt;script&gt;" in text and "&lt;b&gt;reports" in text


def test_a_report_without_extras_has_no_empty_sections(runs):
    first, _ = runs
    text = report_page(gather(first, looks=[]))
    words = read_texts()
    for name in ("changed", "districts", "looks", "checks"):
        assert f"<h2>{words[name]}</h2>" not in text
    assert words["title"].format(state="flooded") in text


def test_a_report_of_one_label_begins_with_what_it_cannot_tell(runs):
    """ "Surely an emergency: 100 % of the map" would be the first thing a reader sees."""
    content = gather(runs[0], looks=[])
    settings = {"region": {"west": 1.5, "south": 2.0}}
    text = report_page(replace(content, about={**content.about, "only_label": NASTY, "settings": settings}))
    assert text.index("nothing tells where it is not so") < text.index("<h2>") and NASTY not in text
    assert "Surely" not in text and "Surely" in report_page(content)
    assert "region = west 1.5, south 2.0" in text


def test_a_report_of_one_label_shows_where_reports_are_and_no_figures_of_the_prior(runs):
    heatmap = runs[0].heatmap
    alike = replace(heatmap, metadata={**heatmap.metadata, "only_label": "flooded"})
    content = gather(runs[0], written=datetime(2026, 11, 17, 6, 0, tzinfo=UTC))
    words, text = read_texts(), report_page(replace(content, heatmap=alike, about=alike.metadata))
    assert words["counts_says"].format(state="flooded") in text and words["source_one_label"] in text
    for name in ("look_now", "source_right", "map_says", "unknown_undecided"):
        start = words[name].format(state="flooded", share="{share}").partition("{")[0]
        assert start and start not in text
        assert name == "unknown_undecided" or start in report_page(content)


def test_one_of_a_thing_is_in_the_singular(runs):
    content = gather(runs[0], looks=[])
    about = {**content.about, "reports": 768, "sources": 1, "outside": 1, "read": [{"rejected": 1}]}
    text = report_page(replace(content, about=about))
    assert "768 reports by 1 source ·" in text
    assert "1 report lies outside the map and was left out." in text
    assert "1 row of the files could not be used." in text


def test_the_first_figure_says_how_much_of_it_nobody_knows(runs):
    content = gather(runs[0], looks=[])
    found, heatmap = content.figures(), content.heatmap
    from crowdfield.plot import unknown

    dark, p = unknown(heatmap)[heatmap.mask], heatmap.of("flooded")[heatmap.mask]
    assert found["share_unknown"] == pytest.approx(p[dark].sum() / p.sum())
    somewhere = replace(heatmap, sd=np.full_like(heatmap.sd, 0.5))
    text = report_page(replace(content, heatmap=somewhere))
    assert "of which 100 % where nobody knows" in text
    assert "of which" not in report_page(replace(content, heatmap=replace(heatmap, sd=0 * heatmap.sd)))


@needs_chromium
def test_a_tall_map_is_on_the_first_page(runs, tmp_path):
    """A4 has room for 265 mm: the map must fit below the first figures."""
    content, tall = gather(runs[0], looks=[]), np.s_[:, :3]
    whole = content.heatmap
    grid = whole.grid
    narrow = replace(grid, east=grid.west + 3 * grid.cell_width, columns=3)
    part = replace(
        whole, grid=narrow, probability=whole.probability[tall], sd=whole.sd[tall], reports=whole.reports[tall]
    )
    path = tmp_path / "report.html"
    path.write_text(report_page(replace(content, heatmap=part)), encoding="utf-8")
    with page(viewport={"width": 695, "height": 1010}) as window:
        window.emulate_media(media="print")
        window.goto(path.as_uri())
        bottom = window.evaluate("document.querySelector('figure').getBoundingClientRect().bottom")
        high = window.evaluate("document.querySelector('figure img').naturalHeight")
        assert high > 1000 and bottom < 268 / 25.4 * 96


@needs_chromium
def test_the_report_prints_on_a4(text, tmp_path):
    path = tmp_path / "report.html"
    path.write_text(text, encoding="utf-8")
    with page(viewport={"width": 794, "height": 1123}) as window:
        window.goto(path.as_uri())
        assert window.title().startswith("Flood")
        assert window.evaluate("document.documentElement.scrollWidth") <= 794
        window.emulate_media(media="print")
        assert window.pdf(format="A4").startswith(b"%PDF")


@needs_chromium
def test_the_report_is_written_as_pdf(runs, tmp_path):
    path = pipeline.write_report(runs[0], tmp_path / "report.pdf", looks=[])
    content = path.read_bytes()
    assert content.startswith(b"%PDF") and len(content) > 20_000 and list(tmp_path.iterdir()) == [path]


def test_where_no_browser_is_the_error_says_what_to_do(monkeypatch):
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(MissingDependencyError, match="print it from any browser"):
        browser()


def test_every_text_can_be_translated(runs, tmp_path):
    words = read_texts()
    other = tmp_path / "text.xx.toml"
    # A string of JSON is one of TOML.
    lines = [
        f"{name} = {json.dumps(f'¤ {value}', ensure_ascii=False)}"
        for name, value in words.items()
        if name not in ("language", "direction")
    ]
    other.write_text("\n".join([*lines, 'language = "ar"', 'direction = "rtl"']), encoding="utf-8")
    text = report_page(gather(runs[0], looks=[]), read_texts(other))
    assert '<html lang="ar" dir="rtl">' in text
    headings = re.findall(r"<h2>(.*?)</h2>", text)
    assert headings and all(heading.startswith("¤") for heading in headings)


def test_the_pictures_of_a_report_speak_its_language(runs):
    """Every word in them: numbers, degrees, the names of states and districts, and who is credited need none."""
    words = read_texts()
    assert {name.removeprefix(PREFIX): text for name, text in words.items() if name.startswith(PREFIX)} == ENGLISH
    other = {name: f"¤ {text}" if name.startswith(PREFIX) else text for name, text in words.items()}
    first, second = runs
    alike = replace(first.heatmap, metadata={**first.heatmap.metadata, "only_label": "flooded"})
    grid = first.heatmap.grid
    corners = geography.unproject(np.array([[grid.west, grid.south], [grid.east, grid.north]]), str(grid.crs))
    shapes = np.array([shapely.box(*corners.ravel()), shapely.box(0.0, 0.0, 1.0, 1.0)], dtype=object)
    districts = totals(first, NamedAreas(("7", "8"), shapes), draws=20)
    with spoken(other):
        figures = [
            plot.sheet(first.heatmap, looks=[[grid.west, grid.south]]),
            plot.sheet(alike),
            change_sheet(pipeline.compare(first.heatmap, second.heatmap)),
            choropleth(districts),
        ]
    for figure in figures:
        texts = {text.get_text() for text in figure.findobj(Text)} - {"N"}
        said = {text for text in texts if re.search(r"[a-z]{2}", text) and not re.fullmatch(r"[\d.,]+ k?m", text)}
        assert said and all(text.startswith(("¤", "crowdfield")) or "; crowdfield" in text for text in said), said
    assert plot.sheet(first.heatmap).get_suptitle() == "Probability: flooded"  # only those of the report


@pytest.mark.parametrize(
    ("content", "words"),
    [('title = "x"', "lacks the text"), ("title = ", "is not TOML"), (None, "cannot be read")],
)
def test_a_translation_that_does_not_fit_is_refused(content, words, tmp_path):
    path = tmp_path / "text.toml"
    if content is not None:
        path.write_text(content)
    with pytest.raises(InputError, match=words):
        read_texts(path)


def test_the_texts_are_plain_toml():
    assert all(isinstance(value, str) and value for value in read_texts().values())


def test_another_suffix_is_refused(runs, tmp_path):
    with pytest.raises(InputError, match=r"\.html or \.pdf"):
        pipeline.write_report(runs[0], tmp_path / "report.doc")


def test_figures_of_spot_checks_are_shown_as_people_read_them():
    from crowdfield.pipeline.report import check_table

    ends = {"": 0.381, "_low": 0.06, "_high": 0.63}
    figures = {f"{name}{end}": [value] for name in check_table.ESTIMATES for end, value in ends.items()}
    table = pd.DataFrame({"state": [NASTY], "mapped_share": [0.09], **figures}).assign(users=float("nan"))
    assert check_table.is_assessment(table) and not check_table.is_assessment(table.drop(columns="area_low"))
    page = check_table.html(table, read_texts(None))
    assert page.count("38 % (6–63)") == 3 and "9 %" in page  # nothing is mapped so: its column is empty
    assert NASTY not in page and "nan" not in page and "area_pp" not in page


def test_figures_of_districts_are_shown_as_people_read_them():
    from crowdfield.pipeline.report import district_table

    table = pd.DataFrame(
        {
            "area": ["North", NASTY, "far away"],
            "cells": [3, 4, 0],
            "reports": [1200, 3, 0],
            "unknown_share": [0.25, 0.0, float("nan")],
            "share_wet": [0.381, 0.1, float("nan")],
            "share_low_wet": [0.06, 0.0, float("nan")],
            "share_high_wet": [0.63, 0.5, float("nan")],
            "amount_wet": [1234.5, 0.25, 0.0],
            "amount_low_wet": [200.0, 0.0, 0.0],
            "amount_high_wet": [2000.0, 1.0, 0.0],
            "probability_above_0.3_wet": [0.77, 0.05, float("nan")],
            "probability_above_0.3_not wet": [0.1, 0.2, float("nan")],
            "note": ["4 % of it lies outside", float("nan"), float("nan")],
        }
    )
    table.attrs |= {"unit": "people", "level": 0.9}
    assert district_table.is_totals(table, "wet") and not district_table.is_totals(table, "dry")
    page = district_table.html(table, "wet", read_texts(None))
    for words in (
        "38 % (6–63)",
        "1,234 (200–2,000)",
        "amount (people)",
        "P(at least 30 %)",
        "77 %",
        "1,200",
        "90 % int",
    ):
        assert words in page
    assert "share_low" not in page and "nan" not in page and NASTY not in page and "4 % of it lies outside" in page


def test_totals_of_districts_come_with_a_map_and_with_what_is_odd_about_them(runs, tmp_path):
    fused = runs[0]
    grid = fused.heatmap.grid
    corners = geography.unproject(np.array([[grid.west, grid.south], [grid.east, grid.north]]), str(grid.crs))
    (west, south), (east, north) = corners
    middle = (west + east) / 2
    shapes = [shapely.box(west, south, east, north), shapely.box(west, south, middle, north)]
    found = totals(fused, NamedAreas(("all", NASTY), np.array(shapes, dtype=object)), draws=20)
    page = pipeline.write_report(fused, tmp_path / "report.html", districts=found).read_text(encoding="utf-8")
    assert page.count("<img") == 2 and "Districts overlap" in page and NASTY not in page
