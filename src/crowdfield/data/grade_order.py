"""Recognise ordered labels (grades) and their order: "minor, major, destroyed", "D0" to "D5", 1 to 5.

Recognised are three or more states that are

1. words of `label_words.GRADES` for how bad something is ("slight damage", "very heavy damage"), beside at most one for
   "nothing is wrong" and one that just says "damaged"; what else they say must be the same in all;
2. a word for a grade with numbers ("Grade 3", "D4", "level II");
3. whole numbers in a column that is called a grade ("damage_grade", "severity", "intensity").
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from crowdfield.data import label_words as words
from crowdfield.data.label_words import normal
from crowdfield.data.positive import Meaning, grade, meaning, named_states

FEWEST = 3  # states; with two, the order makes no difference
MOST = 12
AT_LEAST_WORDS = "at least "  # before a grade: what is asked for, and what pictures and tables say
# Names of columns whose whole numbers are grades.
_GRADED_COLUMNS = words.word_set(
    "grade, grades, grading, grado, grad, level, severity, intensity, damage, rating, scale, niveau, nivel, stufe,"
    "gravité, gravedad, gravidade, schweregrad, hasar, daño, dégâts, schaden, ems98, ems, mmi, cdi, степень, درجة"
)


def order_of(labels: Sequence[Any], column: str | None = None) -> tuple[Any, ...] | None:
    """The labels that are states, from the least grade to the worst; None if they have no order.

    column: the name of the labels' column, if known; without it, numbers are not taken for grades.
    """
    states = named_states(labels)
    if not FEWEST <= len(states) <= MOST:
        return None
    for rank_of in (_numbers(column), _numbered, _in_words):
        ranks = rank_of(states)
        if ranks is not None and len(set(ranks)) == len(states):
            return tuple(state for _, state in sorted(zip(ranks, states, strict=True), key=lambda pair: pair[0]))
    return None


def _numbers(column: str | None) -> Any:
    def ranks(states: Sequence[Any]) -> list[float] | None:
        named = column is not None and bool(_GRADED_COLUMNS & set(normal(column).split()))
        whole = all(isinstance(state, int) and not isinstance(state, bool) for state in states)
        return [float(state) for state in states] if named and whole else None

    return ranks


def _numbered(states: Sequence[Any]) -> list[float] | None:
    found = [words.step(state) for state in states]
    if len({None if step is None else step[0] for step in found}) != 1:
        return None
    return [step[1] for step in found if step is not None] or None


def _in_words(states: Sequence[Any]) -> list[float] | None:
    """How bad each is by its words; None where some say something else as well, or nothing of the kind."""
    ranks, others, plain = [], set(), 0
    for state in states:
        said = [word for word in normal(state).split() if word not in words.ABOUT_GRADES]
        graded = [word for word in said if word in words.GRADES]
        if meaning(state, states) == Meaning.NOTHING_WRONG:
            ranks.append(-1.0)
        elif graded or not said:
            plain += not graded  # "damaged" by itself, between what is less and what is more
            others |= {" ".join(word for word in said if word not in words.GRADES and word not in words.VERY)} - {""}
            ranks.append(grade(state))
        else:
            return None
    return ranks if plain <= 1 and len(others) <= 1 else None
