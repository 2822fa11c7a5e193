"""A table as Markdown, and the line below it."""

from collections.abc import Iterable
from typing import Any


def table(head: Iterable[str], rows: Iterable[Iterable[object]], below: str = "") -> str:
    """A Markdown table, and a line below it that says where the numbers come from."""
    head = list(head)
    # a bar or a line break inside a cell would end it
    cells = [[" ".join(str(cell).split()).replace("|", "\\|") for cell in row] for row in rows]
    lines = [head, ["---"] * len(head), *cells]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines) + (f"\n{below}\n" if below else "")


def origin(result: dict[str, Any]) -> str:
    """The machine and the versions behind a results file, as one line."""
    parts = []
    machines = [result.get("machine")]
    if isinstance(machines[0], dict) and all(isinstance(value, dict) for value in machines[0].values()):
        machines = list(machines[0].values())
    for entry in (*machines, result.get("versions")):
        if isinstance(entry, dict):
            parts.append(", ".join(f"{key} {value}" for key, value in entry.items()))
        elif entry:
            parts.append(str(entry))
    return "; ".join(parts)
