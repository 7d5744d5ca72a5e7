"""Web map tiles of a map version: fixed colours, paler where the map is uncertain, hatched grey where it is unknown."""

import io
from functools import cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from crowdfield import geography
from crowdfield.service.maps import MapArrays
from crowdfield.service.schemas import Scale as Scale

Layer = Literal["probability", "uncertainty", "difference"]
# `reported`: of a probability where every report says the same, so that only how near reports are means anything.
LegendKind = Literal["probability", "uncertainty", "difference", "reported"]
SIZE = 256
# How much is known is 1 - sd / prior sd. Below the first value a place is drawn as unknown; from the second on, in full
# colours (as in `plot`).
UNKNOWN_BELOW, KNOWN_FROM = 0.15, 0.6
# Steps of a probability and of how much is known that colours tell apart: half a step is less than anybody sees, and
# pictures take about half as much as with all colours (49 to 26 kB for a tile full of gradients).
STEPS, KNOWN_STEPS = 64, 32
# Of PNG: higher levels take many times as long and hardly save anything.
COMPRESSION = 6
# The standard deviation of a uniform distribution from 0 to 1: the prior sd of maps that do not give theirs.
NO_IDEA = 1.0 / np.sqrt(12.0)
# Changes smaller than this are drawn paler: maps always change a little when they are fitted again.
CHANGE = 0.1

Pixels = NDArray[np.uint8]


@cache
def palette(name: str) -> NDArray[np.float32]:
    """The colours of `plot`, as a table of 256: uncertainty, difference, unknown, or a scale by its name.   [256, 3]"""
    # Imported here: Matplotlib takes a while to load, and a server should take reports at once.
    from matplotlib import colormaps

    from crowdfield import plot

    if name == "unknown":
        return np.asarray(plot.UNKNOWN, dtype=np.float32)
    maps = {"uncertainty": plot.UNCERTAINTY, "difference": colormaps["PuOr_r"]}
    return np.asarray(
        (maps[name] if name in maps else plot.scale(name))(np.linspace(0, 1, 256))[:, :3], dtype=np.float32
    )


def empty() -> bytes:
    """A transparent tile."""
    return _png(np.zeros((SIZE, SIZE, 4), dtype=np.uint8))


def render(
    layer: Layer,
    z: int,
    x: int,
    y: int,
    now: MapArrays,
    state: int,
    before: MapArrays | None = None,
    scale: Scale | None = None,
) -> bytes:
    """A PNG of 256 × 256 pixels; transparent outside the region. `scale`: the colours of a probability."""
    where = cells(now, z, x, y)
    if where is None:
        return empty()
    row, column, drawn = where
    p, sd = (_sample(a[..., state], row, column) for a in (now.probability, now.sd))
    drawn = drawn & np.isfinite(p)
    p, sd = np.nan_to_num(p), np.nan_to_num(sd)
    if layer == "uncertainty":
        rgb, alpha = palette("uncertainty")[_index(sd / prior_sd(now, state))], np.full(p.shape, 0.8, dtype=np.float32)
    elif layer == "difference":
        earlier = (
            np.zeros_like(p) + 0.5
            if before is None
            else np.nan_to_num(_sample(before.probability[..., state], row, column))
        )
        change = p - earlier
        rgb, alpha = palette("difference")[_index((change + 1) / 2)], 0.85 * np.clip(np.abs(change) / CHANGE, 0.0, 1.0)
    else:
        rgb, alpha = faded(p, 1.0 - sd / prior_sd(now, state), scale or now.situation.scales[state])
    pixels = np.empty((SIZE, SIZE, 4), dtype=np.uint8)
    pixels[..., :3] = rgb * 255.0 + 0.5
    pixels[..., 3] = np.where(drawn, alpha, 0.0) * 255.0
    return _png(pixels)


def faded(
    p: NDArray[np.float32], known: NDArray[np.float32], scale: str = "plain"
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Colour and opacity of a probability of which `known` (0 to 1) is known, on a scale of `plot`."""
    share = _stepped(np.clip((known - UNKNOWN_BELOW) / (KNOWN_FROM - UNKNOWN_BELOW), 0.0, 1.0), KNOWN_STEPS)[..., None]
    rgb = share * palette(scale)[_index(_stepped(p, STEPS))] + (1 - share) * palette("unknown")
    # Diagonal lines; 8 divides the size of a tile, so they continue in the next tile.
    line = (np.add.outer(np.arange(p.shape[0]), np.arange(p.shape[1])) % 8) < 1
    hatched = line & (known < UNKNOWN_BELOW)
    rgb = np.where(hatched[..., None], np.float32(0.62), rgb)
    alpha = 0.55 + 0.3 * share[..., 0]
    return rgb, alpha


def _stepped(share: NDArray[np.float32], steps: int) -> NDArray[np.float32]:
    """Rounded to equal steps of 0 to 1."""
    return np.asarray(np.round(share * steps) / np.float32(steps), dtype=np.float32)


def legend(layer: LegendKind, scale: str = "plain", width: int = 192, height: int = 72) -> bytes:
    """The colours of a layer: its value from left to right; for a probability, also how much is known, upwards. For
    `reported`, how much is known from left to right."""
    across = np.broadcast_to(np.linspace(0, 1, width, dtype=np.float32), (height, width))
    if layer == "probability":
        upwards = np.broadcast_to(np.linspace(KNOWN_FROM, 0, height, dtype=np.float32)[:, None], (height, width))
        rgb, _ = faded(across, upwards, scale)
        alpha = np.ones_like(across)
    elif layer == "reported":
        rgb, _ = faded(np.ones_like(across), KNOWN_FROM * across, scale)
        alpha = np.ones_like(across)
    elif layer == "uncertainty":
        rgb, alpha = palette("uncertainty")[_index(across)], np.ones_like(across)
    else:
        rgb, alpha = palette("difference")[_index(across)], np.clip(np.abs(2 * across - 1) / CHANGE, 0.0, 1.0)
    return _png(np.dstack([rgb * 255 + 0.5, alpha * 255]).astype(np.uint8))


def prior_sd(now: MapArrays, state: int) -> float:
    """The standard deviation at a place without reports, with which others are compared."""
    stored = now.info.info.get("prior_sd")
    value = stored[state] if isinstance(stored, list) else stored
    return float(value) if value else float(NO_IDEA)


def cells(
    now: MapArrays, z: int, x: int, y: int
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_]] | None:
    """The fractional row and column of the map at every pixel, and which pixels are on the map; None if none is."""
    step = 4 if z < 7 else 16
    lattice = np.arange(0, SIZE + 1, step)
    pixel = np.arange(SIZE, dtype=np.float64) + 0.5
    scale = SIZE * 2.0**z
    west, south, east, north = now.situation.region
    longitude = (x * SIZE + pixel) / scale * 360.0 - 180.0
    latitude = _latitude((y * SIZE + pixel) / scale)
    across = (longitude >= west) & (longitude <= east) if west <= east else (longitude >= west) | (longitude <= east)
    along = (latitude >= south) & (latitude <= north)
    if not across.any() or not along.any():
        return None
    # Project only a lattice of pixels and interpolate linearly: projections are smooth, so the error is a small
    # fraction of a pixel, and it takes a sixteenth of the time.
    corner = np.stack(
        np.meshgrid((x * SIZE + lattice) / scale * 360.0 - 180.0, _latitude((y * SIZE + lattice) / scale)), axis=-1
    )
    metres = geography.transform_visible(corner.reshape(-1, 2), geography.WGS84, now.situation.crs)
    metres = metres.reshape(*corner.shape)
    grid = now.grid
    column = (metres[..., 0] - grid.west) / grid.cell_width - 0.5
    row = (grid.north - metres[..., 1]) / grid.cell_height - 0.5
    row, column = _between(row, step), _between(column, step)
    on = across[None, :] & along[:, None]
    on &= (row >= -0.5) & (row <= grid.rows - 0.5) & (column >= -0.5) & (column <= grid.columns - 0.5)
    return (row, column, on) if on.any() else None


def _latitude(north: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.degrees(np.arctan(np.sinh(np.pi * (1 - 2 * north))))


def _between(lattice: NDArray[np.float64], step: int) -> NDArray[np.float64]:
    """Values at all pixel centres, interpolated linearly from those at every `step`-th pixel corner."""
    at = (np.arange(SIZE) + 0.5) / step
    low = np.minimum(at.astype(int), lattice.shape[0] - 2)
    share = at - low
    rows = lattice[low] * (1 - share)[:, None] + lattice[low + 1] * share[:, None]
    return np.asarray(rows[:, low] * (1 - share) + rows[:, low + 1] * share)


def _sample(values: NDArray[np.float32], row: NDArray[np.float64], column: NDArray[np.float64]) -> NDArray[np.float32]:
    """Values interpolated linearly between the centres of cells; beyond the outermost centres, the value there."""
    r = np.clip(np.nan_to_num(row), 0, values.shape[0] - 1)
    c = np.clip(np.nan_to_num(column), 0, values.shape[1] - 1)
    top, left = r.astype(np.intp), c.astype(np.intp)
    below, right = np.minimum(top + 1, values.shape[0] - 1), np.minimum(left + 1, values.shape[1] - 1)
    v, h = (r - top).astype(np.float32), (c - left).astype(np.float32)
    upper = values[top, left] * (1 - h) + values[top, right] * h
    lower = values[below, left] * (1 - h) + values[below, right] * h
    return np.asarray(upper * (1 - v) + lower * v)


def _index(share: NDArray[np.floating]) -> NDArray[np.intp]:
    return np.asarray(np.clip(share * 255.0 + 0.5, 0, 255), dtype=np.intp)


def _png(pixels: Pixels) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(pixels, "RGBA").save(buffer, "PNG", compress_level=COMPRESSION)
    return buffer.getvalue()
