"""What a page costs a training: steps per second with a page that watches, against the same steps without one.

A real Chromium shows the playground of the spiral (32 layers of 32, 16,384 points, batches of 256) while it trains; in
turns, this process takes the same steps by itself. The goal is a ratio of at least 0.5 at 20 updates per second or
more, and a first paint below a second.

    python benchmarks/play.py [--pairs 6] [--seconds 4] [--depth 32] [--width 32] [--out results]
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch
from timing import RESULTS, median, merge

from winze.play.settings import parse
from winze.play.trainer import Trainer

FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
POINTS, BATCH, LR = 16384, 256, 0.001
PAINT = "() => performance.getEntriesByName('first-contentful-paint')[0].startTime"


def main() -> None:
    """Measure in turns and merge the row into results/play.json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--depth", type=int, default=32)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--out", type=Path, default=RESULTS)
    args = parser.parse_args()
    torch.set_num_threads(1)
    before = os.getloadavg()[0]
    found = measured(args.depth, args.width, args.pairs, args.seconds)
    note = {"load": round(before, 1)}  # processes that wanted a core before: above 0.5 the machine was not quiet
    row = {"network": f"winze/spiral{args.depth}x{args.width}", "points": POINTS, "batch": BATCH} | found | note
    print(row)
    merge("play", [row], "cpu", args.out, alike="load")


def measured(depth: int, width: int, pairs: int, seconds: float) -> dict[str, Any]:
    """Speeds with and without a page, in turns."""
    from playwright.sync_api import sync_playwright

    arm = {"depth": depth, "width": width, "lr": LR}
    alone = Trainer(parse({"points": POINTS, "batch": BATCH, "arms": [arm]}))
    command = [sys.executable, "-m", "winze", "play", "--port", "0", "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server, sync_playwright() as playwright:
        try:
            assert server.stdout is not None
            address = server.stdout.readline().split()[-1]
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
            _first_paint(browser, address)  # the fork server has imported everything after this
            painted = _first_paint(browser, address)
            page = browser.new_page(viewport={"width": 1400, "height": 900})
            page.goto(f"{address}#points={POINTS}&batch={BATCH}&a.depth={depth}&a.width={width}&a.lr={LR}")
            page.wait_for_selector(f"h2:has-text('{depth} layers of {width}')", timeout=60_000)
            _plain(alone, 1.0), _watched(page, 2.0)
            ratios, speeds, updates = [], [], []
            for _ in range(pairs):
                without = _plain(alone, seconds)
                steps, frames = _watched(page, seconds)
                ratios.append(steps / without)
                speeds.append(without)
                updates.append(frames)
        finally:
            server.terminate()
    return {
        **median(ratios),
        "steps_per_second_alone": round(statistics.median(speeds), 1),
        "updates_per_second": round(statistics.median(updates), 1),
        "least_updates_per_second": round(min(updates), 1),
        "first_paint_ms": round(painted),
    }


def _first_paint(browser: Any, address: str) -> float:
    page = browser.new_page()
    page.goto(address)
    page.wait_for_selector("html[data-frames]", timeout=120_000)
    painted = float(page.evaluate(PAINT))
    page.close()
    return painted


def _plain(trainer: Trainer, seconds: float) -> float:
    """Steps per second of this process alone."""
    begun, steps = time.perf_counter(), trainer.steps
    while time.perf_counter() - begun < seconds:
        trainer.step()
    return (trainer.steps - steps) / (time.perf_counter() - begun)


def _watched(page: Any, seconds: float) -> tuple[float, float]:
    """Steps and drawn updates per second while the page trains."""
    page.click("#start")
    page.wait_for_timeout(700)
    (step, frames), begun = _state(page), time.perf_counter()
    page.wait_for_timeout(1000 * seconds)
    (last, drawn), passed = _state(page), time.perf_counter() - begun
    page.click("#start")
    page.wait_for_selector("#start:has-text('Start')")
    page.wait_for_timeout(700)
    return (last - step) / passed, (drawn - frames) / passed


def _state(page: Any) -> tuple[int, int]:
    found = re.match(r"step ([\d,]+)", page.inner_text("#counter"))
    assert found is not None
    return int(found[1].replace(",", "")), int(page.get_attribute("html", "data-frames"))


if __name__ == "__main__":
    main()
