"""Grades are recognised by their words, and states without an order are not."""

import numpy as np
import pytest

import crowdfield as cf
from crowdfield.data.grade_order import order_of
from crowdfield.data.positive import decide
from crowdfield.errors import InputError

# from the least to the worst; the last in each is the state in question
GRADES = [
    ("No visible damage", "Possibly damaged", "Damaged", "Destroyed"),  # Copernicus, from 2017 on
    (
        "Not Affected",
        "Negligible to slight damage",
        "Moderately Damaged",
        "Highly Damaged",
        "Completely Destroyed",
    ),  # and before
    ("D0", "D1", "D2", "D3", "D4", "D5"),  # EMS-98
    ("DG1", "DG2", "DG10"),
    ("Grade 1", "Grade 2", "Grade 3"),
    ("Grade I: none", "Grade II: slight", "Grade IV: heavy"),
    (
        "negligible to slight damage",
        "moderate damage",
        "substantial to heavy damage",
        "very heavy damage",
        "destruction",
    ),
    ("Possible Damage", "Moderate Damage", "Severe Damage", "Destroyed"),  # UNOSAT
    ("no damage", "minor-damage", "major-damage", "destroyed"),  # xBD
    ("low", "medium", "high"),
    ("low", "medium", "high", "very high"),
    ("green", "yellow", "red"),
    ("intact", "endommagé", "détruit"),
    ("Sin daño", "Daño leve", "Daño moderado", "Daño severo", "Destruido"),
    ("hasarsız", "az hasarlı", "orta hasarlı", "ağır hasarlı", "yıkık"),
]


@pytest.mark.parametrize("grades", GRADES)
def test_grades_are_put_in_their_order(grades):
    mixed = tuple(sorted(grades, key=lambda name: name[::-1]))
    assert order_of(mixed) == grades
    assert order_of((*mixed, "unknown")) == grades  # an answer, but no grade
    assert decide(mixed).state == grades[-1]


@pytest.mark.parametrize(
    "states",
    [
        ("no", "yes", "maybe"),
        ("low", "high"),
        ("flood", "fire", "earthquake"),
        ("fire", "minor flood", "major flood"),
        ("minor road", "major road", "destroyed bridge"),
        ("class 1", "class 2", "class 3"),
        ("dry", "wet", "destroyed"),
        ("red", "green", "blue"),
        ("LION", "ZEBRA", "NOTHINGHERE"),
        ("high", "severe", "very high", "heavy"),  # which of two equal words is worse, nobody knows
    ],
)
def test_states_without_an_order_are_left_without_one(states):
    assert order_of(states) is None


@pytest.mark.parametrize(
    ("column", "graded"),
    [
        ("damage_grade", True),
        ("Severity", True),
        ("EMS98", True),
        ("intensity, rounded", True),
        ("class", False),
        (None, False),
    ],
)
def test_numbers_are_grades_where_their_column_says_so(column, graded):
    assert order_of((1, 2, 3, 4, 5), column) == ((1, 2, 3, 4, 5) if graded else None)


def graded_map():
    grid = cf.Grid(west=0, east=2, south=0, north=1, columns=2, rows=1)
    p = np.array([[[0.1, 0.2, 0.3, 0.4], [1.0, 0.0, 0.0, 0.0]]])
    sd = np.array([[[0.1, 0.2, 0.3, 0.4], [0.0, 0.0, 0.0, 0.0]]])
    about = {"ordered": True, "prior_sd": [0.3, 0.3, 0.3, 0.3]}
    return cf.Heatmap(grid, ("none", "minor", "major", "destroyed"), p, sd, np.zeros((1, 2), dtype=int), about)


def test_a_map_of_grades_tells_the_expected_grade_and_at_least():
    heatmap = graded_map()
    mean, sd = heatmap.expected_grade()
    np.testing.assert_allclose(mean, [[2.0, 0.0]])
    np.testing.assert_allclose(sd, [[1.0, 0.0]], atol=1e-12)
    major = heatmap.at_least("major")
    assert major.states == ("less than major", "at least major") and major.positive == "at least major"
    np.testing.assert_allclose(major.of("at least major"), [[0.7, 0.0]])
    # Of the states below and of those above the sum has one deviation: that of the less uncertain side bounds it.
    np.testing.assert_allclose(major.sd[0, 0], [np.hypot(0.1, 0.2)] * 2)
    np.testing.assert_allclose(heatmap.at_least("minor").sd[0, 0], [0.1] * 2)
    np.testing.assert_allclose(heatmap.at_least("destroyed").sd[0, 0], [0.4] * 2)


def test_only_grades_have_an_order_and_the_least_has_nothing_below():
    with pytest.raises(InputError, match=r"lowest grade\. Name a higher one"):
        graded_map().at_least("none")
    plain = graded_map()
    plain = cf.Heatmap(plain.grid, plain.states, plain.probability, plain.sd, plain.reports)
    with pytest.raises(InputError, match=r"no order.*--grades"):
        plain.expected_grade()


def test_between_two_neighbouring_grades_somebody_knows():
    from crowdfield import plot

    grid = cf.Grid(west=0, east=2, south=0, north=1, columns=2, rows=1)
    p = np.array([[[0.0, 0.0, 0.5, 0.5], [0.25, 0.25, 0.25, 0.25]]])
    sd = np.array([[[0.02, 0.02, 0.3, 0.3], [0.3, 0.3, 0.3, 0.3]]])
    about = {"ordered": True, "prior_sd": [0.3, 0.3, 0.3, 0.3]}
    heatmap = cf.Heatmap(grid, ("none", "minor", "major", "destroyed"), p, sd, np.zeros((1, 2), dtype=int), about)
    assert plot.knowledge(heatmap)[0, 0] > 0.6 and plot.knowledge(heatmap)[0, 1] == pytest.approx(0.0)
