"""What `mkdocs build` runs beside its plugins: entries of the navigation whose page is not there are left out."""

from pathlib import Path
from typing import Any


def on_config(config: Any) -> Any:
    """Keep the entries of `nav` whose file exists."""
    config.nav = pruned(config.nav, Path(config.docs_dir))
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
