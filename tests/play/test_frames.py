"""Frames hold what was packed, with every array where a browser can read it in place."""

import numpy as np
import pytest

from winze.play.frames import STRIDE, pack, unpack


def test_a_frame_gives_back_facts_and_arrays():
    arrays = {
        "a": np.arange(7, dtype=np.uint8),
        "b": np.linspace(0, 1, 6, dtype=np.float32).reshape(2, 3),
        "c": np.zeros((0, 2), np.float32),
    }
    head, found = unpack(pack("update", {"step": 3, "loss": float("nan"), "deep": [float("inf"), 1]}, arrays))
    assert head == {"kind": "update", "step": 3, "loss": None, "deep": [None, 1]}
    assert all(np.array_equal(found[name], one) for name, one in arrays.items())


def test_every_array_lies_at_a_multiple_of_its_type():
    frame = pack("x", {"word": "é"}, {"a": np.zeros(3, np.uint8), "b": np.ones(2, np.float32)})
    size = int.from_bytes(frame[:4], "little")
    assert (4 + size) % STRIDE == 0
    assert len(frame) == 4 + size + 2 * STRIDE


def test_a_type_that_the_page_cannot_read_is_refused():
    with pytest.raises(TypeError, match="float64"):
        pack("x", {}, {"a": np.zeros(3)})
