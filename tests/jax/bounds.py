"""Elementwise bounds of a site's tensors in f32: what its arithmetic may lose, from f64 values.

u = 2^-24. A sum of k products loses at most (k + 1) u times the sum of their absolute values.
Chains
here: 512 features plus blocks for the projection, D for d_h, the tokens for parameters. Errors of
an intermediate pass on with the absolute values of what multiplies them. The manifolds and sigmoids
have derivatives of at most a few, which `gain` covers; first-order terms only.
"""

import jax
import numpy as np
from mhc_kernels.jax import _reference
from support import wide

U = 2.0**-24


def of_site(x, params, spec, branch, g, manifold_gain):
    """Bounds for x_next, d_x and the gradients of the parameters; all arguments f64."""
    n, d = x.shape[-2:]
    x, g = x.reshape(-1, n, d), g.reshape(-1, n, d)
    tokens = x.shape[0]
    phi = params.phi if params.norm_weight is None else params.phi * params.norm_weight
    q, ss = _reference.project(x, params.phi, params.norm_weight, spec)
    inv_rms = _reference.inv_rms_of(ss, n * d, spec)
    alpha = wide(params.alpha)[np.repeat([0, 1, 2], [n, n, spec.logits])]

    def forward(q):
        h_pre, h_post, h_res = _reference.gates(q, ss, params.alpha, params.bias, n * d, spec)
        u = _reference.apply_pre(x, h_pre, spec)
        return _reference.post(x, branch(u), h_post, h_res, spec), (h_pre, h_post, h_res, u)

    x_next, back, (h_pre, h_post, h_res, u) = jax.vjp(forward, q, has_aux=True)
    d_q = np.abs(wide(back(g)[0]))
    ax, ag, aphi = np.abs(wide(x)), np.abs(wide(g)), np.abs(wide(phi))
    chain = min(512, d) + 16
    # Gates.
    e_z = (chain + 8) * U * np.einsum("tid,cid->tc", ax, aphi) * wide(inv_rms)[:, None]
    e_logit = np.abs(alpha) * e_z + 4 * U * (1 + np.abs(alpha * wide(q)))
    e_gate = manifold_gain * (e_logit.max(axis=-1) + 8 * U)
    y = np.abs(wide(branch(u)))
    mix = (
        np.einsum("tij,tid->tjd", np.abs(wide(h_res)), ax)
        + np.abs(wide(h_post))[..., None] * y[:, None]
    )
    spread = ax.sum(axis=1, keepdims=True) + y[:, None]
    e_next = (n + 4) * U * mix + e_gate[:, None, None] * spread * 4
    # Backward: every d_h is a sum over features of x, y or du with g; du is at most sum_j |h_post
    # g|.
    du = np.einsum("tj,tjd->td", np.abs(wide(h_post)), ag)
    h_terms = np.concatenate(
        [
            np.einsum("tid,td->ti", ax, du),
            np.einsum("tjd,td->tj", ag, y),
            np.einsum("tid,tjd->tij", ax, ag).reshape(tokens, -1),
        ],
        axis=-1,
    )
    total = h_terms.sum(axis=-1)
    e_d_logit = manifold_gain * ((chain + 16) * U * total + e_gate * total)
    e_d_q = np.abs(alpha).max() * wide(inv_rms) * e_d_logit
    e_dx = (
        np.einsum("tc,cid->tid", d_q, aphi) * (spec.coefficients + 8) * U
        + e_d_q[:, None, None] * aphi.sum(axis=0)
        + 8
        * U
        * (
            np.einsum("tij,tjd->tid", np.abs(wide(h_res)), ag)
            + np.abs(wide(h_pre))[..., None] * du[:, None]
        )
        + e_gate[:, None, None] * (ag.sum(axis=1, keepdims=True) + du[:, None])
        + (np.abs(wide(q)).sum(-1) * e_d_q * wide(inv_rms) ** 2 / (n * d))[:, None, None] * ax
    )
    e_phi = np.einsum("tc,tid->cid", d_q * (tokens + 8) * U + e_d_q[:, None], ax)
    return {
        "x_next": e_next,
        "d_x": e_dx,
        "d_phi_eff": e_phi,
        "d_bias": np.full(spec.coefficients, e_d_logit.sum() + (tokens + 8) * U * total.sum()),
        "scale": np.abs(wide(x_next)),
    }


def assert_within(got, want, bound, what):
    error = np.abs(wide(got).reshape(np.shape(bound)) - wide(want).reshape(np.shape(bound)))
    share = error / np.maximum(bound, 1e-300)
    assert np.isfinite(wide(got)).all(), what
    assert share.max() <= 1, (
        f"{what}: {share.max():.3g} times the bound, "
        f"at {np.unravel_index(share.argmax(), share.shape)}"
    )
