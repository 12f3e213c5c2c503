"""Three steps of gradient descent on four devices: two_processes.py PORT PROCESSES INDEX. Prints
loss and sums of parameters."""

import os
import sys

port, processes, index = map(int, sys.argv[1:4])
os.environ["JAX_NUM_CPU_DEVICES"] = str(4 // processes)
os.environ["JAX_CPU_COLLECTIVES_IMPLEMENTATION"] = "gloo"

import jax

if processes > 1:
    jax.distributed.initialize(f"127.0.0.1:{port}", processes, index)

import jax.numpy as jnp
import mhc_kernels as mhc
import mhc_kernels.jax as mj
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

spec = mhc.Spec.preset("deepseek_v4", manifold="permutation")
mesh = jax.make_mesh((4,), ("tokens",), axis_types=(AxisType.Auto,))
rng = np.random.default_rng(0)
x = rng.standard_normal((8, 6, 4, 16), np.float32)
target = rng.standard_normal(x.shape, np.float32)
params = jax.tree.map(lambda v: np.asarray(v), mj.init_params(jax.random.key(0), spec, 16))


def globally(value, *axes):
    sharding = NamedSharding(mesh, P(*axes))
    return jax.make_array_from_callback(value.shape, sharding, lambda where: value[where])


@jax.jit
def step(params, x, target):
    def loss(params):
        u, state = mj.pre(x, params, spec)
        return jnp.mean((mj.post(jnp.tanh(u), state) - target) ** 2)

    value, gradient = jax.value_and_grad(loss)(params)
    return jax.tree.map(lambda p, d: p - 3.0 * d, params, gradient), value


params = jax.tree.map(globally, params)
x, target = globally(x, "tokens"), globally(target, "tokens")
losses = []
for _ in range(3):
    params, value = step(params, x, target)
    losses.append(float(value))
local = [np.asarray(p.addressable_data(0)) for p in jax.tree.leaves(params)]
assert losses[2] < losses[0]
print("RESULT", *losses, *(float(np.abs(v).sum()) for v in local))
