"""Tacloban after Typhoon Haiyan: volunteers of the Planetary Response Network mark damaged houses on satellite
images.

738 people, most with a handful of labels each. The paper's protocol keeps a fifth of the "nothing here" answers;
1,785 labels are enough to rank the 572 cells whose state is known almost without a mistake. All volunteers share one
confusion matrix here, since few have enough labels for one of their own.

The data are fetched from the paper's repository, or read from the folder that CROWDFIELD_DATA names.
"""

from pathlib import Path

import numpy as np

from crowdfield import HeatmapBCC, datasets, metrics, pipeline, plot
from crowdfield.data import Grid

LABELS = 1_785
STATES = ("no damage", "damage")


def main(output: Path = Path(__file__).parent) -> float:
    found = datasets.tacloban()
    rng = np.random.default_rng(1)
    reports = found.reports
    keep = np.flatnonzero((reports.label == 1) | (rng.random(len(reports)) < 0.2))
    some = rng.permutation(keep)[:LABELS]
    # The cells' own numbering: columns from the west, rows from the south; no reference system is given with the data.
    grid = Grid(-0.5, found.shape[0] - 0.5, -0.5, found.shape[1] - 0.5, *found.shape)
    said = np.where(reports.label[some] == 1, *STATES[::-1])
    model = HeatmapBCC(lengthscale=10.0, scale_shape=0.5, scale_rate=5.0, states=STATES, random_state=0)
    model.fit(reports.places[some], said)
    heatmap = pipeline.make_map(model, grid, grid.counts(reports.places[some]))
    p = model.predict_proba(found.cells[found.confident])[:, 1]
    ranked = metrics.auc((found.gold[found.confident] > 0.5).astype(int), p)
    title = f"Tacloban, from {LABELS:,} labels; AUC {ranked:.3f} on {len(p)} cells"
    plot.heatmap(heatmap, title=title).savefig(output / "tacloban.png")
    return ranked


if __name__ == "__main__":
    print(f"AUC {main():.3f}")
