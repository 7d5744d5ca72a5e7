"""The questions that volunteers of Zooniverse answer, and which of them is the label."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from crowdfield.errors import ReportFormatError
from crowdfield.io.columns import doubt, some
from crowdfield.io.names import folded

_PICTURE = re.compile(r"!\[[^\]]*\]\([^)]*\)\s*")  # an answer may carry its own icon, in Markdown


class Answered(NamedTuple):
    """A question, and the answers to it that a volunteer chose: more than one where the question allows it."""

    task: str  # "T1"
    question: str  # as volunteers read it, empty if the export does not say
    words: tuple[str, ...]


class Label(NamedTuple):
    """What is the label of a classification: the answer to a question, or whether one of its answers was chosen."""

    task: str
    answer: str | None = None

    def of(self, answers: Sequence[Answered]) -> str:
        """The label; empty if the question was not answered, or with several answers of which none is asked for."""
        words = next((one.words for one in answers if one.task == self.task), None)
        if words is None or (self.answer is None and len(words) != 1):
            return ""
        if self.answer is None:
            return words[0]
        return self.answer if folded(self.answer) in map(folded, words) else f"not {self.answer}"


def answers(tasks: Sequence[Any]) -> list[Answered]:
    """The answers of one classification. An empty list is a question of which nothing was chosen."""
    found = []
    for task in tasks:
        value = task.get("value") if isinstance(task, dict) else None
        if value is None:
            continue
        name, question = str(task.get("task", "")), str(task.get("task_label") or "")
        chosen = value if isinstance(value, list) else [value]
        if lists := [one for one in chosen if isinstance(one, dict) and is_chosen(one)]:
            # One task may hold several lists to choose from, each a question of its own.
            found += [
                Answered(f"{name}.{at}" if at else name, str(one.get("select_label") or question), words)
                for at, one in enumerate(lists)
                if (words := _words([one.get("label") or one.get("value")]))
            ]
        elif (words := _words(chosen)) or value == []:
            found.append(Answered(name, question, words))
    return found


def is_chosen(value: Mapping[str, Any]) -> bool:
    """Whether this is an answer chosen from a drop-down list: {"select_label": …, "option": true, "label": …}."""
    return "option" in value and "value" in value


def _words(chosen: Sequence[Any]) -> tuple[str, ...]:
    words = (str(one) for one in chosen if isinstance(one, str | int) and not isinstance(one, bool))
    return tuple(text for word in words if (text := _PICTURE.sub("", word).strip()))


def find_label(rows: Iterable[Sequence[Answered]], wanted: str | None, file: str) -> Label | None:
    """The label of a file, from its first classifications; None if they answer no questions.

    wanted: a task, its question or an answer, from the user; without it, a file with more than one question, or a
    question with several answers at once, is an error that asks for it.
    """
    asked: dict[str, list[Answered]] = {}
    for row in rows:
        for one in row:
            asked.setdefault(one.task, []).append(one)
    asked = {task: given for task, given in asked.items() if any(one.words for one in given)}
    if wanted is not None:
        return _wanted(asked, wanted, file)
    likely = [task for task, given in asked.items() if doubt(task, [", ".join(one.words) for one in given]) is None]
    task, *others = likely or list(asked) or [""]
    if not task:
        return None
    if others:
        raise ReportFormatError(
            f"volunteers answer several questions: {some([_title(asked[one]) for one in (task, *others)])}.",
            advice=f"Choose the one that is the label, for example --label {task}.",
            file=file,
            choices={"label": (task, *others)},
        )
    return _single(asked[task], file)


def _wanted(asked: Mapping[str, Sequence[Answered]], wanted: str, file: str) -> Label:
    name = folded(wanted)
    for task, given in asked.items():
        if name in (folded(task), folded(given[0].question)):
            return _single(given, file)
    for task, given in asked.items():
        if name in (folded(word) for one in given for word in one.words):
            return Label(task, wanted)
    raise ReportFormatError(
        f"no question and no answer is called '{wanted}'; the questions are "
        f"{some([_title(given) for given in asked.values()])}.",
        file=file,
        choices={"label": tuple(asked)},
    )


def _single(given: Sequence[Answered], file: str) -> Label:
    """The answer as the label, of a question with one answer each."""
    if all(len(one.words) <= 1 for one in given):
        return Label(given[0].task)
    offered = list(dict.fromkeys(word for one in given for word in one.words))
    raise ReportFormatError(
        f"{_title(given[:1])} allows several answers at once, so it is not clear which of them is the label.",
        advice=f"Name one answer, for example --label '{offered[0]}': it was given, or it was not.",
        file=file,
        choices={"label": offered},
    )


def _title(given: Sequence[Answered]) -> str:
    return f"{given[0].task} '{given[0].question}'" if given[0].question else given[0].task
