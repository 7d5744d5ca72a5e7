"""From degrees to metres and back: lengths, regions, a projection that suits the data, a grid, a mask.

Inside, maps are made in metres; people give places as (longitude, latitude) in degrees, WGS 84. A region is
(west, south, east, north), as in GeoJSON; west > east means that it crosses the antimeridian.

The names in `__all__` are the public ones; the others are for other modules of the package.
"""

from crowdfield.data.region import Region, parse_region
from crowdfield.geography.grids import cover as cover
from crowdfield.geography.grids import covered as covered
from crowdfield.geography.grids import degrees_around as degrees_around
from crowdfield.geography.grids import make_grid, mask
from crowdfield.geography.lengths import parse_length
from crowdfield.geography.projection import WGS84, check_crs, choose_crs, project, transform, transformer, unproject
from crowdfield.geography.projection import transform_visible as transform_visible
from crowdfield.geography.regions import WIDEST as WIDEST
from crowdfield.geography.regions import bounds, centre, main_bounds, span, within, wrap
from crowdfield.geography.regions import held as held
from crowdfield.geography.regions import map_bounds as map_bounds

__all__ = [
    "WGS84",
    "Region",
    "bounds",
    "centre",
    "check_crs",
    "choose_crs",
    "main_bounds",
    "make_grid",
    "mask",
    "parse_length",
    "parse_region",
    "project",
    "span",
    "transform",
    "transformer",
    "unproject",
    "within",
    "wrap",
]
