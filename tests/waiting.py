"""Waiting for what another process does."""

import time


def soon(true, seconds=300.0):
    """What `true()` gives, as soon as it gives anything that counts."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := true():
            return found
        time.sleep(0.05)
    raise AssertionError(f"not within {seconds} s")
