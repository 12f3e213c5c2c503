"""Text from the trained model."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mhc_kernels.demo import model
from mhc_kernels.demo.config import Config
from mhc_kernels.demo.text import Text

PROMPTS, PROMPT_BYTES, TEMPERATURE = 3, 24, 0.7


def sample(structure: Any, params: Any, config: Config, data: Text) -> list[dict[str, str]]:
    """Continues PROMPTS beginnings from the held-out text by config.sample_bytes bytes each; the
    context is the last config.sequence bytes. Equal for equal parameters and seed.

    Returns dicts of prompt and text (without the prompt); bytes that are not UTF-8 are replaced.
    """
    if config.sample_bytes == 0:
        return []
    width = min(PROMPT_BYTES, config.sequence)
    starts = np.linspace(0, len(data.held_out) - width, PROMPTS + 2).astype(int)[1:-1]
    prompts = data.held_out[starts[:, None] + np.arange(width)].astype(np.int32)
    total = width + config.sample_bytes
    tokens: Any = np.zeros((PROMPTS, max(total, config.sequence)), np.int32)
    tokens[:, :width] = prompts

    def draw(at: Any, carry: Any) -> Any:
        params, tokens, key = carry
        # The window ends before `at`, or begins the text; what is behind `at` is not seen.
        begin = jnp.maximum(at - config.sequence, 0)
        window = jax.lax.dynamic_slice_in_dim(tokens, begin, config.sequence, axis=1)
        logits, _ = model.apply(structure, params, window)
        last = jax.lax.dynamic_index_in_dim(logits, at - begin - 1, axis=1, keepdims=False)
        key, use = jax.random.split(key)
        byte = jax.random.categorical(use, last / TEMPERATURE).astype(tokens.dtype)
        return params, tokens.at[:, at].set(byte), key

    params = jax.device_put(params, jax.devices()[0])
    loop = jax.jit(lambda *carry: jax.lax.fori_loop(width, total, draw, carry)[1])
    tokens = np.asarray(loop(params, tokens, jax.random.key(config.seed)))[:, :total]
    return [{"prompt": _decode(row[:width]), "text": _decode(row[width:])} for row in tokens]


def _decode(row: Any) -> str:
    return bytes(row.astype(np.uint8)).decode(errors="replace")
