"""Operands and results of every operation, in the order of its handler under bindings/jax.

T stands for the leading extents of x, whatever their number. Each name is that of the C interface
(include/mhc/operations.h), where shapes and formulas stand.
"""

from __future__ import annotations

import dataclasses
import math

from mhc_kernels.spec import Spec

# Shape behind the tokens, and whether it has tokens at all. "A" activations, "G" gates, "P"
# parameters.
_KINDS = {
    "x": ("token", "A", ("n", "D")),
    "row": ("token", "A", ("D",)),
    "z": ("token", "G", ("m",)),
    "scalar": ("token", "G", ()),
    "gate": ("token", "G", ("n",)),
    "matrix": ("token", "G", ("n", "n")),
    "phi": ("whole", "P", ("m", "n", "D")),
    "alpha": ("whole", "P", ("groups",)),
    "bias": ("whole", "P", ("m",)),
    "norm_weight": ("whole", "P", ("n", "D")),
}

_PARAMS = "phi:phi alpha:alpha bias:bias norm_weight:norm_weight"
_GRADIENTS = "d_phi:phi d_alpha:alpha d_bias:bias d_norm_weight:norm_weight"
_GATES = "h_pre:gate h_post:gate h_res:matrix"
_D_GATES = "d_h_pre:gate d_h_post:gate d_h_res:matrix"

_TABLE = {
    "pre": (f"x:x {_PARAMS}", f"layer_input:row z:z inv_rms:scalar {_GATES}"),
    "pre_backward": (
        f"x:x {_PARAMS} z:z inv_rms:scalar d_layer_input:row {_D_GATES} d_x_next:x d_x_post:x",
        f"d_x:x {_GRADIENTS}",
    ),
    "post": ("x:x layer_output:row h_post:gate h_res:matrix", "x_next:x"),
    "post_backward": (
        "d_x_next:x x:x layer_output:row h_post:gate h_res:matrix",
        "d_layer_output:row d_h_post:gate d_h_res:matrix d_x:x",
    ),
    "coefficients": (f"x:x {_PARAMS}", f"z:z inv_rms:scalar {_GATES}"),
    "coefficients_backward": (
        f"x:x {_PARAMS} z:z inv_rms:scalar {_D_GATES}",
        f"d_x:x {_GRADIENTS}",
    ),
    "apply_pre": ("x:x h_pre:gate", "layer_input:row"),
    "apply_pre_backward": ("d_layer_input:row x:x h_pre:gate", "d_x:x d_h_pre:gate"),
    "project_partial": ("x:x phi:phi norm_weight:norm_weight", "q:z sum_squares:scalar"),
    "project_partial_backward": (
        "x:x phi:phi norm_weight:norm_weight d_q:z d_sum_squares:scalar",
        "d_x:x d_phi:phi d_norm_weight:norm_weight",
    ),
    "coefficients_from_partials": (
        "q:z sum_squares:scalar alpha:alpha bias:bias",
        f"z:z inv_rms:scalar {_GATES}",
    ),
    "coefficients_from_partials_backward": (
        f"z:z inv_rms:scalar sum_squares:scalar alpha:alpha bias:bias {_D_GATES}",
        "d_q:z d_sum_squares:scalar d_alpha:alpha d_bias:bias",
    ),
    "head": (f"x:x {_PARAMS}", "out:row z:z inv_rms:scalar"),
    "head_backward": (f"x:x {_PARAMS} z:z inv_rms:scalar d_out:row", f"d_x:x {_GRADIENTS}"),
    "expand": ("h:row", "x:x"),
    "expand_backward": ("d_x:x", "d_h:row"),
    "reduce": ("x:x", "out:row"),
    "reduce_backward": ("d_out:row", "d_x:x"),
}

# A result that may take an operand's memory, where nothing else reads the operand any more.
IN_PLACE: dict[str, dict[str, tuple[str, ...]]] = {
    "pre_backward": {"d_x": ("d_x_next", "d_x_post")},
    "post": {"x_next": ("x",)},
}


@dataclasses.dataclass(frozen=True)
class Argument:
    """One operand or result."""

    name: str
    tokens: bool  # has the leading extents of x
    type: str  # "A", "G" or "P"
    trailing: tuple[str, ...]  # names of the extents behind the tokens

    def shape(self, lead: tuple[int, ...], sizes: dict[str, int]) -> tuple[int, ...]:
        trailing = tuple(sizes[t] for t in self.trailing)
        return lead + trailing if self.tokens else trailing


@dataclasses.dataclass(frozen=True)
class Signature:
    inputs: tuple[Argument, ...]
    outputs: tuple[Argument, ...]

    def input(self, name: str) -> Argument:
        return next(a for a in self.inputs if a.name == name)

    def output(self, name: str) -> Argument:
        return next(a for a in self.outputs if a.name == name)


def _parse(text: str) -> tuple[Argument, ...]:
    pairs = (word.split(":") for word in text.split())
    return tuple(
        Argument(name, _KINDS[kind][0] == "token", *_KINDS[kind][1:]) for name, kind in pairs
    )


SIGNATURES = {name: Signature(_parse(ins), _parse(outs)) for name, (ins, outs) in _TABLE.items()}

# By name, which means the same in every operation.
ARGUMENTS = {a.name: a for s in SIGNATURES.values() for a in (*s.inputs, *s.outputs)}


def sizes_of(operation: str, spec: Spec | None, streams: int, embedding: int) -> dict[str, int]:
    """n, D, m and the number of alphas."""
    head = operation.startswith("head")
    m = streams if head or spec is None else spec.coefficients
    return {"n": streams, "D": embedding, "m": m, "groups": 1 if head else 3}


def tokens_of(lead: tuple[int, ...]) -> int:
    return math.prod(lead)
