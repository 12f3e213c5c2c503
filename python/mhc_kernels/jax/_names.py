"""Names that jax.checkpoint policies save or offload, the same ones in both implementations."""

from __future__ import annotations

# What backward needs of the gates (kernel: z, inv_rms, h_post, h_res), and results by their names.
COEFFICIENTS, LAYER_INPUT, X_NEXT = "mhc_coefficients", "mhc_layer_input", "mhc_x_next"

