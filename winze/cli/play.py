"""`winze play`: train small networks in the browser, or walk through stored scans."""

from __future__ import annotations

import re
import sys
import webbrowser
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from winze.cli.option import option


@dataclass(frozen=True)
class PlayVerb:
    """Watch networks learn in the browser; with folders or files, walk through stored scans or runs layer by layer."""

    folders: Annotated[tuple[Path, ...], tyro.conf.Positional, option("DIR|FILE ...", "train in the browser")] = ()
    """folders that `winze scan` or `winze run` wrote, or a file of kept runs (results/SYSTEM/RECIPE.json)"""
    host: str = "127.0.0.1"
    """address to listen on; one that other machines can reach needs a token, which is part of the printed address"""
    port: int = 8765
    """port to listen on; 0 picks a free one"""
    token: Annotated[str | None, option("TOKEN", "a random one where --host needs one")] = None
    """token that the address must hold"""
    users: int = 8
    """how many pages may train at once, each in its own process"""
    browser: bool = True
    """open the page in the browser"""

    def run(self) -> None:
        try:
            from winze.play.server import serve
        except ModuleNotFoundError as absent:
            raise ValueError(f"winze play needs {absent.name}: pip install 'winze[play]'") from absent
        from winze.cli.folder import stored
        from winze.play.viewer import opened

        if self.users < 1:
            raise ValueError(f"users must be at least 1, got {self.users}")
        if not 0 <= self.port < 1 << 16:
            raise ValueError(f"a port lies between 0 and 65535, not at {self.port}")
        if self.token is not None and not re.fullmatch(r"[A-Za-z0-9_-]{8,}", self.token):
            raise ValueError("a token has at least 8 characters: letters, digits, - and _")
        with stored(" or ".join(map(str, self.folders))):
            shown = opened(self.folders) if self.folders else None
        try:
            serve(self.host, self.port, self.token, self.users, shown, self._ready)
        except KeyboardInterrupt:
            raise KeyboardInterrupt("the playground has stopped; the same command starts it again") from None

    def _ready(self, address: str) -> None:
        sys.stdout.write(f"winze play: {address}\nstop it with Ctrl-C\n")
        sys.stdout.flush()
        if self.browser:
            webbrowser.open(address)
