"""How large an installation is: the core and what each extra adds, in megabytes of files.

python -m benchmarks.sizes
"""

import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]


def needed(wanted: list[str]) -> dict[str, int]:
    """{package: bytes} of these requirements and of all that they need, as far as they are installed here."""
    found: dict[str, int] = {}
    waiting = [Requirement(text) for text in wanted]
    while waiting:
        requirement = waiting.pop()
        if requirement.name == "crowdfield":
            waiting += [Requirement(t) for extra in requirement.extras for t in PROJECT["optional-dependencies"][extra]]
            continue
        name = canonicalize_name(requirement.name)
        if name in found:
            continue
        try:
            package = distribution(name)
        except PackageNotFoundError:
            continue
        files = [Path(str(file.locate())) for file in package.files or []]
        found[name] = sum(path.stat().st_size for path in files if path.is_file() and path.suffix != ".pyc")
        for text in package.requires or []:
            inner = Requirement(text)
            extras = ("", *requirement.extras)
            if inner.marker is None or any(inner.marker.evaluate({"extra": extra}) for extra in extras):
                waiting.append(inner)
    return found


def line(name: str, sizes: dict[str, int]) -> str:
    largest = sorted(sizes.items(), key=lambda item: -item[1])[:10]
    return f"{name:10} {sum(sizes.values()) / 1e6:6.0f} MB  " + ", ".join(f"{n} {s / 1e6:.0f}" for n, s in largest)


if __name__ == "__main__":
    core = needed(PROJECT["dependencies"])
    print(line("core", core))
    for extra, wanted in PROJECT["optional-dependencies"].items():
        more = {name: size for name, size in needed(wanted).items() if name not in core}
        print(line(f"+ {extra}", more))
