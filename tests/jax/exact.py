"""A site in double, written out in numpy, and what f32 arithmetic may lose of each element.

u = 2^-24. A sum of k products in f32 is within (k + 2) u of the sum of their absolute values, so
every element's bound is made of such sums; the error of an intermediate passes on with the absolute
values of what multiplies it, through a manifold with those of its derivative. First-order terms
only; that a derivative itself moves with the logits is a share of it, at most CURVE times their
error, for sigmoids and softmaxes and what is made of them.

The one thing not written out is the manifold: its values and its derivative come from the library's
double path, which the C++ tests compare with 60 digits.
"""

import dataclasses
import math

import jax
import jax.numpy as jnp
import mhc_kernels.jax as mj
import numpy as np
from support import wide

U = 2.0**-24
CURVE = 4.0


@dataclasses.dataclass
class Exact:
    value: np.ndarray
    bound: np.ndarray


def _gates(logit, spec):
    """h [t, 2n + n*n] and its derivative [t, h, logit]."""
    spec, t, n = spec.replace(norm_eps=1.2e-38), logit.shape[0], spec.streams
    with jax.enable_x64(True):
        params = mj.Params(
            jnp.zeros((spec.coefficients, 1, 1)), jnp.ones(3), jnp.zeros(spec.coefficients)
        )
        squares = jnp.full(t, float(n))
        f = lambda q: mj.coefficients_from_partials(q, squares, params, spec, embedding=1)
        h, back = jax.vjp(f, jnp.asarray(logit))
        flat = lambda h: np.concatenate(
            [np.asarray(v).reshape(t, math.prod(v.shape[1:])) for v in h], 1
        )
        split = lambda v: tuple(
            jnp.asarray(np.broadcast_to(p, (t, p.size)).reshape(t, *s))
            for p, s in zip(np.split(v, [n, 2 * n]), ((n,), (n,), (n, n)))
        )
        rows = [np.asarray(back(split(unit))[0]) for unit in np.eye(2 * n + n * n)]
        return flat(h), np.stack(rows, 1)


def of_site(x, params, y, du, g, spec):
    """layer_input, x_next and all gradients of <layer_input, du> + <x_next, g>, y given."""
    x, y, du, g = map(wide, (x, y, du, g))
    phi, alpha, bias, weight = (wide(v) for v in dataclasses.astuple(params))
    t, n, d = x.shape
    k, m = n * d, spec.coefficients
    groups = np.repeat([0, 1, 2], [n, n, spec.logits])
    a, phi_eff = alpha[groups], phi * weight
    dot = lambda rule, *v: np.einsum(rule, *v, optimize=True)
    split = lambda h: (h[:, :n], h[:, n : 2 * n], h[:, 2 * n :].reshape(t, n, n))
    products = lambda x, y, du, g: np.concatenate(  # of which d_h are the sums
        [
            dot("tid,td->ti", x, du),
            dot("tjd,td->tj", g, y),
            dot("tid,tjd->tij", x, g).reshape(t, n * n),
        ],
        axis=1,
    )
    layer_input = lambda h_pre, x: dot("ti,tid->td", h_pre, x)
    x_next = lambda h_post, h_res, x, y: (
        dot("tij,tid->tjd", h_res, x) + h_post[..., None] * y[:, None]
    )
    direct = lambda h_pre, h_res, du, g: (  # d_x with the gates fixed
        dot("tij,tjd->tid", h_res, g) + h_pre[..., None] * du[:, None]
    )
    through = lambda d_q, phi: dot("tc,cid->tid", d_q, phi)
    by_group = lambda v: np.stack([v[:, groups == r].sum() for r in range(3)])

    q = dot("tid,cid->tc", x, phi_eff)
    inv = 1 / np.sqrt(np.square(x).sum((1, 2)) / k + spec.norm_eps)
    z = q * inv[:, None]
    logit = a * z + bias
    h, slope = _gates(logit, spec)
    h_pre, h_post, h_res = split(h)
    d_h = products(x, y, du, g)
    d_logit = dot("th,thc->tc", d_h, slope)
    dz = a * d_logit
    d_q = inv[:, None] * dz
    d_phi_eff = dot("tc,tid->cid", d_q, x)
    value = {
        "layer_input": layer_input(h_pre, x),
        "x_next": x_next(h_post, h_res, x, y),
        "d_x": direct(h_pre, h_res, du, g)
        + through(d_q, phi_eff)
        - (inv**2 / k * (dz * z).sum(1))[:, None, None] * x,
        "d_layer_output": dot("tj,tjd->td", h_post, g),
        "d_phi": d_phi_eff * weight,
        "d_norm_weight": (d_phi_eff * phi).sum(0),
        "d_bias": d_logit.sum(0),
        "d_alpha": by_group(d_logit * z),
    }

    # ---- Bounds: the same sums over absolute values.
    ax, ay, adu, ag, aphi, ah, aslope = map(np.abs, (x, y, du, g, phi_eff, h, slope))
    ah_pre, ah_post, ah_res = split(ah)
    chain = (min(512, d) + n * (-(-d // 512)) + 8) * U  # blocks of 512 features, then their sums
    e_z = (chain + 8 * U) * dot("tid,cid->tc", ax, aphi) * inv[:, None]
    e_logit = np.abs(a) * e_z + 4 * U * (np.abs(a * z) + np.abs(bias))
    # A step of Sinkhorn rounds two sums of n and a division, in turn for rows and columns.
    steps = 2 * getattr(spec.manifold, "iterations", 1) * (n + 2)
    e_h = dot("thc,tc->th", aslope, e_logit) + (8 + steps) * U * ah
    e_h_pre, e_h_post, e_h_res = split(e_h)
    moved = CURVE * e_logit.max(1, initial=0.0)[:, None]
    a_d_h = products(ax, ay, adu, ag)
    e_d_logit = dot("th,thc->tc", chain * a_d_h + (moved + (8 + steps) * U) * np.abs(d_h), aslope)
    e_dz = np.abs(a) * e_d_logit + 2 * U * np.abs(dz)
    e_d_q = inv[:, None] * e_dz + 4 * U * np.abs(d_q)
    norm = (m + 16) * U * np.abs(dz * z) + e_dz * np.abs(z) + np.abs(dz) * e_z
    bound = {
        "layer_input": (n + 3) * U * layer_input(ah_pre, ax) + layer_input(e_h_pre, ax),
        "x_next": (n + 4) * U * x_next(ah_post, ah_res, ax, ay) + x_next(e_h_post, e_h_res, ax, ay),
        "d_x": (m + n + 8) * U * (direct(ah_pre, ah_res, adu, ag) + through(np.abs(d_q), aphi))
        + direct(e_h_pre, e_h_res, adu, ag)
        + through(e_d_q, aphi)
        + (inv**2 / k * norm.sum(1))[:, None, None] * ax,
        "d_layer_output": dot("tj,tjd->td", (n + 2) * U * ah_post + e_h_post, ag),
        "d_bias": (e_d_logit + (t + 4) * U * np.abs(d_logit)).sum(0),
        "d_alpha": by_group(
            e_d_logit * np.abs(z) + np.abs(d_logit) * e_z + (t * m + 4) * U * np.abs(d_logit * z)
        ),
    }
    e_phi = dot("tc,tid->cid", (t + 4) * U * np.abs(d_q) + e_d_q, ax)
    bound["d_phi"] = e_phi * np.abs(weight) + 2 * U * np.abs(value["d_phi"])
    bound["d_norm_weight"] = (e_phi * np.abs(phi) + (m + 2) * U * np.abs(d_phi_eff * phi)).sum(0)
    return {name: Exact(value[name], bound[name]) for name in value}


def assert_within(got, exact, what):
    """Every element of every tensor within its bound."""
    for name, e in exact.items():
        v = wide(got[name])
        assert v.shape == e.value.shape, f"{what} {name}: {v.shape} {e.value.shape}"
        assert np.isfinite(v).all(), f"{what} {name}"
        if v.size:
            share = np.abs(v - e.value) / np.maximum(e.bound, 1e-300)
            assert share.max() <= 1, (
                f"{what} {name}: {share.max():.3g} times the bound at "
                f"{np.unravel_index(share.argmax(), share.shape)}"
            )
