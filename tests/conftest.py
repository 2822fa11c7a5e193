"""What every test stands on: enforced types, fixed seeds, one thread a worker, and the real data where it lies."""

import os
import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from checked_types import enforce
from hypothesis import settings

# must come before the first import of winze, which happens in the test files: shapes in types are then checked; not in
# `shape` and `modes`, which have none: the one is compiled and calls small functions hundreds of thousands of times,
# the other defines functions inside functions, each of which would be wrapped anew whenever a network is read
UNCHECKED = ("shape", "modes")
ROOMS = [
    f"winze.{path.stem}"
    for path in Path(__file__).parents[1].joinpath("winze").glob("[a-z]*")
    if path.stem not in UNCHECKED
]
enforce(ROOMS)

settings.register_profile("untimed", deadline=None)  # a machine may be busy
settings.load_profile("untimed")

if "PYTEST_XDIST_WORKER" in os.environ:
    torch.set_num_threads(1)


@pytest.fixture(scope="session", autouse=True)
def _no_waiting_for_the_disk() -> None:
    """A test's process may be killed, and what it wrote stays; only a machine that loses power needs `fsync`."""
    os.fsync = lambda handle: None


@pytest.fixture(autouse=True)
def _seeds() -> None:
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def _measures() -> Iterator[None]:
    """A measure that joins in one test is not there in the next."""
    from winze.measure import MEASURES

    before = dict(MEASURES)
    yield
    MEASURES.clear()
    MEASURES.update(before)


@pytest.fixture(autouse=True)
def _quick_timing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cuts are timed in seven rounds, not for a second each: hundreds of tests cut a network."""
    monkeypatch.setattr("winze.observe.cut.costs.ENOUGH", 0.02)


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real datasets; a test that asks for it is skipped where there is none."""
    folder = os.environ.get("WINZE_DATA")
    if not folder:
        pytest.skip("WINZE_DATA is not set")
    if not Path(folder).is_dir():
        pytest.skip(f"WINZE_DATA is {folder}, which is not a folder")
    return Path(folder)
