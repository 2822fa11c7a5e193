"""Write constraints.txt: the installed version of everything that winze[dev] needs, and of nothing else."""

from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

HEADER = """\
# The versions that winze is developed and tested with, read from .venv.
# To refresh: upgrade what you want in .venv with pip, run `make test`, then `make lock`.
"""


def closure(root: Requirement) -> dict[str, str]:
    """Name and version of every package that `root` pulls in on this machine, `root` itself left out."""
    versions: dict[str, str] = {}
    seen: set[tuple[str, str]] = set()
    waiting = [root]
    while waiting:
        asked = waiting.pop()
        found = distribution(asked.name)
        versions[canonicalize_name(asked.name)] = found.version
        # the empty extra stands for what a package needs in any case
        for extra in {"", *asked.extras}:
            key = (canonicalize_name(asked.name), extra)
            if key in seen:
                continue
            seen.add(key)
            needs = [Requirement(line) for line in found.requires or []]
            waiting += [need for need in needs if need.marker is None or need.marker.evaluate({"extra": extra})]
    del versions[canonicalize_name(root.name)]
    return versions


if __name__ == "__main__":
    pins = sorted(f"{name}=={version}\n" for name, version in closure(Requirement("winze[dev]")).items())
    Path(__file__).parents[1].joinpath("constraints.txt").write_text(HEADER + "".join(pins))
