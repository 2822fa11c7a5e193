"""How an option is written in `--help`: what it takes, and what holds where it is left out."""

from __future__ import annotations

from typing import Any

import tyro


def option(metavar: str, default: str = "", name: str | None = None) -> Any:
    """An option that may be left out: `default` says in words what then holds; without words nothing is printed."""
    return tyro.conf.arg(name=name, metavar=metavar, help_behavior_hint=f"(default: {default})" if default else "")
