"""What others measured: the authors' research code, made to run again, on the paper's settings.

Figures are means over the authors' own draws of the data (five synthetic data sets, three of Tacloban), so they are to
be compared with ours in size, not to the last digit. Cross entropy and NLPD in bits. "shipped" is their code as it is,
"soft" the same with responsibilities kept soft, as the paper writes it.
"""

SHIPPED, SOFT, EXACT = "HeatmapBCC (shipped)", "HeatmapBCC (soft)", "exact posterior"

# {(experiment, setting): {method: {n: {metric: value}}}}
AUTHORS: dict[tuple[str, str], dict[str, dict[int, dict[str, float]]]] = {}


def _add(experiment: str, setting: str, metrics: tuple[str, ...], text: str) -> None:
    """Read a table: a line of methods, then a line a size; a cell is its metrics with slashes between."""
    lines = [line.split() for line in text.strip().splitlines()]
    methods = [name.replace("_", " ") for name in lines[0]]
    table = AUTHORS.setdefault((experiment, setting), {})
    for size, *cells in lines[1:]:
        for method, cell in zip(methods, cells, strict=True):
            values = {} if cell == "–" else dict(zip(metrics, map(float, cell.split("/")), strict=False))
            if values:
                table.setdefault(method, {})[int(size)] = values


_add(
    "synthetic",
    "50 % noisy",
    ("auc", "cross_entropy", "nlpd"),
    """
    KDE IBCC GP IBCC+GP HeatmapBCC_(shipped) HeatmapBCC_(soft) exact_posterior
    100 .538/1.019 .522/1.995 .545/.996/.58 .555/1.004/.96 .567/.987/.77 .576/.978/.62 .580/.987/-.30
    400 .609/.972 .587/1.086 .610/.953/1.49 .616/.954/1.54 .656/.936/2.00 .662/.901/.09 .659/.904/-.77
    1000 .630/.965 .698/.814 .629/.937/3.15 .640/.932/2.05 .733/.840/3.91 .750/.778/-.74 .751/.779/-1.35
    2400 .661/.955 .859/.604 .659/.924/5.85 .666/.903/.98 .873/.637/5.55 .881/.574/-1.32 .881/.569/-1.84
    """,
)
_add(
    "tacloban",
    "structural damage",
    ("auc", "cross_entropy"),
    """
    KDE SVM NN IBCC GP IBCC+GP HeatmapBCC_(shipped) HeatmapBCC_(soft)
    178 .848/.865 .769/.929 .762/1.165 .568/.976 .903/.779 .903/.890 .898/.778 .858/.749
    700 .894/.802 .818/.882 .784/1.342 .719/.908 .935/.727 .942/.854 .940/.701 .935/.596
    1785 .954/.747 .880/.797 .838/1.046 .890/.684 .969/.648 .971/.755 .972/.565 .970/.517
    """,
)
_add(
    "haiti",
    "675 reports",
    ("cross_entropy",),
    """
    HeatmapBCC_(shipped) IBCC GP IBCC+GP KDE
    169 .206 .860 .248 .300 .909
    439 .123 .329 .177 .235 .660
    675 .098 .066 .151 .213 .347
    """,
)
