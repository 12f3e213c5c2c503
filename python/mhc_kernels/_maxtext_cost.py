"""MhcDims: the sizes of an mHC-lite layer and what each of its six kernels must do, as integers.

A multiply-add counts two flops. Bytes are those of operands and results, each once: activations in
bf16, gates and parameters in f32, as the kernels here read and write them.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

_ACTIVATION, _FLOAT = 2, 4  # bytes


class CostEstimate(NamedTuple):
    flops: int
    transcendentals: int
    bytes_accessed: int


@dataclasses.dataclass(frozen=True)
class MhcDims:
    """T tokens of n streams with D features, and the number of permutations, n!."""

    tokens: int
    streams: int
    embedding: int
    num_permutations: int = 24

    @property
    def flattened_size(self) -> int:
        """K = n D."""
        return self.streams * self.embedding

    @property
    def phi_cols(self) -> int:
        """m = 2n + n!, in the order pre, post, res."""
        return 2 * self.streams + self.num_permutations

    @property
    def pre_slice(self) -> slice:
        return slice(0, self.streams)

    @property
    def post_slice(self) -> slice:
        return slice(self.streams, 2 * self.streams)

    @property
    def res_slice(self) -> slice:
        return slice(2 * self.streams, self.phi_cols)

    @property
    def _x(self) -> int:
        return self.tokens * self.flattened_size * _ACTIVATION

    @property
    def _row(self) -> int:
        return self.tokens * self.embedding * _ACTIVATION

    @property
    def _gates(self) -> int:
        """h_pre, h_post and h_res."""
        return self.tokens * (2 * self.streams + self.streams**2) * _FLOAT

    def coeff_fwd_cost(self) -> CostEstimate:
        """Projection, sum of squares, gates and the mixture of permutations."""
        t, n, m = self.tokens, self.streams, self.phi_cols
        flops = t * (2 * self.flattened_size * (m + 1) + 3 * m + 2 * self.num_permutations * n)
        saved = t * (m + 1) * _FLOAT
        return CostEstimate(
            flops, t * (m + 1), self._x + self.flattened_size * m * _FLOAT + self._gates + saved
        )

    def pre_apply_fwd_cost(self) -> CostEstimate:
        """layer_input = sum_i h_pre x."""
        return CostEstimate(
            2 * self.tokens * self.flattened_size,
            0,
            self._x + self._row + self.tokens * self.streams * _FLOAT,
        )

    def post_apply_fwd_cost(self) -> CostEstimate:
        """x_next = sum_i h_res x + h_post layer_output."""
        t, n = self.tokens, self.streams
        return CostEstimate(
            2 * t * self.flattened_size * (n + 1),
            0,
            2 * self._x + self._row + t * (n + n * n) * _FLOAT,
        )

    def pre_apply_bwd_cost(self) -> CostEstimate:
        """d_h_pre and the collapse's part of d_x."""
        return CostEstimate(
            4 * self.tokens * self.flattened_size,
            0,
            2 * self._x + self._row + 2 * self.tokens * self.streams * _FLOAT,
        )

    def coeff_bwd_cost(self) -> CostEstimate:
        """The gates' backward, d_x through the projection and the norm, and d_phi."""
        t, n, m = self.tokens, self.streams, self.phi_cols
        flops = t * (2 * self.flattened_size * (2 * m + 1) + 10 * m + 2 * self.num_permutations * n)
        phi = self.flattened_size * m * _FLOAT
        return CostEstimate(
            flops, t * m, 2 * self._x + 2 * phi + self._gates + t * (m + 1) * _FLOAT
        )

    def post_apply_bwd_cost(self) -> CostEstimate:
        """d_layer_output, d_h_post, d_h_res, and d_x = sum_j h_res g."""
        t, n = self.tokens, self.streams
        flops = 2 * t * self.flattened_size * (2 * n + 2)
        return CostEstimate(flops, 0, 3 * self._x + 2 * self._row + 2 * t * (n + n * n) * _FLOAT)
