"""What `mkdocs build` runs beside its plugins: the navigation follows the pages that are there."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any


def on_config(config: Any) -> Any:
    """Leave out entries of `nav` whose page is not there, and add pages that it does not name."""
    folder = Path(config.docs_dir)
    kept = pruned(config.nav, folder)
    config.nav = kept + unnamed(kept, folder)
    return config


def pruned(entries: list[Any], folder: Path) -> list[Any]:
    """The navigation without pages that are not there, and without sections that are then empty.

    >>> pruned([{"Start": "none.md"}, {"Guides": [{"One": "none.md"}]}], Path("."))
    []
    """
    kept = []
    for entry in entries:
        ((title, target),) = entry.items()
        found = pruned(target, folder) if isinstance(target, list) else target if (folder / target).is_file() else None
        if found:
            kept.append({title: found})
    return kept


def unnamed(entries: list[Any], folder: Path) -> list[Any]:
    """A section for the pages that no entry names, each under its first heading; nothing where there are none."""
    known = set(_targets(entries))
    rest = [page for page in sorted(folder.rglob("*.md")) if page.relative_to(folder).as_posix() not in known]
    pages = [{page.read_text().split("\n", 1)[0].lstrip("# "): page.relative_to(folder).as_posix()} for page in rest]
    return [{"More": pages}] if pages else []


def _targets(entries: list[Any]) -> Iterator[str]:
    for entry in entries:
        for target in entry.values():
            yield from _targets(target) if isinstance(target, list) else [target]
