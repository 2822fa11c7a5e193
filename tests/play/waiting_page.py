"""Waiting for what a page shows: its policy allows no evaluated string, so that this side asks again."""

import re
import time
from typing import Any


def until(true: Any, seconds: float = 30.0) -> Any:
    """What `true()` gives, as soon as it gives anything that counts."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := true():
            return found
        time.sleep(0.05)
    raise AssertionError(f"not within {seconds} s")


def step_of(page: Any) -> int:
    """The step that the page shows."""
    found = re.match(r"step ([\d,]+)", page.inner_text("#counter"))
    assert found is not None
    return int(found[1].replace(",", ""))
