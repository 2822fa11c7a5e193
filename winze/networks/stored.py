"""A network as a stored file describes it: the file is data, so that nothing in it is run, fetched or opened."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import register_module_parameter_registration_hook

from winze.modes import rng_unchanged
from winze.networks.build import OWN, build
from winze.networks.network_error import NetworkError

NAME = re.compile(r"((?:timm|torchvision|winze)/)?([A-Za-z0-9_]{1,100}(?:\.[A-Za-z0-9_]{1,100})?)")
WORD = re.compile(r"[A-Za-z0-9_]{1,40}")
GLOB = re.compile(r"[A-Za-z0-9_.*?\[\]!-]{1,200}")
MOST, DEEP = 1 << 20, 1 << 13
"""The largest number that an option, and that a name may have: files set no sizes that fill a memory."""
MOST_TENSORS, MOST_NUMBERS = 20_000, 1 << 31
"""The largest number of parameters, as tensors and as numbers, of a network that a file describes."""
OF_TIMM = set(
    re.findall(
        r"\w+",
        """act_layer base_width cardinality class_token depth depths dims drop_path_rate drop_rate dynamic_img_size
        embed_dim fc_norm global_pool head_dim img_size in_chans init_values mlp_ratio norm_layer num_heads
        output_stride patch_size qkv_bias stem_type stem_width window_size""",
    )
)
OF_TORCHVISION = set(
    re.findall(
        r"\w+",
        """attention_dropout aux_logits dropout groups image_size init_weights memory_efficient patch_size
        stochastic_depth_prob transform_input width_mult width_per_group zero_init_residual""",
    )
)
OF_WINZE = {name for make in OWN.values() for name in inspect.signature(make).parameters}  # type: ignore[arg-type]


def build_stored(spec: Any, source: object, *, trust: bool = False) -> nn.Module:
    """Build the network that a file describes, with fresh weights; the global RNG state is left as it was.

    Only names of winze, timm and torchvision count, with options that set sizes and kinds of layers. A
    `file.py:function` runs that file: it needs `trust`. `source` is the file, for errors.
    """
    try:
        name, classes, options, rule, where = _parts(spec)
        if ".py" in name and not trust:
            raise NetworkError(
                f"its network is made by {name!r}, which would run that file: pass the network itself (net=, --net), "
                "or trust=True (--trust) if you know what it does"
            )
        if ".py" not in name:
            _check_name(name, options)
        _check_values(options)
        told = {"name": name, "classes": classes, "options": options, "rule": rule, "where": where}
        with rng_unchanged():
            if ".py" not in name:
                _check_size(told)
            with _bounded():
                return build(told)
    except (NetworkError, TypeError, ValueError) as error:
        raise NetworkError(f"{source}: {error}") from error


def _check_size(told: Mapping[str, Any]) -> None:
    """Raise for a network that is too large, before its weights take up memory; a builder may want real tensors."""
    try:
        with _bounded(), torch.device("meta"):
            build(told)
    except TooLargeError:
        raise
    except Exception:
        return


class TooLargeError(NetworkError):
    """A network that grows beyond all that is known."""


@contextmanager
def _bounded() -> Iterator[None]:
    """While open, a network that grows beyond all that is known raises."""
    tensors = numbers = 0

    def count(_module: nn.Module, _name: str, parameter: nn.Parameter | None) -> None:
        nonlocal tensors, numbers
        tensors, numbers = tensors + 1, numbers + (0 if parameter is None else parameter.numel())
        if tensors > MOST_TENSORS or numbers > MOST_NUMBERS:
            raise TooLargeError(
                f"its network has more than {MOST_TENSORS} parameter tensors or {MOST_NUMBERS:.1e} parameters: pass "
                "the network itself (net=)"
            )

    handle = register_module_parameter_registration_hook(count)
    try:
        yield
    finally:
        handle.remove()


def is_file(spec: Any) -> bool:
    """Whether a description names a Python file."""
    name = spec.get("name") if isinstance(spec, Mapping) else spec
    return isinstance(name, str) and ".py" in name


def _parts(spec: Any) -> tuple[str, int | None, dict[str, Any], dict[str, Any] | None, str | None]:
    told: Any = {"name": spec} if isinstance(spec, str) else spec
    if not isinstance(told, Mapping) or not isinstance(told.get("name"), str):
        raise NetworkError(f"its description of the network names none: {_short(spec)}")
    strange = sorted(str(key) for key in told.keys() - {"name", "classes", "options", "rule", "where"})
    if strange:
        raise NetworkError(f"its description of the network has {', '.join(strange)}, which winze does not write")
    classes, options, rule = told.get("classes"), told.get("options") or {}, told.get("rule")
    if not (classes is None or _is_count(classes)):
        raise NetworkError(f"its network has {_short(classes)} classes")
    if not isinstance(options, Mapping) or not all(isinstance(key, str) for key in options):
        raise NetworkError(f"its network has the options {_short(options)}, which are not options")
    if not (rule is None or isinstance(rule, Mapping)):
        raise NetworkError(f"its network has the rule {_short(rule)}, which is not a rule")
    where = told.get("where")
    if not (where is None or (isinstance(where, str) and GLOB.fullmatch(where))):
        raise NetworkError(f"its rule is at the junctions {_short(where)}, which is not a glob on names")
    _check_values(rule or {})
    return told["name"], classes, dict(options), None if rule is None else dict(rule), where


def _check_name(name: str, options: Mapping[str, Any]) -> None:
    match = NAME.fullmatch(name)
    if match is None:
        raise NetworkError(f"its network {_short(name)} is not a name of winze's, timm's or torchvision's")
    known = {"winze/": OF_WINZE, "torchvision/": OF_TORCHVISION}.get(match[1] or "", OF_TIMM)
    strange = sorted(options.keys() - known)
    if strange:
        raise NetworkError(
            f"its network {name} has the option {', '.join(map(_short, strange))}, which no stored file may set: pass "
            "the network itself (net=)"
        )
    if match[1] == "winze/" and any(int(number) > DEEP for number in re.findall(r"\d{1,20}", match[2])):
        raise NetworkError(f"its network {name} is too large")


def _check_values(options: Mapping[str, Any]) -> None:
    for key, value in options.items():
        several = isinstance(value, list | tuple) and len(value) <= 12
        if not all(map(_is_plain, value if several else [value])):
            raise NetworkError(f"the option {key}={_short(value)} of its network is neither a size nor a kind of layer")


def _is_plain(value: Any) -> bool:
    if isinstance(value, str):
        return WORD.fullmatch(value) is not None
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or isinstance(value, bool) or (isinstance(value, int) and abs(value) <= MOST)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
