"""Types are enforced while testing: shapes by jaxtyping, everything else by beartype alone.

jaxtyping binds the arguments of every call anew and checks them twice, for shapes that arguments and results share:
about 20 microseconds a call, which most functions have no use for. Reading the recipes took 37 seconds so, and 2
without any checks.
"""

import inspect
from collections.abc import Callable, Sequence
from functools import partial, wraps
from typing import Any, get_args, get_type_hints

import jaxtyping
from beartype import BeartypeConf, beartype

CHECKER = "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))"
without_shapes = beartype(conf=BeartypeConf(is_pep484_tower=True, violation_type=jaxtyping.TypeCheckError))
with_shapes = jaxtyping.jaxtyped


def enforce(packages: Sequence[str]) -> None:
    """Check the types of functions and dataclasses of these packages, which are not imported yet."""
    jaxtyping.jaxtyped = checked  # the import hook writes this name above every function and class
    jaxtyping.install_import_hook(packages, CHECKER)


def checked(made: Any = None, *, typechecker: Any) -> Any:
    """What jaxtyping's own decorator does, the quicker way where no shape is written."""
    if made is None:
        return partial(checked, typechecker=typechecker)
    if inspect.isclass(made):
        begin = vars(made).get("__init__")
        if hasattr(made, "__dataclass_fields__") and inspect.isfunction(begin):
            made.__init__ = checked(begin, typechecker=typechecker)
        return made
    if not inspect.isfunction(made) or hasattr(made, "__checked__"):
        return made if hasattr(made, "__checked__") else with_shapes(made, typechecker=typechecker)
    hints = {name: known(hint, made.__globals__) for name, hint in made.__annotations__.items()}
    found = with_shapes(made, typechecker=typechecker) if any(map(shaped, hints.values())) else quickly(made, hints)
    found.__checked__ = True
    return found


def known(hint: Any, names: dict[str, Any]) -> Any:
    """An annotation that is no text any more; Any where it names what is not there yet, as with jaxtyping."""

    def holder() -> None: ...

    holder.__annotations__ = {"hint": hint}
    try:
        return get_type_hints(holder, names, include_extras=True)["hint"]
    except Exception:
        return Any


def shaped(hint: Any) -> bool:
    """Whether an array with its shape stands anywhere in an annotation."""
    if inspect.isclass(hint) and issubclass(hint, jaxtyping.AbstractArray):
        return True
    return any(map(shaped, hint if isinstance(hint, list) else get_args(hint)))


def quickly(function: Callable[..., Any], hints: dict[str, Any]) -> Callable[..., Any]:
    """The function with its arguments and its result checked by beartype, unless checks are switched off."""
    texts, function.__annotations__ = function.__annotations__, hints
    sure = without_shapes(function)
    function.__annotations__ = texts

    @wraps(function)
    def either(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        return (function if jaxtyping.config.jaxtyping_disable else sure)(*args, **kwargs)

    return either
