"""The words of the page: one file for each language, and all of them say the same things."""

import json
import re

import pytest

from crowdfield.service.assets import STATIC

# The plural forms of whole numbers (Unicode CLDR) that a text must have; "other" stands in for the rest.
FORMS = {
    "en": {"one", "other"},
    "fr": {"one", "other"},
    "es": {"one", "other"},
    "ar": {"one", "two", "few", "many", "other"},
}
TEXTS = {name: json.loads((STATIC / f"text.{name}.json").read_text("utf-8")) for name in FORMS}


def flat(text, path=""):
    """Every text by its path; the plural forms of one text are together."""
    if isinstance(text, dict) and "other" not in text:
        return {key: value for name, inner in text.items() for key, value in flat(inner, f"{path}.{name}").items()}
    return {path: text}


def placeholders(text):
    return set(re.findall(r"\{(\w+)\}", text))


def test_every_language_that_the_page_offers_has_its_file():
    offered = re.search(r"LANGUAGES = \{(.*?)\}", (STATIC / "text.js").read_text("utf-8"))
    assert set(re.findall(r"(\w+):", offered[1])) == set(TEXTS)
    assert {path.name for path in STATIC.glob("text.*.json")} == {f"text.{name}.json" for name in TEXTS}


@pytest.mark.parametrize("language", sorted(set(TEXTS) - {"en"}))
def test_all_languages_have_the_same_keys_and_placeholders(language):
    english, other = flat(TEXTS["en"]), flat(TEXTS[language])
    assert list(english) == list(other)  # in the same order, so that files can be read side by side
    for key, text in other.items():
        assert type(text) is type(english[key]), key
        if isinstance(text, dict):
            assert set(text) == FORMS[language], key
            assert placeholders(text["other"]) == placeholders(english[key]["other"]), key
            assert all(placeholders(form) <= placeholders(text["other"]) for form in text.values()), key
        elif isinstance(text, str):
            assert text.strip() and placeholders(text) == placeholders(english[key]), key


def test_every_text_is_used_and_every_used_text_exists():
    pages = [path for path in STATIC.iterdir() if path.suffix in (".js", ".html")]
    source = "\n".join(path.read_text("utf-8") for path in pages)
    used = set(re.findall(r"\bT\.(\w+)", source)) | set(re.findall(r'data-(?:text|label)="(\w+)"', source))
    used |= {"noLibrary", "noGraphics"}  # chosen by `drawable`
    assert used - set(TEXTS["en"]) == set()
    assert set(TEXTS["en"]) - used == set()
