"""A config file says everything a run needs; what it misspells is named, not ignored."""

import pytest

from crowdfield.errors import InputError
from crowdfield.pipeline.settings import Settings, from_plain, read_settings, trusted

GOOD = """
[read]
positive = "collapsed structure"
[map]
cell = "250m"
region = [-72.6, 18.2, -72.0, 18.8]
[model]
lengthscale = "2km"
seed = 3
[sources.fire-brigade]
trust = "high"
[sources.rumours]
confusion = [[5, 5], [6, 4]]
"""


def written(tmp_path, text):
    path = tmp_path / "run.toml"
    path.write_text(text)
    return path


def test_a_config_file_becomes_settings(tmp_path):
    settings = Settings(**read_settings(written(tmp_path, GOOD)))
    assert settings.cell == "250m" and settings.seed == 3 and settings.read["positive"] == "collapsed structure"
    prior = settings.confusion_prior(("no", "yes"), ("no", "yes"))
    assert isinstance(prior, dict)
    assert prior["rumours"] == [[5.0, 5.0], [6.0, 4.0]]
    assert prior["fire-brigade"][0][0] > 20 * prior["fire-brigade"][0][1]


def test_settings_survive_a_file(tmp_path):
    settings = Settings(**read_settings(written(tmp_path, GOOD)))
    assert from_plain(settings.plain()) == settings
    assert settings.changed()["lengthscale"] == "2km" and "kernel" not in settings.changed()


def test_more_trust_means_a_higher_expected_accuracy_and_firmer_belief():
    rows = [trusted(level, ("a", "b"), ("a", "b"))[0] for level in ("low", "medium", "high", "certain")]
    accuracy = [row[0] / sum(row) for row in rows]
    assert accuracy == sorted(accuracy) and accuracy[0] > 0.5 and accuracy[-1] > 0.99
    assert [sum(row) for row in rows] == sorted(sum(row) for row in rows)


def test_labels_that_are_no_state_are_never_right():
    assert trusted("high", ("no", "yes"), ("no", "yes", "maybe")) == [[50.0, 2.0, 2.0], [2.0, 50.0, 2.0]]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[modle]\nseed = 1", r"no table \[modle\]; did you mean 'model'"),
        ("[model]\nlenghtscale = 1", "did you mean 'lengthscale'"),
        ("[model]\nzzz = 1", "there are lengthscale"),
        ("model = 3", "must be a table"),
        ("[sources]\nfire = 'high'", r"\[sources.fire\] needs either trust"),
        ("[sources.fire]\ntrust = 'high'\nconfusion = [[1]]", "needs either trust"),
        ("[model", "is not TOML"),
    ],
)
def test_mistakes_in_a_config_file_are_named(tmp_path, text, words):
    with pytest.raises(InputError, match=words):
        read_settings(written(tmp_path, text))


def test_an_unknown_level_of_trust_is_named():
    with pytest.raises(InputError, match="certain, high, medium, low"):
        Settings(sources={"fire": "huge"})


def test_a_config_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(InputError, match=r"none\.toml"):
        read_settings(tmp_path / "none.toml")
