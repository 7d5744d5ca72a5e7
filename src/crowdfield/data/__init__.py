"""The frozen types that pass between the layers: reports, grids and maps."""

from crowdfield.data.grid import Grid
from crowdfield.data.heatmap import Heatmap
from crowdfield.data.raster import Raster
from crowdfield.data.region import Region
from crowdfield.data.reports import Reports
from crowdfield.data.sites import Sites

__all__ = ["Grid", "Heatmap", "Raster", "Region", "Reports", "Sites"]
