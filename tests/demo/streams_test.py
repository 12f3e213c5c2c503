"""What is said about the streams is what the model does."""

import jax.numpy as jnp
import numpy as np
import pytest

import mhc_kernels.jax as mj
from mhc_kernels.demo import model, step, streams, text


@pytest.fixture(scope="module", params=["permutation", "unconstrained"])
def watched(request, tiny):
    """The config, what `watch` says of the first parameters, and x at each site."""
    config = tiny.replace(manifold=request.param)
    params = step.init(config)["params"]
    batch = jnp.asarray(text.held_out_batches(text.load(config), config)[0])
    structure = model.structure(config)
    sites = []
    model.apply(
        structure, params, batch[:, :-1], lambda name, site, x: sites.append((name, site, x))
    )
    return config, streams.watch(structure, params, config, batch), sites


def test_gates_sums_and_norms(watched):
    config, found, sites = watched
    assert [layer["name"] for layer in found["layers"]] == config.sites
    assert [name for name, _, _ in sites] == [*config.sites, "out"]
    for layer, (_, site, x) in zip(found["layers"], sites):
        x = x.astype(jnp.float32)
        h_pre, h_post, h_res = mj.coefficients(
            x, site.params(), config.spec, implementation="reference"
        )
        close = lambda got, want: np.testing.assert_allclose(got, want, rtol=2e-3, atol=2e-4)
        close(layer["h_pre"], np.mean(h_pre, (0, 1)))
        close(layer["h_post"], np.mean(h_post, (0, 1)))
        close(layer["h_res"], np.mean(h_res, (0, 1)))
        close(layer["row_sums"], np.mean(h_res, (0, 1)).sum(1))
        close(layer["column_sums"], np.mean(h_res, (0, 1)).sum(0))
        close(layer["row_error"], np.max(np.abs(np.sum(h_res, -1) - 1)))
        close(layer["column_error"], np.max(np.abs(np.sum(h_res, -2) - 1)))
        close(layer["stream_norm"], np.sqrt(np.mean(np.square(x), (0, 1, 3))))
    out = np.sqrt(np.mean(np.square(sites[-1][2].astype(jnp.float32)), (0, 1, 3)))
    np.testing.assert_allclose(found["stream_norm_out"], out, rtol=2e-3)


def test_gain_is_that_of_the_product_through_depth(watched):
    config, found, sites = watched
    product = np.eye(config.streams)
    for k, (_, site, x) in enumerate(sites[:-1]):
        product = product @ np.asarray(
            mj.coefficients(x.astype(jnp.float32), site.params(), config.spec)[2]
        )
        # out[j] = sum_i P[i, j] in[i]: a column belongs to an output.
        size = np.abs(product)
        forward, backward = size.sum(-2).max(), size.sum(-1).max()
        assert found["gain"]["forward"][k] == pytest.approx(forward, rel=2e-3)
        assert found["gain"]["backward"][k] == pytest.approx(backward, rel=2e-3)
    if config.manifold == "permutation":
        np.testing.assert_allclose(found["gain"]["forward"], 1, atol=1e-4)
    else:
        assert found["gain"]["forward"][-1] > 1.01


def test_entropy_is_that_of_the_weights(watched):
    config, found, sites = watched
    if config.manifold != "permutation":
        assert all(layer["permutation_entropy"] is None for layer in found["layers"])
        return
    import itertools

    perms = np.array(list(itertools.permutations(range(config.streams))))
    for layer, (_, site, x) in zip(found["layers"], sites):
        x = x.astype(jnp.float32)
        weights = np.asarray(streams.permutation_weights(site.params(), config, x), np.float64)
        mixed = np.einsum("...p,pij->...ij", weights, np.eye(config.streams)[perms])
        h_res = mj.coefficients(x, site.params(), config.spec)[2]
        np.testing.assert_allclose(mixed, h_res, atol=1e-5)
        entropy = -np.sum(weights * np.log(weights), -1).mean()
        assert layer["permutation_entropy"] == pytest.approx(entropy, rel=1e-3)


def test_training_parts_the_streams(whole):
    """They start equal behind `expand`; what the sites write makes them differ."""
    layers = whole.streams["layers"]
    assert np.ptp(layers[0]["stream_norm"]) < 1e-3
    assert np.ptp(layers[-1]["stream_norm"]) > 1e-2
