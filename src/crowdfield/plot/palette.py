"""Colours with a meaning: the same number is the same colour on every map of its kind, and unknown never looks safe.

Three scales, each perceptually uniform (equal steps of probability are equal steps of OKLab) and of falling or rising
lightness, so that they keep their order in any colour vision and in black and white:

water   sand to deep blue, for floods: water is blue
harm    pale yellow to dark red, for damage, fire, danger
plain   cividis, for everything else

Which scale a map has follows from the words of the state in question (`crowdfield.data.positive.theme`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib import colormaps
from matplotlib.colors import Colormap, ListedColormap, to_rgb

from crowdfield.data.heatmap import UNKNOWN_SHARE
from crowdfield.data.knowledge import doubt
from crowdfield.data.positive import Meaning, display_order, graded, matching, meaning, scale_name, theme

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crowdfield.data import Heatmap

PROBABILITY = colormaps["cividis"]
# The darkest fifth is left out: uncertainty is the ground of the picture, not its subject.
UNCERTAINTY = ListedColormap(colormaps["Purples"](np.linspace(0.0, 0.8, 256)), name="uncertainty")
UNKNOWN = to_rgb("#dedede")
OUTSIDE = to_rgb("#ffffff")
INK, FAINT = "#1d1d1f", "#6b6b70"
ACCENT = "#d1495b"  # marks of what is wrong: distinct from cividis, which has no red
# Full colour from this much knowledge on, so that good maps are not faded.
FULL_COLOUR = 0.6
# The standard deviation of a probability spread evenly over 0 to 1: what "no idea" means when the map does not say.
NO_IDEA = 1.0 / np.sqrt(12.0)

# Corners of the two scales, after ColorBrewer's YlGnBu and YlOrRd (safe for colour-blind readers). The light ends are
# stronger
# here than there, so that "known to be safe" is not mistaken for the grey of "unknown".
_CORNERS = {
    "water": ("#f7e08a", "#84cc8c", "#3f9fbd", "#24609f", "#0a2a5e"),
    "harm": ("#ffe680", "#fdae4d", "#ef6a3a", "#bd2230", "#5c0a24"),
}
# Eight states without an order: Okabe and Ito's colours, which everybody can tell apart, without grey.
NOMINAL = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#000000")

# Those that agree with intuition: water is blue, fire and damage are warm, and "nothing wrong" is green.
_MEANT = {"water": ("#0072b2", "#56b4e9"), "harm": ("#d55e00", "#e69f00", "#cc79a7"), "safe": ("#009e73",)}


@cache
def scale(name: str) -> Colormap:
    """The colours of a theme, 0 to 1: `water`, `harm` or `plain`, each with the suffix `-reversed` for the opposite
    direction."""
    if name.endswith("-reversed"):
        return scale(name.removesuffix("-reversed")).reversed()
    if name == "plain":
        return PROBABILITY
    corners = _to_oklab(np.array([to_rgb(corner) for corner in _CORNERS[name]]))
    at = np.linspace(0.0, 1.0, len(corners))
    fine = np.linspace(0.0, 1.0, 4001)
    path = np.column_stack([np.interp(fine, at, corners[:, part]) for part in range(3)])
    # Equal steps along the path, not between corners: that is what makes the scale uniform.
    walked = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(path, axis=0), axis=1))])
    even = np.linspace(0.0, walked[-1], 256)
    lab = np.column_stack([np.interp(even, walked, path[:, part]) for part in range(3)])
    return ListedColormap(np.clip(_from_oklab(lab), 0.0, 1.0), name=name)


def scale_of(heatmap: Heatmap, state: Any = None) -> Colormap:
    """The scale for the probability of a state of this map, by default the one in question."""
    shown = heatmap.positive if state is None else matching(heatmap.states, state)
    name = scale_name(heatmap.states, heatmap.positive, shown)
    if "theme" in heatmap.metadata:
        name = name.replace(theme(heatmap.positive), str(heatmap.metadata["theme"]), 1)
    return scale(name)


def state_colours(states: Sequence[Any], positive: Any = None) -> NDArray[np.float64]:
    """One colour per state, in the order of `states`.   [J, 3]

    Steps of one scale (none, minor, major) take steps of the scale of what they are about; others have colours that
    do not pretend to an order.
    """
    count = len(states)
    if graded(states) and count <= 12:
        worst_first = display_order(states, states[-1] if positive is None else positive)
        steps = scale(_theme_of(states, positive))(np.linspace(1.0, 0.0, count))[:, :3]
        if theme(positive) == "plain":
            steps = colormaps["viridis"](np.linspace(1.0, 0.0, count))[
                :, :3
            ]  # the middle of cividis looks like "unknown"
        place = {state: number for number, state in enumerate(worst_first)}
        return np.array([steps[place[state]] for state in states])
    if count <= len(NOMINAL):
        return np.array([to_rgb(shade) for shade in _by_meaning(states, positive)])
    return np.asarray(colormaps["turbo"](np.linspace(0.05, 0.95, count))[:, :3])


def _by_meaning(states: Sequence[Any], positive: Any) -> list[str]:
    """A colour of its own for every state; the one in question chooses first, then those whose words have a colour."""
    free, given = list(NOMINAL), {}
    order = states if positive is None else display_order(states, positive)
    for state in sorted(order, key=lambda state: (state != positive, not _meant(state, states))):
        shade = next((shade for shade in (*_meant(state, states), *free) if shade in free), free[0])
        free.remove(shade)
        given[state] = shade
    return [given[state] for state in states]


def _meant(state: Any, states: Sequence[Any]) -> tuple[str, ...]:
    if meaning(state, states) == Meaning.NOTHING_WRONG:
        return _MEANT["safe"]
    return _MEANT.get(theme(state), ())


def _theme_of(states: Sequence[Any], positive: Any) -> str:
    return theme(states[-1] if positive is None else positive)


def state_index(heatmap: Heatmap, state: Any) -> int:
    """The column of a state, by default of the one in question."""
    return heatmap.states.index(heatmap.positive if state is None else matching(heatmap.states, state))


def state_title(heatmap: Heatmap, column: int) -> str:
    """The name of a state in a title; of a grade that is a number, "grade 4"."""
    name = str(heatmap.states[column])
    return f"grade {name}" if heatmap.grades is not None and name.isnumeric() else name


def knowledge(heatmap: Heatmap) -> NDArray[np.float64]:
    """How much is known in each cell: 0 as if nobody had reported, 1 certain; NaN outside the mask."""
    prior = np.array([ignorance(heatmap, state) for state in heatmap.states])
    return np.clip(1.0 - doubt(heatmap.sd, prior, ordered=heatmap.grades is not None), 0.0, 1.0)


def ignorance(heatmap: Heatmap, state: Any = None) -> float:
    """The standard deviation where nobody reported: the map's own value, else that of a uniform distribution."""
    prior = heatmap.metadata.get("prior_sd")
    if prior is None:
        return float(NO_IDEA)
    return max(float(np.ravel(prior)[state_index(heatmap, state)]), 1e-9)


def unknown(heatmap: Heatmap) -> NDArray[np.bool_]:
    """True in unknown cells, which are hatched grey in every picture.   [rows, columns]"""
    with np.errstate(invalid="ignore"):
        return np.asarray(heatmap.mask & (knowledge(heatmap) < 1.0 - UNKNOWN_SHARE))


def colours(heatmap: Heatmap, state: Any = None) -> NDArray[np.float64]:
    """The map as RGBA in 0 to 1, transparent outside the mask; pages, tiles and files share it.   [rows, columns, 4]"""
    j = state_index(heatmap, state)
    out = np.ones((*heatmap.grid.shape, 4))
    out[..., :3] = suppressed(heatmap.probability[..., j], knowledge(heatmap), scale_of(heatmap, state))
    out[~heatmap.mask] = 0.0
    return out


def suppressed(
    probability: NDArray[np.float64], known: NDArray[np.float64], shades: Colormap = PROBABILITY
) -> NDArray[np.float64]:
    """Value-suppressing palette: the colour of the probability, mixed into grey as less is known.   [.., 3]"""
    share = known_share(known)[..., None]
    return np.asarray(share * shades(np.nan_to_num(probability))[..., :3] + (1.0 - share) * np.asarray(UNKNOWN))


def known_share(known: NDArray[np.float64]) -> NDArray[np.float64]:
    """How much of its colour a place keeps: none where nobody knows, all from `FULL_COLOUR` on."""
    grey = 1.0 - UNKNOWN_SHARE
    return np.clip(np.nan_to_num((known - grey) / (FULL_COLOUR - grey)), 0.0, 1.0)


def state_picture(heatmap: Heatmap) -> NDArray[np.float64]:
    """The most probable state of every cell in its colour, greyer the less certain; RGBA.   [rows, columns, 4]"""
    best = np.nan_to_num(heatmap.most_probable).astype(int)
    # Certainty from 0, all states equally probable, to 1: one of them sure. What nobody knows is grey here too.
    even = 1.0 / len(heatmap.states)
    certain = np.nan_to_num(np.max(heatmap.probability, axis=-1) - even) / (1.0 - even)
    share = (np.clip(certain / FULL_COLOUR, 0.0, 1.0) * known_share(knowledge(heatmap)))[..., None]
    picture = np.ones((*heatmap.grid.shape, 4))
    shades = state_colours(heatmap.states, heatmap.positive)
    picture[..., :3] = share * shades[best] + (1 - share) * np.asarray(UNKNOWN)
    picture[~heatmap.mask] = 0.0
    return picture


def grade_picture(heatmap: Heatmap) -> NDArray[np.float64]:
    """The expected grade of every cell, from the least to the worst, mixed into grey as less is known; RGBA."""
    mean, _ = heatmap.expected_grade()
    picture = np.ones((*heatmap.grid.shape, 4))
    share = mean / (len(heatmap.states) - 1)
    picture[..., :3] = suppressed(share, knowledge(heatmap), scale(theme(heatmap.positive)))
    picture[~heatmap.mask] = 0.0
    return picture


# OKLab (Ottosson 2020): a space in which distances are those that people see.
_TO_LMS = np.array(
    [[0.4122214708, 0.5363325363, 0.0514459929], [0.2119034982, 0.6806995451, 0.1073969566],
     [0.0883024619, 0.2817188376, 0.6299787005]]
)  # fmt: skip
_TO_LAB = np.array(
    [[0.2104542553, 0.7936177850, -0.0040720468], [1.9779984951, -2.4285922050, 0.4505937099],
     [0.0259040371, 0.7827717662, -0.8086757660]]
)  # fmt: skip


def _to_oklab(rgb: NDArray[np.float64]) -> NDArray[np.float64]:
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    return np.asarray(np.cbrt(linear @ _TO_LMS.T) @ _TO_LAB.T)


def _from_oklab(lab: NDArray[np.float64]) -> NDArray[np.float64]:
    linear = (np.linalg.solve(_TO_LAB, lab.T) ** 3).T @ np.linalg.inv(_TO_LMS).T
    linear = np.clip(linear, 0.0, None)
    return np.asarray(np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055))
