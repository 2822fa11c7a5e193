"""Take the pictures of the playground that docs/play.md shows.

    python docs/screenshots.py [--out docs/figures]

Each is a page of `winze play` in Chromium after a fixed number of steps from a fixed seed.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
TALL, NARROW = {"width": 1280, "height": 1100}, {"width": 390, "height": 844}
PAGES: dict[str, tuple[str, dict[str, int], int]] = {  # the settings in the link, the size of the page, steps
    "play": ("a.depth=8&a.width=8", TALL, 1500),
    "play_two": ("two=1&a.depth=12&a.width=8&b.depth=12&b.width=8&b.rule=DecayedIdentity", TALL, 1000),
    "play_narrow": ("a.depth=6&a.width=6", NARROW, 600),
}


def main() -> None:
    """Write one PNG per page."""
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "figures")
    args = parser.parse_args()
    command = [sys.executable, "-m", "winze", "play", "--port", "0", "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server, sync_playwright() as playwright:
        try:
            assert server.stdout is not None
            address = server.stdout.readline().split()[-1]
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
            for name, (link, size, steps) in PAGES.items():
                page = browser.new_page(viewport=size, color_scheme="light")
                page.goto(f"{address}#{link}")
                trained(page, steps)
                page.screenshot(path=args.out / f"{name}.png")
                page.close()
        finally:
            server.terminate()


def trained(page: Any, steps: int, seconds: float = 180.0) -> None:
    """Start, pause after so many steps, and wait for the last update."""
    page.click("#start")
    end = time.monotonic() + seconds
    while (found := re.match(r"step ([\d,]+)", page.inner_text("#counter"))) and time.monotonic() < end:
        if int(found[1].replace(",", "")) >= steps:
            break
        time.sleep(0.1)
    page.click("#start")
    time.sleep(2)


if __name__ == "__main__":
    main()
