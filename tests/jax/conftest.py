"""Kinds of mesh axes, and what one device computes."""

import pytest


@pytest.fixture(params=["auto", "explicit"])
def kind(request):
    """A kind of mesh axes."""
    return request.param


@pytest.fixture(scope="session")
def one_device():
    """The site of tests/jax/meshes.py on one device: x_next; d_x and d_params."""
    import jax
    from meshes import backward, forward, g, params, x

    return jax.jit(forward)(x, params), jax.jit(backward)(x, params, g)
