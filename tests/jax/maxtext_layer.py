"""MaxText's own layer, from the package maxtext==0.2.5 without its dependencies: what it imports
and does not have (quantisation, mostly) gets empty stand-ins, which its mHC layer does not
touch."""

import importlib
import importlib.abc
import importlib.machinery
import math
import sys
import types
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P


class _StandIn(type):
    """A class whose attributes are such classes; it may be a base, called, or used as a decorator's
    argument."""

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return _StandIn(
            name,
            (),
            {
                "__init__": lambda self, *a, **k: None,
                "__call__": lambda self, f=None, *a, **k: f,
                "__getattr__": lambda self, n: stand_in(n),
            },
        )


def stand_in(name):
    return getattr(_StandIn("Root", (), {}), name)


class StandIns(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Modules of the named packages, every attribute of which is a stand-in."""

    def __init__(self):
        self.packages = set()

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in self.packages:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        module = types.ModuleType(spec.name)
        module.__path__ = []
        module.__getattr__ = stand_in
        return module

    def exec_module(self, module):
        pass


def import_layer():
    stand_ins = StandIns()
    sys.meta_path.append(stand_ins)
    for _ in range(30):
        try:
            return importlib.import_module("maxtext.layers.mhc")
        except ModuleNotFoundError as error:
            package = error.name.split(".")[0]
            if package in stand_ins.packages or package == "maxtext":
                raise
            stand_ins.packages.add(package)
    raise AssertionError("too many missing packages")


N, D = 4, 32


def make_layer(use_kernel, shape, lite=True, make=None):
    """A layer on a mesh of that shape; make: the class, in place of MaxText's own."""
    from flax import nnx

    module = import_layer()
    config = mock.Mock(
        spec_set=[
            "sinkhorn_iterations",
            "mhc_expansion_rate",
            "dtype",
            "weight_dtype",
            "matmul_precision",
            "enable_mhc_lite",
            "use_mhc_pallas_kernel",
            "normalization_layer_epsilon",
            "shard_mode",
            "debug_sharding",
        ]
    )
    config.configure_mock(
        sinkhorn_iterations=20,
        mhc_expansion_rate=N,
        dtype=jnp.float32,
        weight_dtype=jnp.float32,
        matmul_precision="highest",
        enable_mhc_lite=lite,
        use_mhc_pallas_kernel=use_kernel,
        normalization_layer_epsilon=1e-5,
    )
    module.get_permutation_matrices(
        N
    )  # it keeps its first result, which under jit would be a tracer that leaks
    mesh = jax.sharding.Mesh(
        np.array(jax.devices()[: math.prod(shape)]).reshape(shape), ("data", "sequence")
    )
    make = make or module.ManifoldConstrainedHyperConnections
    layer = make(config, D, mesh, nnx.Rngs(0))
    return layer, mesh, module


def run_layer(made):
    """Output and gradients of x and of all parameters, forward and backward through the layer."""
    from flax import nnx

    layer, mesh, module = made
    rng = np.random.default_rng(0)
    x = jnp.asarray(rng.standard_normal((8, 6, N, D)), jnp.float32)
    g = jnp.asarray(rng.standard_normal(x.shape), jnp.float32)
    graph, state, rest = nnx.split(layer, nnx.Param, ...)
    # The initial gates are zero: give them values.
    flat, tree = jax.tree.flatten(state)
    flat = [v + jnp.asarray(0.3 * rng.standard_normal(v.shape), v.dtype) for v in flat]
    state = jax.tree.unflatten(tree, flat)

    def loss(state, x, g):
        layer = nnx.merge(graph, state, rest)
        out, _ = layer(
            lambda u: u, lambda inputs: jnp.tanh(inputs), x, module.HyperConnectionType.MLP_DENSE
        )
        return jnp.sum(out * g), out

    with mesh:
        put = lambda v: jax.device_put(v, NamedSharding(mesh, P("data", "sequence")))
        gradients, out = jax.jit(jax.grad(loss, (0, 1), has_aux=True))(state, put(x), put(g))
    return out, jax.tree.leaves(gradients)


def names_of_the_kernel_module():
    """maxtext.kernels.mhc.api, and the module of its parts, which are what the layer is given."""
    import_layer()
    return (
        importlib.import_module("maxtext.kernels.mhc"),
        importlib.import_module("maxtext.kernels.mhc.common"),
    )
