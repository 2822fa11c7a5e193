"""Residual sums inside larger operations, in which no rule can stand: they are listed, and never passed over.

A `lerp`, an `addmm`, an `index_add` or a `where` blends its operands; a stack or a concatenation that is summed up
adds its parts.
"""

from __future__ import annotations

from torch import fx

MIXES = {
    *("lerp", "lerp_", "where", "addcdiv", "addcdiv_", "index_add", "index_add_", "scatter_add", "scatter_add_"),
    *("scatter_reduce", "scatter_reduce_", "masked_scatter", "masked_scatter_", "index_put", "index_put_"),
    *("_foreach_add", "_foreach_add_", "blend"),
}
PICKING = ("index_add", "index_put", "scatter_")
PRODUCTS = {"addmm", "addmm_", "addbmm", "addbmm_", "baddbmm", "baddbmm_", "addmv", "addmv_", "addr", "addr_"}
JOINTS = {"stack", "cat", "concat", "concatenate", "vstack", "row_stack", "hstack", "dstack", "column_stack"}
REDUCING = {
    *("sum", "mean", "nansum", "nanmean", "einsum", "matmul", "mm", "bmm", "mv", "tensordot", "cumsum"),
    *("vecdot", "linalg_vecdot", "inner", "trapezoid", "trapz"),
    *("avg_pool1d", "avg_pool2d", "adaptive_avg_pool1d", "adaptive_avg_pool2d", "conv1d", "conv2d", "linear"),
}
BLENDS = MIXES | PRODUCTS | JOINTS


def parts(node: fx.Node, name: str, operands: list[fx.Node]) -> tuple[fx.Node, ...]:
    """What an operation adds up: of a blend the operands as large as its result, of a product the operand besides."""
    if name in PRODUCTS:
        return tuple(operands)
    if name in ("index_put", "index_put_") and not node.meta["operation"].scalars.get("accumulate"):
        return ()
    if name.startswith(PICKING):  # what is added to, an index or a mask, what is added
        return (operands[0], operands[-1]) if len(operands) > 1 else ()
    return tuple(dict.fromkeys(o for o in operands if o.meta["shape"] == node.meta["shape"]))


def pooled(node: fx.Node, joint: fx.Node, name: str, operands: list[fx.Node]) -> tuple[fx.Node, ...]:
    """The parts of a joint tensor that an operation sums up: all of one size, which the result has as well."""
    sizes = {_numel(part) for part in operands}
    if len(sizes) != 1 or (name != "cumsum" and _numel(node) not in sizes):
        return ()
    return tuple(dict.fromkeys(operands)) if joint is not node else ()


def _numel(node: fx.Node) -> int:
    size = 1
    for length in node.meta["shape"] or ():
        size *= length
    return size
