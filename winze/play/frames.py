"""Binary frames from the worker to the page: a JSON head, then arrays, each where its type may lie.

bytes 0-3   length of the head, little-endian
bytes 4-    the head: `kind`, facts, and `arrays`: [name, type, shape, offset] with offsets from the first array
then        the arrays, the first and each further one at a multiple of 8
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np

TYPES = {"uint8": "u1", "float32": "f4", "int32": "i4"}
STRIDE = 8

Array = np.ndarray[Any, np.dtype[Any]]


def pack(kind: str, facts: Mapping[str, Any] | None = None, arrays: Mapping[str, Array] | None = None) -> bytes:
    """One frame; NaN and infinity in facts become null, in arrays they stay."""
    table, bodies, offset = [], [], 0
    for name, array in (arrays or {}).items():
        whole = np.ascontiguousarray(array)
        if whole.dtype.name not in TYPES:
            raise TypeError(f"{name}: a frame holds {', '.join(TYPES)}, not {whole.dtype.name}")
        body = whole.tobytes()
        table.append([name, TYPES[whole.dtype.name], list(whole.shape), offset])
        bodies.append(body + bytes(-len(body) % STRIDE))
        offset += len(bodies[-1])
    head = json.dumps({"kind": kind, **_finite(facts or {}), "arrays": table}, separators=(",", ":")).encode()
    head += b" " * (-(4 + len(head)) % STRIDE)
    return b"".join([struct.pack("<I", len(head)), head, *bodies])


def unpack(frame: bytes) -> tuple[dict[str, Any], dict[str, Array]]:
    """The head of a frame and its arrays by name."""
    (size,) = struct.unpack_from("<I", frame)
    head = json.loads(frame[4 : 4 + size])
    start, arrays = 4 + size, {}
    for name, kind, shape, offset in head.pop("arrays"):
        count = math.prod(shape)
        arrays[name] = np.frombuffer(frame, f"<{kind}", count, start + offset).reshape(shape)
    return head, arrays


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _finite(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
