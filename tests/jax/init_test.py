"""Where training starts: init_params near the ordinary residual connection."""

import jax
import jax.numpy as jnp
import mhc_kernels as mhc
import mhc_kernels.jax as mj
import numpy as np
import pytest
from support import MANIFOLDS, make


@pytest.mark.parametrize("n", [1, 4])
@pytest.mark.parametrize("manifold", MANIFOLDS)
def test_the_start_is_nearly_a_residual_connection(manifold, n):
    """h_pre = 1/n, h_post = 1, h_res = I, to what alpha = 0.01 and the lead of 8 logits leave."""
    spec = mhc.Spec(streams=n, manifold=manifold)
    x = make(spec, (6,), 32)[0]
    params = mj.init_params(jax.random.key(1), spec, 32)
    h_pre, h_post, h_res = mj.coefficients(x, params, spec)
    np.testing.assert_allclose(h_pre, 1 / n, rtol=0.05)
    np.testing.assert_allclose(h_post, 1, rtol=0.05)
    np.testing.assert_allclose(h_res, np.broadcast_to(np.eye(n), h_res.shape), atol=0.05)


@pytest.mark.parametrize(
    "post_mult, start",
    [(2.0, 1.0), (1.0, 0.999), (0.25, 0.24975), (1e6, 1.0), (0.0, 0.0), (-3.0, -1.5)],
)
def test_any_post_mult_has_a_start(post_mult, start):
    """As near to 1 as it comes, from where the gate still moves."""
    spec = mhc.Spec(post_mult=post_mult)
    params = mj.init_params(jax.random.key(2), spec, 16)
    assert np.isfinite(np.asarray(params.bias)).all()
    still = mj.Params(params.phi, 0 * params.alpha, params.bias)
    np.testing.assert_allclose(
        mj.coefficients(jnp.ones((2, 4, 16)), still, spec)[1], start, rtol=1e-4
    )
