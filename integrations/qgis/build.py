"""Make the zip that QGIS installs (Plugins > Manage and Install > Install from ZIP):

python integrations/qgis/build.py crowdfield_qgis.zip
"""

import sys
import zipfile
from pathlib import Path

HERE = Path(__file__).parent
PLUGIN = HERE / "crowdfield_qgis"


def build(target: Path) -> Path:
    """The plugin's files under its own folder, with a fixed date: the same files give the same bytes."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in (*sorted(PLUGIN.glob("*.py")), PLUGIN / "metadata.txt", HERE.parent.parent / "LICENSE"):
            info = zipfile.ZipInfo(f"{PLUGIN.name}/{path.name}", (2026, 1, 1, 0, 0, 0))
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, path.read_bytes())
    return target


if __name__ == "__main__":
    print(build(Path(sys.argv[1] if len(sys.argv) > 1 else "crowdfield_qgis.zip")))
