"""The conventions in which public implementations of hyper-connections differ, as one frozen
value."""

from __future__ import annotations

import dataclasses
from typing import Any

from mhc_kernels import manifolds
from mhc_kernels._numbers import real, whole
from mhc_kernels.manifolds import Manifold, Permutation, Sinkhorn

FLOAT_MAX = 3.4028234663852886e38
FLOAT_MIN = 1.1754943508222875e-38

_CHOICES = {
    "matrix_order": ("input_output", "output_input"),
    "norm_form": ("inside", "outside"),
    "phi_precision": ("float32", "bfloat16"),
    "gradient_precision": ("float32", "bfloat16"),
    "h_pre_precision": ("float32", "activation"),
    "h_post_precision": ("float32", "activation"),
    "h_res_precision": ("float32", "activation"),
}


@dataclasses.dataclass(frozen=True)
class Spec:
    """Which member of the family of hyper-connections; frozen, hashable, validated when made.

    streams: n, 1 to the manifold's limit.
    manifold: Sinkhorn(...), Permutation(), Unconstrained(), Identity(), or one of their names.
    matrix_order: whether the rows of the manifold's matrix are "input_output" (input streams) or
      "output_input"; with finitely many iterations that is another function, not a relabelling.
      h_res itself is always stored [..., input, output].
    norm_eps, norm_form: 1/sqrt(ms + norm_eps) "inside", 1/(sqrt(ms) + norm_eps) "outside".
    pre_eps, post_mult: h_pre = sigmoid + pre_eps; h_post = post_mult sigmoid.
    phi_precision: "bfloat16" rounds phi norm_weight once; its gradients take that as the identity.
    gradient_precision: "bfloat16" rounds d_q once, in all of its uses.
    h_*_precision: "activation" rounds the gate to x's type where it multiplies.

    Raises ValueError naming the field, what was wanted and what was got.

    >>> Spec(streams=6, manifold="permutation")
    Traceback (most recent call last):
    ValueError: Spec: streams: expected 1 to 5 for manifold permutation, got 6
    """

    streams: int = 4
    manifold: Manifold = Sinkhorn()
    matrix_order: str = "input_output"
    norm_eps: float = 1e-6
    norm_form: str = "inside"
    pre_eps: float = 1e-6
    post_mult: float = 2.0
    phi_precision: str = "float32"
    h_pre_precision: str = "float32"
    h_post_precision: str = "float32"
    h_res_precision: str = "float32"
    gradient_precision: str = "float32"

    def __post_init__(self) -> None:
        object.__setattr__(self, "manifold", manifolds.to_manifold(self.manifold))
        most = self.manifold.max_streams
        streams = whole(self.streams, 1, most)
        if streams is None:
            raise ValueError(
                f"Spec: streams: expected 1 to {most} for manifold {self.manifold.name}, "
                f"got {self.streams!r}"
            )
        object.__setattr__(self, "streams", streams)
        for field, choices in _CHOICES.items():
            if getattr(self, field) not in choices:
                wanted = " or ".join(f'"{c}"' for c in choices)
                raise ValueError(f"Spec: {field}: expected {wanted}, got {getattr(self, field)!r}")
        self._check_number("norm_eps", FLOAT_MIN, "a finite number of at least 1.2e-38")
        self._check_number("pre_eps", 0.0, "a finite number of at least 0")
        self._check_number("post_mult", -FLOAT_MAX, "a finite number")

    def _check_number(self, field: str, least: float, wanted: str) -> None:
        value = real(getattr(self, field), least, FLOAT_MAX)
        if value is None:
            raise ValueError(f"Spec: {field}: expected {wanted}, got {getattr(self, field)!r}")
        object.__setattr__(self, field, value)

    @property
    def logits(self) -> int:
        """L, the logits of h_res."""
        return self.manifold.logits(self.streams)

    @property
    def coefficients(self) -> int:
        """m = 2n + L, the gates of a token in the order pre (n), post (n), res (L)."""
        return 2 * self.streams + self.logits

    def replace(self, **changes: Any) -> "Spec":
        """The same with some fields changed.

        >>> Spec().replace(manifold="identity").coefficients
        8
        """
        return dataclasses.replace(self, **changes)

    @classmethod
    def preset(cls, name: str, **overrides: Any) -> "Spec":
        """The conventions of a public implementation, some changed by `overrides`.

        >>> Spec.preset("deepseek_v4", streams=2).manifold
        Sinkhorn(iterations=20, eps=1e-06, form='softmax')
        >>> Spec.preset("deepseek")
        Traceback (most recent call last):
        ValueError: Spec.preset: name: expected deepseek_v4, hf_deepseek_v4, maxtext_lite, ...
        """
        if name not in PRESETS:
            *first, last = PRESETS
            raise ValueError(
                f"Spec.preset: name: expected {', '.join(first)} or {last}, got {name!r}"
            )
        return cls(**{**PRESETS[name], **overrides})


PRESETS: dict[str, dict[str, Any]] = {
    "deepseek_v4": {},
    "hf_deepseek_v4": {"h_post_precision": "activation", "h_res_precision": "activation"},
    "maxtext_lite": {
        "manifold": Permutation(),
        "norm_eps": 1e-5,
        "phi_precision": "bfloat16",
        "h_res_precision": "activation",
    },
    "maxtext_sinkhorn": {"norm_eps": 1e-5},
    "liger": {"matrix_order": "output_input", "pre_eps": 0.0},
}


def code_of(field: str, value: str) -> int:
    """The number by which the library knows the value of a field."""
    return _CHOICES[field].index(value)
