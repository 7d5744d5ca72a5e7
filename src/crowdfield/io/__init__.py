"""Files in and out: one module a format family.

reports = crowdfield.io.read("reports.csv")
crowdfield.io.write(heatmap, "flood.tif")
"""

from crowdfield.io.vector import write_looks
from crowdfield.io.write import FORMATS, check_format, read_map, write

__all__ = ["FORMATS", "check_format", "read_map", "write", "write_looks"]
