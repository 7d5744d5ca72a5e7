"""Which state a map is about: the one that is shown first, in every file, picture, page and list.

Alphabetical order would put *undamaged* after *damaged*, so this module chooses the state, and everything that shows a
map uses it:

1. the state that the user names (`--positive`, `--show`, `positive=`);
2. else the only label that means neither "nothing is wrong" (or the negation of another label) nor "cannot tell";
3. of several such labels, the worst grade, if they are grades (low, medium, high; minor, major; 1 to 5);
4. else the rarest: what people look for is mostly less common;
5. else the last, with `sure` False, so that the caller can tell the user how to choose.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Literal

import numpy as np

from crowdfield.data import label_words as words
from crowdfield.data.label_words import normal
from crowdfield.errors import InputError

MOST_STATES = 12  # that are numbers, beside codes for "no answer"
Theme = Literal["water", "harm", "plain"]


@dataclass(frozen=True)
class Positive:
    """The state in question, why it was chosen, and whether that reason is more than a coin toss."""

    state: Hashable
    because: str
    sure: bool = True


class Meaning(IntEnum):
    """What a label means, judged by its words; higher values are shown first."""

    CANNOT_TELL = 0
    NOTHING_WRONG = 1
    SOMETHING = 2
    WRONG = 3


def decide(states: Sequence[Any], counts: Sequence[float] | None = None, given: Any = None) -> Positive:
    """The state in question among `states`.

    counts: how common each is, in reports or as mean probability; given: the state that was asked for, if any.
    """
    if given is not None:
        return Positive(matching(states, given), "it was asked for")
    meanings = [meaning(state, states) for state in states]
    kept = [state for state, said in zip(states, meanings, strict=True) if said == max(meanings)]
    if len(kept) == 1:
        return Positive(kept[0], "the other labels mean that nothing is wrong, or that nobody can tell")
    worst = max(grade(state) for state in kept)
    graded = [state for state in kept if grade(state) == worst]
    if len(graded) == 1:
        return Positive(graded[0], "it is the worst grade")
    if counts is not None:
        count = {state: float(n) for state, n in zip(states, counts, strict=True)}
        rarest = min(count[state] for state in graded)
        rare = [state for state in graded if count[state] == rarest]
        if len(rare) == 1:
            return Positive(rare[0], "it is the rarer state")
    return Positive(graded[-1], "nothing tells the states apart, so the last one is taken", sure=False)


def matching(states: Sequence[Hashable], given: Hashable) -> Hashable:
    """The state that was asked for: itself, else the same word in other letters ("1" is 1, "Flooded" is flooded)."""
    if given in states:
        return given
    alike = [state for state in states if str(state).strip().casefold() == str(given).strip().casefold()]
    if len(alike) != 1:
        raise InputError(f"there is no state {given!r}; the map has: {', '.join(str(state) for state in states)}.")
    return alike[0]


def named_states(labels: Sequence[Any]) -> tuple[Any, ...]:
    """The labels that name a state: without those that mean "cannot tell", unless fewer than two would be left."""
    unsure = words.CANNOT_TELL - words.MAY_BE_STATES
    codes = _no_answers(labels)
    kept = tuple(
        label for label in labels if label not in codes and (_number(label) is not None or normal(label) not in unsure)
    )
    return kept if len(kept) >= 2 else tuple(labels)


def _no_answers(labels: Sequence[Any]) -> tuple[Any, ...]:
    """Numbers such as 99 and −9 that mean "no answer": all other labels must be whole numbers from 0 to 12."""
    numbers = {label: _number(label) for label in labels}
    coded = tuple(label for label, number in numbers.items() if number in words.NO_ANSWER_CODES)
    others = [number for label, number in numbers.items() if label not in coded]
    small = all(number is not None and 0 <= number <= MOST_STATES and number.is_integer() for number in others)
    return coded if small and len(others) >= 2 else ()


def display_order(states: Sequence[Hashable], positive: Hashable) -> tuple[Hashable, ...]:
    """The states as they are shown: the one in question first, then from bad to good, "cannot tell" last."""
    rest = [state for state in states if state != positive]
    rest.sort(key=lambda state: (-meaning(state, states), -grade(state)))  # stable: equals keep their order
    return (positive, *rest)


def graded(states: Sequence[Any]) -> bool:
    """Whether the states are steps of one scale, so that colours may run from one to the next."""
    named = [state for state in states if meaning(state, states) != Meaning.CANNOT_TELL]
    ranks = [(int(meaning(state, states)), grade(state)) for state in named]
    return len(set(ranks)) == len(named)


def meaning(label: Any, among: Sequence[Any] = ()) -> Meaning:
    """What a label says by its words; `among`: the other labels, one of which it may deny."""
    text = normal(label)
    if label in _no_answers(among):
        return Meaning.CANNOT_TELL
    if _number(label) is not None:
        return Meaning.NOTHING_WRONG if _number(label) == 0 else Meaning.SOMETHING
    if (step := words.step(label)) is not None:
        return Meaning.NOTHING_WRONG if step[1] == 0 else Meaning.SOMETHING
    if text in words.CANNOT_TELL or not text:
        return Meaning.CANNOT_TELL
    if text in words.NOTHING_WRONG:
        return Meaning.NOTHING_WRONG
    denied = _denied(text, {normal(other) for other in among})
    if denied is None:
        return Meaning.SOMETHING
    return Meaning.WRONG if denied in words.NOTHING_WRONG or denied in words.NEEDS else Meaning.NOTHING_WRONG


def grade(label: Any) -> float:
    """How bad a grade is, from 0 to 1 for words; numbers are their own grade."""
    number = _number(label)
    if number is not None:
        return number
    if (step := words.step(label)) is not None:
        return step[1]
    said = normal(label).split()
    ranks = [words.GRADES[word] for word in said if word in words.GRADES]
    # "partially collapsed" is partial: the mildest word limits the others.
    rank = min(ranks, default=words.UNGRADED)
    return rank + 0.1 if ranks and words.VERY & set(said) else rank


def theme(state: Any) -> Theme:
    """What a state is about, by its words: colours follow intuition where there is one."""
    text = normal(state)
    if meaning(state) == Meaning.WRONG:  # "no water" is not about water
        return "harm"
    for name, beginnings in (("water", words.WATER), ("harm", words.HARM)):
        if any(_begins(text, beginning) for beginning in beginnings):
            return name  # type: ignore[return-value]
    return "plain"


def scale_name(states: Sequence[Any], positive: Any, shown: Any) -> str:
    """The scale of colours for the probability of `shown`: the theme of the state in question.

    Reversed for a state that means "nothing is wrong": of two states, the same place has the same colour whichever of
    them is shown.
    """
    safe = shown != positive and (len(states) == 2 or meaning(shown, states) == Meaning.NOTHING_WRONG)
    return theme(positive) + ("-reversed" if safe else "")


def _begins(text: str, beginning: str) -> bool:
    return text.startswith(beginning) or f" {beginning}" in text or (not text.isascii() and beginning in text)


def _number(label: Any) -> float | None:
    if isinstance(label, bool | np.bool_):
        return float(label)
    try:
        value = float(str(label).strip())
    except ValueError:
        return None
    return value if np.isfinite(value) else None


def _denied(text: str, others: set[str]) -> str | None:
    """What a label denies, or None: "not flooded" denies "flooded", "undamaged" the label "damaged"."""
    for word in words.DENIALS:
        if text.startswith(f"{word} "):
            return text.removeprefix(f"{word} ")
    for word in words.DENIALS_AFTER:
        if text.endswith(f" {word}"):
            return text.removesuffix(f" {word}")
    for prefix in words.DENYING_PREFIXES:
        rest = text.removeprefix(prefix)
        if rest != text and (rest in others or rest in words.NOTHING_WRONG):
            return rest
    return None
