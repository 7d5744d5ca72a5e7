"""Points and shapes with properties: one module per kind of file, each with a function ``read(path, found)``.

None of them needs GDAL. Whatever a file holds, the outcome is `Features` or a `ReportFormatError` in our own words.
"""

from crowdfield.io.features.common import Features, read

__all__ = ["Features", "read"]
