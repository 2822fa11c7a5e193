"""Write the pages in docs/results, and the tables of README.md and docs/*.md, from the files in results/.

A table stands between `<!-- table:NAME -->` and `<!-- /table -->`. The first part of the NAME of a benchmark's table is
the stem of its results file; where that is not there, the table is left as it is. The modules `table_*.py` make the
tables, one topic each.
"""

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parent))  # where the topics are, whoever loads this file

import all_runs
import table_erosion
import table_help
import table_measures
import table_reach
import table_results
import table_speed
import table_trained

ROOT = Path(__file__).parents[2]
OPENING = re.compile(r"<!-- table:[\w.-]+ -->")
BLOCK = re.compile(r"(<!-- table:([\w.-]+) -->\n)((?:(?!<!-- table:).)*?)(<!-- /table -->)", re.DOTALL)
FROM_FOLDER: dict[str, Callable[[Path], str]] = {
    "headlines": table_results.headlines,
    "help": table_help.helps,
    "measures": table_measures.measures,
    "trained": table_trained.trained,
    "erosion": table_erosion.erosion,
    "moved": all_runs.moved,
}
"""Tables made of the runs that are kept in results/, or of the package itself."""
TABLES: dict[str, Callable[[dict[str, Any]], str]] = {
    "reach": table_reach.reach,
    "reach.sources": table_reach.reach_sources,
    "junctions": table_speed.junctions,
    "scan": table_speed.scan,
    "scan_networks": table_speed.scan_networks,
    "train": table_speed.train,
    "residual_droppath": table_speed.step_costs,
    "spiral": table_speed.spiral,
    "generative": table_speed.generative,
    "cut": table_speed.cut,
    "meta": table_speed.meta,
}
"""Tables made of the file of one benchmark."""


def refresh(text: str, results: Path) -> str:
    """The page with its tables as `results` has them."""

    def fill(block: re.Match[str]) -> str:
        opening, name, _, closing = block.groups()
        if name in FROM_FOLDER:
            return opening + FROM_FOLDER[name](results) + closing
        if name not in TABLES:
            raise ValueError(f"no table is called {name!r}; there are {', '.join([*TABLES, *FROM_FOLDER])}")
        source = results / f"{name.split('.')[0]}.json"
        if not source.exists():
            return block.group()
        return opening + TABLES[name](json.loads(source.read_text())) + closing

    if len(OPENING.findall(text)) != len(BLOCK.findall(text)):
        raise ValueError("a table is opened and not closed with <!-- /table -->")
    return BLOCK.sub(fill, text)


def pages(root: Path = ROOT) -> list[Path]:
    """The pages that may hold tables and code: README.md, docs/*.md and docs/reference/*.md."""
    found = (root / "README.md", *sorted(root.glob("docs/*.md")), *sorted(root.glob("docs/reference/*.md")))
    return [page for page in found if page.exists()]


if __name__ == "__main__":
    for path, text in table_results.pages(ROOT / "results").items():
        (ROOT / path).parent.mkdir(exist_ok=True)
        (ROOT / path).write_text(text)
    for page in pages():
        page.write_text(refresh(page.read_text(), ROOT / "results"))
