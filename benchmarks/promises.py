"""What must hold, and whether the figures of a run say so."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import log
from typing import Any, NamedTuple

Result = dict[str, Any]
Find = Callable[[str, int, str], float | None]  # a figure of a case at a size


class Promise(NamedTuple):
    text: str
    unit: str
    value: Callable[[Find], float | None]
    most: float | None = None
    least: float | None = None
    needs: tuple[tuple[str, int], ...] = ()  # what is measured for it

    def holds(self, value: float) -> bool:
        return (self.most is None or value <= self.most) and (self.least is None or value >= self.least)


def _figure(case: str, size: int, name: str = "seconds") -> tuple[Callable[[Find], float | None], Any]:
    return lambda find: find(case, size, name), ((case, size),)


def _seconds(text: str, case: str, size: int, most: float, name: str = "seconds") -> Promise:
    value, needs = _figure(case, size, name)
    return Promise(text, "s", value, most=most, needs=needs)


def _of_two(
    one: tuple[str, int, str], two: tuple[str, int, str], together: Callable[[float, float], float]
) -> Callable[[Find], float | None]:
    def value(find: Find) -> float | None:
        a, b = find(*one), find(*two)
        return None if a is None or b is None else together(a, b)

    return value


MILLION, PAPER = 10**6, (100, 400, 1000, 2400)


def _slowest_of_paper(name: str) -> Callable[[Find], float | None]:
    def value(find: Find) -> float | None:
        took = [find("paper", size, name) for size in PAPER]
        return max(t for t in took if t is not None) if None not in took else None

    return value


PROMISES = (
    _seconds("mean-field VB, 10⁶ reports of 1,000 sources", "growth", MILLION, 5.0),
    Promise(
        "its memory",
        "GB",
        _of_two(("growth", MILLION, "peak_mb"), ("growth", MILLION, "peak_mb"), lambda mb, _: mb / 1024),
        most=0.5,
        needs=(("growth", MILLION),),
    ),
    _seconds("the default inference on the same", "growth_collapsed", MILLION, 10.0),
    Promise(
        "correlation of its map with the true rates",
        "",
        _figure("growth_collapsed", MILLION, "correlation")[0],
        least=0.987,
        needs=(("growth_collapsed", MILLION),),
    ),
    Promise(
        "bits of its NLPD beyond mean-field VB's",
        "bits",
        _of_two(("growth_collapsed", MILLION, "nlpd"), ("growth", MILLION, "nlpd"), lambda ours, vb: ours - vb),
        most=0.0,
        needs=(("growth_collapsed", MILLION), ("growth", MILLION)),
    ),
    _seconds("the default with its length-scale learned, 10⁶ reports", "learned", MILLION, 20.0),
    _seconds("the same, 10⁵ reports", "learned", 10**5, 6.0),
    _seconds("the same, 10⁴ reports", "learned", 10**4, 3.0),
    _seconds("mean-field VB, 10⁷ reports", "growth", 10**7, 60.0),
    Promise(
        "growth of mean-field VB from 10⁵ to 10⁷, as a power of the reports",
        "",
        _of_two(("growth", 10**7, "seconds"), ("growth", 10**5, "seconds"), lambda a, b: log(a / b) / log(100.0)),
        most=1.0,
        needs=(("growth", 10**7), ("growth", 10**5)),
    ),
    Promise(
        "the default at 10⁶, in times of crowd-kit's Dawid–Skene without a map",
        "times",
        _of_two(
            ("growth_collapsed", MILLION, "seconds"),
            ("dawid_skene", MILLION, "their_seconds"),
            lambda ours, theirs: ours / theirs,
        ),
        most=2.0,
        needs=(("growth_collapsed", MILLION), ("dawid_skene", MILLION)),
    ),
    *(
        Promise(
            f"fits of 100 to 2,400 reports of the paper's setting, the slowest, {model}",
            "s",
            _slowest_of_paper(name),
            most=0.1,
            needs=tuple(("paper", size) for size in PAPER),
        )
        for model, name in (("one-state model", "seconds"), ("default (both models compared)", "default_seconds"))
    ),
    _seconds("one new report on 10⁵, in the library", "streaming", 10**5, 0.3, "collapsed_update_seconds"),
    _seconds("one new report on 10⁵, until the live map shows it", "tile", 10**5, 2.0),
    _seconds("mean and deviation of 2,000 × 2,000 cells", "grid", 2000, 3.0),
    _seconds("200 draws of a map of 500 × 500 cells", "draws", 500, 5.0),
)


class Judged(NamedTuple):
    text: str
    unit: str
    value: float | None
    most: float | None
    least: float | None
    verdict: str  # "holds", "fails", "machine busy", "not measured"

    def line(self) -> str:
        wanted = f"at most {self.most:g}" if self.most is not None else f"at least {self.least:g}"
        value = "" if self.value is None else f"{self.value:.3g} {self.unit}".strip()
        return f"{self.verdict:<13} {value:>12}  ({wanted})  {self.text}"


def judge(results: Iterable[Result]) -> list[Judged]:
    """A verdict on every promise. One that fails on a busy machine is not called broken: nobody knows."""
    by_case = {(r["case"], r["size"]): r for r in results}

    def find(case: str, size: int, name: str) -> float | None:
        value = by_case.get((case, size), {}).get(name)
        return None if value is None else float(value)

    out = []
    for promise in PROMISES:
        value = promise.value(find)
        if value is None:
            verdict = "not measured"
        elif promise.holds(value):
            verdict = "holds"
        else:
            busy = any(by_case[need].get("quiet") is False for need in promise.needs)
            verdict = "machine busy" if busy else "fails"
        out.append(Judged(promise.text, promise.unit, value, promise.most, promise.least, verdict))
    return out
