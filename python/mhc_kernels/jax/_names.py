"""Names that policies of jax.checkpoint can save or offload, in kernels and reference alike."""

COEFFICIENTS, LAYER_INPUT, X_NEXT = "mhc_coefficients", "mhc_layer_input", "mhc_x_next"
