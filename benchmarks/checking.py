"""Does the check of a model find a model that is wrong? MapSwipe's survey of Les Cayes under both models.

python -m benchmarks.checking

The data are public and not ours to ship: name their folder with CROWDFIELD_DATA (docs/experiments.md).
"""

import crowdfield as cf
from crowdfield.experiments import crowds


def main() -> None:
    crowd = crowds.cayes()
    for name in ("instrument", "one_state"):
        model = cf.HeatmapBCC(
            lengthscale="learn", states=list(crowd.states), labels=list(crowd.labels), reports_model=name
        )
        check = cf.check_model(model.fit(crowd.X, crowd.label, crowd.source), psis=False)
        print(f"{name}: {'holds' if check.holds else 'FAILS'}")
        print("\n".join(f"  {line}" for line in check.lines()))


if __name__ == "__main__":
    main()
