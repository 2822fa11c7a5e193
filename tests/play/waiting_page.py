"""Waiting for what a page shows: its policy allows no evaluated string, so that this side asks again."""

import os
import re
import time
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

from waiting import soon

AXE = Path(os.environ.get("WINZE_AXE", Path(__file__).parent / "axe.min.js"))
QUICK = "#points=64&batch=16&a.depth=3&a.width=4"
TWO = f"{QUICK}&two=1&b.rule=DecayedIdentity&b.rule.alpha_min=0.3&b.depth=3&b.width=4"
PATIENCE = 300.0  # seconds: a machine that runs several test processes is slow, and waiting costs nothing else


def url_of(page: Any) -> str:
    """The address with its hash as it is now; `page.url` is that of the last event that Playwright has handled."""
    return str(page.evaluate("() => location.href"))


def frames_of(page: Any) -> int:
    """How often the page has drawn."""
    return int(page.get_attribute("html", "data-frames"))


def layout_of(page: Any, layers: int, rows: int) -> dict[str, float]:
    """Where the node maps of the first network lie on its canvas."""
    given = [page.locator("#nodes-a").bounding_box()["width"], layers, rows]
    found: dict[str, float] = page.evaluate("async ([w, l, r]) => (await import('/nodes.js')).layout(w, { layers: Array(l).fill(0), nodes: Array(r).fill(0), weights_out: { shape: [2] } })", given)  # fmt: skip  # noqa: E501
    return found


def faults(page: Any) -> list[tuple[str, str]]:
    """What axe-core, which the page has loaded, finds wrong."""
    found = page.evaluate("() => axe.run(document, {resultTypes: ['violations']})")
    return [(one["id"], one["nodes"][0]["html"]) for one in found["violations"]]


def step_of(page: Any) -> int:
    """The step that the page shows."""
    found = re.match(r"step ([\d,]+)", page.inner_text("#counter"))
    assert found is not None
    return int(found[1].replace(",", ""))


def save_every_figure(page: Any, folder: Path) -> int:
    """Save each panel as PNG and SVG and check the files; how many panels there are."""
    panels = page.locator("button[aria-label^='Save '][aria-label$=' as PNG']:visible").count()
    for kind, start in (("PNG", b"\x89PNG"), ("SVG", b"<svg")):
        for button in page.locator(f"button[aria-label^='Save '][aria-label$=' as {kind}']:visible").all():
            with page.expect_download() as waiting:
                button.click()
            waiting.value.save_as(folder / "file")
            time.sleep(0.12)  # of more than ten downloads within a second Chromium drops those beyond, silently
            body = (folder / "file").read_bytes()
            assert body.startswith(start)
            assert len(body) > 1000
            if kind == "SVG":
                assert len(list(ET.fromstring(body))) > 5
    return panels


def train_to(page: Any, step: int) -> None:
    """Train with the button until this step, and pause."""
    page.click("#start")
    soon(lambda: step_of(page) >= step)
    page.click("#start")
    soon(lambda: page.inner_text("#start") == "Start")
