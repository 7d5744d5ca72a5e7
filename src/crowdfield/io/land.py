"""Where land is: roughly, to detect swapped coordinates, and by the outlines of countries if they are installed.

Without the outlines (`crowdfield.outlines`) only `near_land` and `looks_swapped` work.
"""

from __future__ import annotations

import base64
import zlib
from functools import lru_cache
from typing import Any

import numpy as np
import shapely
from numpy.typing import ArrayLike, NDArray

from crowdfield.data import Grid, Region
from crowdfield.geography import bounds, unproject
from crowdfield.landmarks import lakes_near
from crowdfield.outlines import OUTLINES, countries

# Which cells of 2° hold land, from 90° S and 180° W on, row by row, one bit each: made from the outlines. South of
# 60° S there is nobody to report, so that counts as sea.
_CELL = 2.0
_CELLS = (
    "c-rk$J!lkB5T3maw+A`dvr8d&>rW$yxy~!ZJ+QP%nZn{gA(kl<5Z|V<GmW5yVmfWDQu;JXI+IdRWCLO>)LV%rm+)@KnR)M>7f2J("
    "&M9`^&VKKknQ!JjfdBT7EIZOWb%gH@bRZagO}KabFtm%x*b`u1AKL4_V(+b6j)wg*_O;}G&UX)ktwk<kIqnRz%Z@qsq-+a8ZWqdP"
    ")EJY+j*0>{eD$G$!h!j1cLtkEJGvXl5~ZS3t3QgK4nX!Y81WO>oI~V*N;pz1Cs?PTTTK}kl@@{WcaxXAQa`i>6SQ+nmgI==iUsSL"
    "m3C8>hEm2~p9L{&Ub`CDeZ<kid*_%5m(JpmcAy{IJacHYu+O>1-=Q}vIkyn$iAdEaL8+_B{Unpn<cM)MA@}09Jw4T)l6Wi!8m3S?"
    "<<EwUM1(k~5LmDDAe~kp!%j^EWpIF|UWJI(kcfy8%f*RzIU_8pqFr5ayh%b;IHT*;n@k+sMH4X5020cm+o(a?GTRh&1(YcQ$fQ}P"
    "2?iySlxL#%U$gUxoo;2MNX#p}NAc_WTIR~mn1KRboP2I(^$a^3;c_8)V-f1r2O3Ve30=%MZ!C2)9xV7FS1WC(GI$W?xRE6lsU+Q>"
    "2AE^!JdMiviakzGOP&e_m!ZKmNG2enL=5+jnX#ZhZ2|{9qIhGhe26VBhm2t+wpCl(uO%|Ys0-<zwX&z>AWY*2?y`69*o;YVo|-xD"
    "Zd)xV5|64HZi#o>9tiHLOx}7b%xJ+VBhXc);~4lUqD3b<K<u-3OS^d7R!}b-_>>3ZI|;BV-eKXvOda{``r3oh{S|xb&XG{3qr%&)"
    "k*vn*raUg?mLiwgux6TZ_(dp4=y=_`UzV`0NsMidcU$=aTP~W)ry$%IQ4a$N9vN!ng+GVQxZv7^uVOr&<?hlu*1p1ulgSB!pkN79"
    "=A_G?aLXGI6?BLq<2xvo)1?__X$hB~iF?nc9iTo5OE|hrMLf*H-Q}{Hj@`$uTYuGl1MQBqZv"
)
# Coordinates are thought to be swapped where nearly all are at sea as they are, and nearly all on land the other way.
NEARLY_ALL = 0.95


@lru_cache(maxsize=1)
def _coarse() -> NDArray[np.bool_]:
    packed = np.frombuffer(zlib.decompress(base64.b85decode(_CELLS)), dtype=np.uint8)
    return np.unpackbits(packed)[: 90 * 180].reshape(90, 180).astype(bool)


def near_land(longitude: ArrayLike, latitude: ArrayLike) -> NDArray[np.bool_]:
    """Which places are in a cell of 2° that contains land where people live; False for impossible coordinates."""
    lon, lat = np.asarray(longitude, dtype=np.float64), np.asarray(latitude, dtype=np.float64)
    valid = (np.abs(lon) <= 180) & (np.abs(lat) <= 90)
    column = np.clip((np.where(valid, lon, 0.0) + 180.0) // _CELL, 0, 179).astype(np.int64)
    row = np.clip((np.where(valid, lat, 0.0) + 90.0) // _CELL, 0, 89).astype(np.int64)
    return np.asarray(valid & _coarse()[row, column])


def looks_swapped(places: NDArray[np.float64], most: int = 10_000) -> bool:
    """Whether (longitude, latitude) places are probably (latitude, longitude)."""
    some = places[:: max(1, len(places) // most)]
    as_read, swapped = near_land(some[:, 0], some[:, 1]), near_land(some[:, 1], some[:, 0])
    return bool(as_read.mean() <= 1 - NEARLY_ALL and swapped.mean() >= NEARLY_ALL)


def on_land(grid: Grid) -> NDArray[np.bool_] | None:
    """Which cells of a grid have their centre on land, neither at sea nor in a lake: [rows, columns]; None without
    outlines."""
    if grid.crs is None or not OUTLINES.is_file():
        return None
    centres = unproject(grid.centres(), grid.crs)
    return (_on_land(centres) & ~_in_lake(centres)).reshape(grid.shape)


def at_sea(longitude: float, latitude: float) -> bool | None:
    """Whether a place is at sea; None without outlines."""
    if not OUTLINES.is_file():
        return None
    return not _on_land(np.array([[longitude, latitude]])).item()


def _on_land(places: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which of these places, longitude and latitude [M, 2], are on land by the outlines."""
    west, south, east, north = bounds(places)
    shapes, (x0, y0, x1, y1) = countries()
    across = (x1 >= west) & (x0 <= east) if west <= east else (x1 >= west) | (x0 <= east)
    # Coordinates were rounded for the file, so some outlines touch themselves: repair those first.
    near = shapely.make_valid(shapes[across & (y0 <= north) & (y1 >= south)])
    return _in_any(near, places)


def _in_lake(places: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which of these places, longitude and latitude [M, 2], are in a lake; none where the lakes are not installed."""
    west, south, east, north = bounds(places)
    spans = [(west, east)] if west <= east else [(west, 180.0), (-180.0, east)]
    return _in_any(np.concatenate([lakes_near(Region(left, south, right, north)) for left, right in spans]), places)


def _in_any(shapes: NDArray[Any], places: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which of these places, longitude and latitude [M, 2], are in one of the polygons."""
    inside = np.zeros(len(places), dtype=bool)
    for shape in shapes:
        shapely.prepare(shape)
        inside |= shapely.contains_xy(shape, places[:, 0], places[:, 1])
    return inside
