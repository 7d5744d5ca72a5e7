"""Does the model fit the reports? Checked with the reports alone; no known truth is needed.

    check = crowdfield.check_model(model)
    print(check)                      # in plain words
    check.figure().savefig("check.png")

Three questions (docs/checking.md): Does the map predict left-out reports better than each source's label frequencies
(its habits)? Do reports about one place agree more than the model expects? Are the probabilities of left-out reports
calibrated?
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crowdfield.arrays import Array
from crowdfield.counting import counted
from crowdfield.data.positive import decide
from crowdfield.errors import InputError, MissingDependencyError
from crowdfield.inference import agreement
from crowdfield.inference.agreement import Agreement
from crowdfield.io.layers import plain
from crowdfield.metrics import Reliability, reliability
from crowdfield.models import draws as draws_
from crowdfield.models.counted import one_row_per_report

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from crowdfield.models.heatmap_bcc import HeatmapBCC


# Two standard errors: an uninformative map reaches less by chance.
CLEAR_STANDARD_ERRORS = 2.0
# Excess agreement of reports about one place that is reported, and its largest p-value. Less is found in all large
# crowds and does not visibly change the map.
MOST_INFLATION, LEAST_P = 1.15, 0.01
# Calibration error, beyond that due to chance, that is reported: maps are read to about a tenth.
MOST_CALIBRATION_ERROR = 0.05
CHANCE_DRAWS = 100  # simulated outcomes that estimate the calibration error due to chance
DRAWS = 100  # for the check of agreement
QUICK_DRAWS = 30  # when a map is made
QUICK_REPORTS = 50_000  # with more, maps are made without this check; `crowdfield check-model` does it
MOST_COMPARED_REPORTS = 10_000_000  # reports, counting rows by their count: the check of agreement compares all pairs
FEWEST_SOURCE_REPORTS = 20  # reports that a source needs to be judged
POOR_K = 0.7  # largest tail index k̂ of PSIS weights that are reliable (Vehtari and others)
VOTE_GROUPS = ((1, 1), (2, 2), (3, 5), (6, 10), (11, None))


class Finding(NamedTuple):
    """The answer to one question: its name, whether the model passes, and a sentence for people."""

    name: str
    holds: bool
    sentence: str


@dataclass(frozen=True, eq=False)
class ModelCheck:
    """The result of `check_model`; `str()` gives it as text, `plain()` as JSON values, `figure()` as pictures.

    Attributes
    ----------
    holds : bool
        True where no check failed.
    findings : list of Finding
        One per question: its name, whether it holds, and a sentence.
    warnings : list of str
        The sentences of those that fail.
    gain, gain_error : float
        Bits per report by which the map predicts left-out reports better than their sources' habits, and its standard
        error.
    agreement : Agreement
        Whether reports about one place agree more than the model expects.
    reliability : Reliability
        Whether probabilities given to left-out reports are calibrated.
    by_source, by_place, by_votes : DataFrame
        Where the model fails.
    """

    reports: int
    reports_model: str
    surprise: float  # bits per left-out report
    habit_surprise: float
    gain: float  # bits per report by which the map is better than habits
    gain_error: float  # its standard error; places are independent, reports at one place are not
    agreement: Agreement
    reliability: Reliability
    calibration_error: float
    calibration_by_chance: float  # what it would be on average if all probabilities were right
    by_votes: pd.DataFrame
    by_source: pd.DataFrame
    by_place: pd.DataFrame
    psis: dict[str, Any]
    label: str  # the label whose frequency is compared in the check of agreement

    def __repr__(self) -> str:
        found = ", ".join(f"{each.name} {'holds' if each.holds else 'FAILS'}" for each in self.findings)
        return f"<ModelCheck of {counted(self.reports, 'report')}: {found}>"

    @property
    def findings(self) -> list[Finding]:
        """The answers to the three questions, in their order."""
        return [self._about_habits(), self._about_agreement(), self._about_probabilities()]

    @property
    def holds(self) -> bool:
        """Whether no check failed."""
        return all(finding.holds for finding in self.findings)

    @property
    def warnings(self) -> list[str]:
        """The sentences of the checks that failed."""
        return [finding.sentence for finding in self.findings if not finding.holds]

    def _about_habits(self) -> Finding:
        """Does the map predict reports better than the habits of their sources?"""
        figures = (
            f"{self.surprise:.3f} bits per left-out report, {self.habit_surprise:.3f} by label frequencies; "
            f"gain {self.gain:.3f} ± {self.gain_error:.3f}"
        )
        if self.gain > CLEAR_STANDARD_ERRORS * self.gain_error:
            return Finding("habits", True, f"The map has learned something about places ({figures}).")
        return Finding(
            "habits",
            False,
            "The map predicts reports no better than each source's label frequencies: it has learned nothing about "
            f"places ({figures}). More reports about the same or nearby places are needed.",
        )

    def _about_agreement(self) -> Finding:
        """Do reports about one place agree more than the model expects?"""
        found = self.agreement
        if not found.pairs:
            return Finding("agreement", True, "No place has two reports, so their agreement cannot be checked.")
        excess = (
            f"{100 * found.excess:+.1f} of 100 pairs, by chance ± {100 * found.chance:.1f}; the variance of reports "
            f"about a place is {found.inflation:.2f} times what is expected"
        )
        if found.p > LEAST_P or found.inflation < MOST_INFLATION:
            return Finding(
                "agreement", True, f"Reports about one place agree hardly more than the model expects ({excess})."
            )
        advice = "Something misleads everybody there, or reports copy each other. The map is overconfident." + (
            " In Python, try HeatmapBCC(reports_model='instrument')." if self.reports_model == "one_state" else ""
        )
        return Finding(
            "agreement", False, f"Reports about one place agree more than the model expects ({excess}). {advice}"
        )

    def _about_probabilities(self) -> Finding:
        """Are the probabilities of left-out reports calibrated?"""
        gap = (
            f"mean error {100 * self.calibration_error:.1f} percentage points, "
            f"{100 * self.calibration_by_chance:.1f} by chance"
        )
        if self.calibration_error - self.calibration_by_chance <= MOST_CALIBRATION_ERROR:
            return Finding("probabilities", True, f"Probabilities of left-out reports are calibrated ({gap}).")
        return Finding(
            "probabilities",
            False,
            f"Probabilities of left-out reports are not calibrated ({gap}). The map may be too sure, or not sure "
            "enough: have some places checked.",
        )

    def lines(self) -> list[str]:
        """All of it in words, one thing per line."""
        poor = self.by_source[
            (self.by_source["reports"] >= FEWEST_SOURCE_REPORTS)
            & (self.by_source["gain"] < -CLEAR_STANDARD_ERRORS * self.by_source["gain_error"])
        ]
        often = int((self.by_source["reports"] >= FEWEST_SOURCE_REPORTS).sum())
        names = ", ".join(str(source) for source in poor["source"].head(5))
        more = f", among them {names}" if len(poor) else ""
        return [
            *(f"{'holds' if f.holds else 'FAILS'}: {f.sentence}" for f in self.findings),
            f"{len(poor)} of {often} sources with at least {FEWEST_SOURCE_REPORTS} reports are predicted worse than by "
            f"their label frequencies{more}.",
            *([self.psis["sentence"]] if self.psis["applies"] else []),
            "These checks use reports only. A crowd that is wrong together passes them; checked places reveal that.",
        ]

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def plain(self) -> dict[str, Any]:
        """All of it as values that JSON can hold."""
        out: dict[str, Any] = plain(
            {
                "holds": self.holds,
                "reports": self.reports,
                "reports_model": self.reports_model,
                "findings": [finding._asdict() for finding in self.findings],
                "surprise_bits": self.surprise,
                "habit_surprise_bits": self.habit_surprise,
                "gain_bits": self.gain,
                "gain_standard_error": self.gain_error,
                "agreement": {**self.agreement._asdict(), "z": self.agreement.z, "label": self.label},
                "calibration_error": self.calibration_error,
                "calibration_error_by_chance": self.calibration_by_chance,
                "reliability": self.reliability.__dict__,
                "psis": self.psis,
                "by_votes": self.by_votes.to_dict("records"),
                "by_source": self.by_source.to_dict("records"),
                "by_place": self.by_place.head(50).to_dict("records"),
            }
        )
        return out

    def figure(self) -> Figure:
        """All of it as pictures."""
        from crowdfield.pipeline.check_picture import draw

        return draw(self)


def check_model(
    model: HeatmapBCC, *, draws: int = DRAWS, random_state: int | np.random.Generator | None = 0, psis: bool = True
) -> ModelCheck:
    """Check whether the model fits the reports, without any known truth.

    Parameters
    ----------
    model : HeatmapBCC
        A fitted model.
    draws : int
        Draws of the posterior, for the check of agreement.
    random_state : int, Generator or None, default=0
        Of the draws.
    psis : bool, default=True
        Also compute PSIS diagnostics of Gibbs draws with ArviZ, if it is installed.

    Returns
    -------
    ModelCheck
        What was found.

    Examples
    --------
    >>> import crowdfield as cf
    >>> model = cf.HeatmapBCC(lengthscale=4.0).fit(*cf.testing.example_crowd())
    >>> check = cf.check_model(model, psis=False)
    >>> [finding.name for finding in check.findings]
    ['habits', 'agreement', 'probabilities']
    >>> check.gain > 2 * check.gain_error  # the map predicts left-out reports better than habits do
    True
    """
    rng = np.random.default_rng(random_state)
    if model.reports_.n_reports > MOST_COMPARED_REPORTS:
        raise InputError(
            f"the rows count as {model.reports_.n_reports:,} reports; at most "
            f"{MOST_COMPARED_REPORTS:,} are compared one by one."
        )
    if not _predicts_labels(model):
        raise InputError("no report can be predicted here: all are scores, or by sources that are trusted beforehand.")
    model = one_row_per_report(model)
    scores = model.score_reports()
    kept = scores[scores["bits"].notna()].assign(gain=lambda table: table["bits"] - table["habit_bits"])
    gain, error = _mean_and_error(kept["gain"].to_numpy(), kept["place"].to_numpy())
    drawn = draws_.draws_of(model, draws, rng)
    labels, shown = _labels(model)
    said, probability = _stated(drawn, np.exp2(kept["bits"].to_numpy()), len(labels), shown)
    stated = reliability(said, probability, bins=10)
    return ModelCheck(
        reports=len(kept),
        reports_model=model.reports_model_,
        surprise=-float(kept["bits"].mean()),
        habit_surprise=-float(kept["habit_bits"].mean()),
        gain=gain,
        gain_error=error,
        agreement=agreement.check(drawn, draws, shown, rng),
        reliability=stated,
        calibration_error=stated.error,
        calibration_by_chance=_error_by_chance(stated, rng),
        by_votes=_by_votes(kept),
        by_source=_grouped(kept, "source").sort_values("gain", ignore_index=True),
        by_place=_by_place(model, kept),
        psis=_psis(model, rng) if psis else {"applies": False, "sentence": "PSIS was not asked for."},
        label=labels[shown],
    )


def quick_warnings(model: Any) -> list[str]:
    """The sentences of failed checks, from a cheap version of the check.

    Empty for very many reports, for which even that would take long.
    """
    if not hasattr(model, "score_reports") or model.reports_.n_reports > QUICK_REPORTS:
        return []
    if len(np.unique(model.reports_.label)) < 2 or not _predicts_labels(model):
        return []  # there is nothing to predict; where all reports say the same, another sentence says so
    return check_model(model, draws=QUICK_DRAWS, psis=False).warnings


def _predicts_labels(model: HeatmapBCC) -> bool:
    """Whether any report has a label to predict: scores and reports of trusted sources have none."""
    return model.reports_model_ != "instrument" or bool(model._setup.crowd.any())


def _labels(model: HeatmapBCC) -> tuple[list[str], int]:
    """The labels in the order of the model's draws, and the one that names the state in question (else the last)."""
    names = list(model.reports_.labels)
    if model.reports_model_ == "instrument":
        names = [names[code] for code in model._setup.order]
    asked = decide(model.classes_.tolist()).state
    return [str(name) for name in names], names.index(asked) if asked in names else len(names) - 1


def _mean_and_error(values: Array, place: NDArray[np.int64]) -> tuple[float, float]:
    """The mean, and its standard error with places as clusters."""
    mean = float(values.mean())
    by_place = np.bincount(np.unique(place, return_inverse=True)[1].ravel(), values - mean)
    return mean, float(np.sqrt((by_place**2).sum()) / len(values))


def _stated(drawn: Any, own: Array, labels: int, shown: int) -> tuple[Array, Array]:
    """Whether a label was said (0/1), and the probability it had given all other reports.

    With two labels, one is enough. With more, every report counts once for each label: the probability that its own
    label leaves is divided among the others in the proportions of posterior draws.
    """
    said = drawn.label
    if labels == 2:
        hit = said == shown
        return hit.astype(np.float64), np.where(hit, own, 1.0 - own)
    some = np.unique(np.linspace(0, drawn.size - 1, 10).astype(int)).tolist()
    share = sum(drawn.predictive(d) for d in some) / len(some)
    rows = np.arange(len(said))
    share[rows, said] = 0.0
    share *= ((1.0 - own) / np.maximum(share.sum(1), 1e-300))[:, None]
    share[rows, said] = own
    hit = np.zeros_like(share)
    hit[rows, said] = 1.0
    return hit.ravel(), np.clip(share.ravel(), 0.0, 1.0)


def _error_by_chance(stated: Reliability, rng: np.random.Generator) -> float:
    """The mean calibration error of outcomes drawn from the stated probabilities themselves."""
    filled = stated.count > 0
    count, predicted = stated.count[filled], stated.predicted[filled]
    made = rng.binomial(count, np.clip(predicted, 0.0, 1.0), (CHANCE_DRAWS, len(count))) / count
    return float(np.average(np.abs(made - predicted), weights=count, axis=1).mean())


def _grouped(kept: pd.DataFrame, by: str) -> pd.DataFrame:
    """Surprise by source, place or number of votes, and its difference from that of the sources' label frequencies."""
    rows = [
        {by: name, "reports": len(part), "surprise": -part["bits"].mean(), "habit_surprise": -part["habit_bits"].mean()}
        | dict(
            zip(
                ("gain", "gain_error"),
                _mean_and_error(part["gain"].to_numpy(), part["place"].to_numpy()),
                strict=True,
            )
        )
        for name, part in kept.groupby(by, sort=False, observed=True)
    ]
    return pd.DataFrame(rows)


def _by_votes(kept: pd.DataFrame) -> pd.DataFrame:
    names = {
        low: str(low) if high == low else f"{low} to {high}" if high else f"{low} or more" for low, high in VOTE_GROUPS
    }
    lows = np.array(list(names))
    group = lows[np.searchsorted(lows, kept["votes"].to_numpy(), side="right") - 1]
    out = _grouped(kept.assign(group=group), "group").sort_values("group", ignore_index=True)
    return out.assign(votes=[names[low] for low in out["group"]]).drop(columns="group")


def _by_place(model: HeatmapBCC, kept: pd.DataFrame) -> pd.DataFrame:
    """The most surprising places first."""
    by = kept.groupby("place")["bits"].agg(["size", "mean"]).reset_index()
    by.columns = pd.Index(["place", "reports", "surprise"])
    by["surprise"] = -by["surprise"]
    for d, name in enumerate(("easting", "northing", "time")[: model.places_.shape[1]]):
        by[name] = model.places_[by["place"].to_numpy(), d]
    return by.sort_values("surprise", ascending=False, ignore_index=True)


def _psis(model: HeatmapBCC, rng: np.random.Generator) -> dict[str, Any]:
    """Diagnostics of Pareto-smoothed importance sampling, where left-out probabilities come from draws."""
    if model.inference_ != "gibbs":
        return {
            "applies": False,
            "sentence": "PSIS does not apply: reports were left out by taking them out of the fit (cavities), not by "
            "weighing draws.",
        }
    try:
        arviz = draws_.library()
    except MissingDependencyError as problem:
        return {"applies": True, "sentence": f"PSIS was not computed. {problem}"}
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ArviZ warns about large k̂, which is what is measured here
        loo = arviz.loo(model.to_arviz(random_state=rng), pointwise=True)
    k = np.asarray(loo.pareto_k)
    share, bits = float((k > POOR_K).mean()), float(-loo.elpd_loo / len(k) / np.log(2.0))
    trust = "the draws tell what left-out reports cost" if share < 0.01 else "the draws are too few or too narrow there"
    return {
        "applies": True,
        "k_above_0.7": share,
        "largest_k": float(k.max()),
        "surprise_bits": bits,
        "sentence": f"PSIS: {bits:.3f} bits per left-out report; k̂ above {POOR_K} for {100 * share:.1f} of 100 reports "
        f"(largest {k.max():.2f}): {trust}.",
    }
