"""One step of training as a compiled program, and the loss on held-out text."""

from __future__ import annotations

import math
from typing import Any, Callable

import jax
import jax.numpy as jnp
import optax
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from mhc_kernels.demo import model
from mhc_kernels.demo.config import Config

Array = jax.Array


def loss_of(structure: Any, params: Any, batch: Array) -> tuple[Array, Array]:
    """The mean of -log p(next byte) in nats, in f32, and model.apply's finiteness.

    batch: int32 [B, S + 1].
    """
    logits, finite = model.apply(structure, params, batch[:, :-1])
    losses = optax.softmax_cross_entropy_with_integer_labels(logits, batch[:, 1:])
    return jnp.mean(losses), finite


def optimizer(config: Config) -> optax.GradientTransformation:
    """AdamW with warm-up and cosine decay over config.steps, gradients clipped to norm 1; matrices
    of linear layers decay, nothing else does.

    The moments are one vector of all parameters: one loop to compile, not one per parameter.
    """
    warmup = max(1, round(config.warmup * config.steps))
    # From above 0: the first step counts.
    rate = optax.warmup_cosine_decay_schedule(
        init_value=config.learning_rate / warmup,
        peak_value=config.learning_rate,
        warmup_steps=warmup,
        decay_steps=max(2, config.steps + 1),
        end_value=0.05 * config.learning_rate,
    )
    return optax.chain(
        optax.flatten(optax.chain(optax.clip_by_global_norm(1.0), optax.scale_by_adam(b2=0.95))),
        optax.add_decayed_weights(0.1, _matrices),
        optax.scale_by_learning_rate(rate),
    )


def _matrices(params: Any) -> Any:
    """True where a parameter is the matrix of a linear layer."""
    is_matrix = lambda path, _: getattr(path[-1], "key", None) == "kernel"
    return jax.tree_util.tree_map_with_path(is_matrix, params)


def init(config: Config) -> Any:
    """The state before the first step: dict of params and optimizer."""
    params = model.init(config)
    return {"params": params, "optimizer": optimizer(config).init(params)}


def step_of(structure: Any, config: Config) -> Callable[[Any, Array], tuple[Any, Any]]:
    """(state, batch) to (state, metrics). state: dict of params and optimizer; metrics: loss, and
    which parts are finite: sites [sites], gradients {part: bool}, update."""
    update = optimizer(config).update

    def step(state: Any, batch: Array) -> tuple[Any, Any]:
        grad = jax.value_and_grad(lambda p: loss_of(structure, p, batch), has_aux=True)
        (loss, sites), gradients = grad(state["params"])
        updates, inner = update(gradients, state["optimizer"], state["params"])
        metrics = {
            "loss": loss,
            "sites": sites,
            "gradients": {k: _finite(v) for k, v in parts(gradients).items()},
            "update": _finite(updates),
        }
        return {
            "params": optax.apply_updates(state["params"], updates),
            "optimizer": inner,
        }, metrics

    return step


def parts(params: Any) -> dict[str, Any]:
    """Parameters by the part of the model that they belong to, each site by itself."""
    rest = {k: v for k, v in params.items() if k != "sites"}
    return {**{f"site {k}": v for k, v in params.get("sites", {}).items()}, **rest}


def _finite(tree: Any) -> Array:
    return jnp.isfinite(optax.tree.norm(tree))


def first_bad(metrics: Any, names: list[str]) -> str | None:
    """The first part of the model that is not finite, forward and then backward, or None.

    metrics: of a step, on the host; names: of the sites.
    """
    for name, finite in zip(names, metrics["sites"]):
        if not finite:
            return f"layer {name}"
    if not math.isfinite(metrics["loss"]):
        return "the loss, behind the last layer,"
    # The way of the gradient.
    sites = [(f"site {k}", f"layer {name}") for k, name in enumerate(names)]
    order = [("out", "out"), ("norm", "norm"), ("head", "head"), *reversed(sites)]
    for part, name in [*order, ("embedding", "embedding")]:
        if not metrics["gradients"].get(part, True):
            return f"the gradient of {name}"
    return None if metrics["update"] else "the optimiser's update"


class Placement:
    """Where arrays live: the batch sharded over the first config.devices devices, the rest on each
    of them.

    Raises ValueError where JAX has fewer devices.
    """

    def __init__(self, config: Config) -> None:
        have = jax.device_count()
        if have < config.devices:
            raise ValueError(
                f"devices: expected at most the {have} that JAX has started with, got "
                f"{config.devices}; set JAX_NUM_CPU_DEVICES={config.devices} before JAX is "
                f"imported, as python -m mhc_kernels.demo --devices {config.devices} does"
            )
        mesh: Mesh = jax.make_mesh(
            (config.devices,),
            ("data",),
            axis_types=(AxisType.Auto,),
            devices=jax.devices()[: config.devices],
        )
        self._batch = NamedSharding(mesh, PartitionSpec("data"))
        self._replicated = NamedSharding(mesh, PartitionSpec())

    def batch(self, batch: Any) -> Any:
        return jax.device_put(batch, self._batch)

    def replicated(self, tree: Any) -> Any:
        return jax.device_put(tree, self._replicated)
