"""A plain CSV: five columns, no options.

`reports.csv` beside this file holds 600 reports by 20 people of whom half only guess (made by `crowdfield simulate
reports.csv -n 600 --lengthscale 3km --cell 250m --seed 4`). Reading, projecting, gridding and fusing are one call each.
"""

from pathlib import Path

from crowdfield import io, pipeline, plot

HERE = Path(__file__).parent


def main(output: Path = HERE) -> pipeline.Fused:
    read = io.read(HERE / "reports.csv")
    print(read.statement)
    fused = pipeline.fuse(read.reports, cell="250m", lengthscale="3km", seed=0)
    figure = plot.heatmap(fused.heatmap, reports=fused.reports, title="Flooded, from 600 reports, half of them guesses")
    figure.savefig(output / "plain_csv.png")
    return fused


if __name__ == "__main__":
    main()
