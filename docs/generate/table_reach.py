"""The tables of how far winze reaches: networks of other libraries, and what works in them."""

from typing import Any

from table_text import origin, table


def reach(result: dict[str, Any]) -> str:
    """One line per network: are its junctions found, and does every rule work there?"""
    head = [
        "network",
        "family",
        "source",
        "junctions",
        "expected",
        "bit-identical",
        "rules",
        "export",
        "scan",
        "cut",
        "seconds",
        "measured",
        "note",
    ]
    rows = [
        [
            f"`{row['network']}`",
            row["family"],
            row["source"],
            row["junctions"],
            "-" if row.get("expected") is None else row["expected"],
            yes(row.get("identical")),
            verdict(row),
            row.get("export") or "-",
            row.get("scan") or "-",
            row.get("truncate") or "-",
            "-" if row.get("seconds") is None else f"{row['seconds']:.1f}",
            row.get("date") or "before 2026-11-18",
            row.get("reason") or "",
        ]
        for row in result["rows"]
    ]
    return table(head, rows, origin(result))


def reach_sources(result: dict[str, Any]) -> str:
    """One line per library: how many of its networks pass each check."""
    head = [
        "source",
        "networks",
        "families",
        "with junctions",
        "count as expected",
        "bit-identical",
        "all rules",
        "export",
        "scan",
        "cut",
    ]
    rows = []
    for source in dict.fromkeys(row["source"] for row in result["rows"]):
        own = [row for row in result["rows"] if row["source"] == source]
        known = [row for row in own if row.get("expected") is not None]
        rows.append(
            [
                source,
                len(own),
                len({row["family"] for row in own}),
                sum(bool(row["junctions"]) for row in own),
                f"{sum(row['junctions'] == row['expected'] for row in known)} of {len(known)} known",
                sum(bool(row.get("identical")) for row in own),
                sum(bool(row.get("rules")) and set(row["rules"].values()) == {"ok"} for row in own),
                *(sum(row.get(column) == "ok" for row in own) for column in ("export", "scan", "truncate")),
            ]
        )
    return table(head, rows, origin(result))


def verdict(row: dict[str, Any]) -> str:
    """How many rules work in a network, and which do not."""
    rules = row.get("rules") or {}
    failed = [name for name, answer in rules.items() if answer != "ok"]
    return f"{len(rules) - len(failed)} of {len(rules)}" + (f", not {', '.join(failed)}" if failed else "")


def yes(answer: bool | None) -> str:
    """A plain word for a check; a dash where it was not made."""
    return "-" if answer is None else "yes" if answer else "no"
