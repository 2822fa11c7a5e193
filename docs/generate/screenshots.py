"""Take the screenshots of the playground that docs/play.md shows.

    winze scan winze/vgg19x0.25 --pretrained --data cifar10 --ood usps --limit 2000 --embed pca --out out/vgg19
    python docs/generate/screenshots.py [--scan out/vgg19] [--out docs/figures]

Each is a page of `winze play` in Chromium: after a fixed number of steps from a fixed seed, which the link holds, or of
a stored scan at a fixed layer.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
TALL, NARROW = {"width": 1280, "height": 1100}, {"width": 390, "height": 844}
PAGES: dict[str, tuple[str, dict[str, int], str]] = {  # the state in the link, the size of the page, its colours
    "play": ("a.depth=8&a.width=8&step=1500", TALL, "light"),
    "play_two": (
        "two=1&a.depth=12&a.width=8&b.depth=12&b.width=8&b.rule=DecayedIdentity&a.lr=0.005&b.lr=0.005&step=1000",
        TALL,
        "light",
    ),
}
VIEWER = ("layer=11", {"width": 1280, "height": 1060}, "light")
COLOURS = 256  # of a stored screenshot


def main() -> None:
    """Write one PNG per page."""
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scan", type=Path, help="a stored scan, for the screenshot of the scan viewer")
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[1] / "figures")
    args = parser.parse_args()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        with served() as address:
            for name, (link, size, scheme) in PAGES.items():
                page = browser.new_page(viewport=size, color_scheme=scheme)
                page.goto(f"{address}#{link}")
                wait(lambda page=page, link=link: is_trained(page, int(link.split("step=")[1])))
                taken(page, args.out / f"{name}.png")
        if args.scan is not None:
            with served(str(args.scan)) as address:
                link, size, scheme = VIEWER
                page = browser.new_page(viewport=size, color_scheme=scheme)
                page.goto(f"{address}#{link}")
                wait(lambda: page.locator("html[data-frames]").count())
                taken(page, args.out / "play_scan.png")
        browser.close()


@contextmanager
def served(*words: str) -> Iterator[str]:
    """The address of a playground that runs while this is open."""
    command = [sys.executable, "-m", "winze", "play", "--port", "0", "--no-browser", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().split()[-1]
        finally:
            server.terminate()


def is_trained(page: Any, step: int) -> bool:
    """Whether the page has paused at this step and shows its depth profile."""
    return (
        f"step {step:,} ·" in page.inner_text("#counter")
        and page.inner_text("#start") == "Start"
        and page.get_attribute("html", "data-read") == str(step)
    )


def wait(true: Callable[[], Any], seconds: float = 900.0) -> None:
    """Until this holds, and a moment for what is drawn after it."""
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            raise TimeoutError(f"not within {seconds:.0f} s")
        time.sleep(0.2)
    time.sleep(3)


def taken(page: Any, file: Path) -> None:
    """Store the page as a PNG of few colours, and close it."""
    from PIL import Image

    page.mouse.move(0, 0)
    image = Image.open(BytesIO(page.screenshot()))
    image.convert("RGB").quantize(COLOURS, kmeans=3).save(file, optimize=True)
    page.close()


if __name__ == "__main__":
    main()
