"""Training: the loss falls, runs repeat, implementations and numbers of devices agree."""

import dataclasses

import pytest

from mhc_kernels.demo import Config, checks, train


def apart(a, b):
    assert len(a.losses) == len(b.losses) > 0
    return max(abs(x - y) for x, y in zip(a.losses, b.losses))


def test_loss_falls(whole, plain):
    for result in (whole, plain):
        check = checks.falls(result.to_json())
        assert check["passed"], check
        assert result.finished and len(result.losses) == result.config.steps


def test_the_result_says_what_it_took(whole):
    assert whole.steps_per_second > 0 and whole.processor_seconds > 0
    assert whole.tokens_per_second == pytest.approx(whole.steps_per_second * 8 * 32)
    assert whole.peak_bytes > 100 << 20 and whole.temporary_bytes > 0 and whole.compile_seconds > 0
    assert [row["step"] for row in whole.held_out] == [0, 5, 10, 15, 20]
    assert len(whole.samples) == 3 and all(s["prompt"] and s["text"] for s in whole.samples)


def test_the_first_step_counts(tiny):
    """Its rate is a share of the warm-up above 0, so that the second loss is of other parameters."""
    still = train(tiny.replace(learning_rate=1e-30, steps=2, evaluations=2, sample_bytes=0))
    found = train(tiny.replace(steps=2, evaluations=2, sample_bytes=0))
    assert found.losses[0] == still.losses[0] and found.losses[1] < still.losses[1]


def test_one_seed_gives_equal_losses(tiny, whole):
    again = train(tiny)
    assert again.losses == whole.losses
    assert again.samples == whole.samples


def test_kernel_and_reference_agree(whole, reference):
    check = checks.first_steps(whole.to_json(), reference.to_json())
    assert check["passed"], check
    assert 0 < apart(whole, reference)  # two programs, not one twice


def test_the_comparison_sees_another_model(whole, plain):
    assert not checks.first_steps(whole.to_json(), plain.to_json())["passed"]


def test_eight_devices_give_the_losses_of_one(tiny, whole):
    assert apart(whole, train(tiny.replace(devices=8, sample_bytes=0))) < 0.01


def test_remat_gives_the_same_losses_from_less_memory(tiny, whole):
    result = train(tiny.replace(remat=True, sample_bytes=0))
    assert apart(whole, result) < 0.01
    assert result.temporary_bytes < whole.temporary_bytes


@pytest.mark.parametrize(
    "manifold",
    ["sinkhorn", *(pytest.param(m, marks=pytest.mark.slow) for m in ("identity", "unconstrained"))],
)
def test_every_manifold_trains(tiny, manifold):
    result = train(tiny.replace(manifold=manifold, sample_bytes=0))
    assert checks.falls(result.to_json())["passed"]
    if manifold in checks.MARGINS:
        check = checks.on_manifold("kernel", result.to_json())
        assert check["passed"], check
    else:
        assert max(layer["row_error"] for layer in result.streams["layers"]) > 1e-3


def test_devices_that_jax_has_not_are_refused_before_anything_is_written(tiny, tmp_path):
    with pytest.raises(ValueError, match="devices: expected at most the 8 .* got 16; set JAX_NUM"):
        train(tiny.replace(devices=16, batch=16), tmp_path / "run")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "change, message",
    [
        ({"manifold": "sphere"}, "manifold: expected sinkhorn, permutation, .* got 'sphere'"),
        ({"streams": 6}, "streams: expected 1 to 5 for manifold permutation, got 6"),
        ({"implementation": "both"}, "implementation: expected"),
        ({"residual": "none"}, "residual: expected"),
        ({"seed": 2**31 - 1}, "seed: expected 0 to 2147483646, got 2147483647"),
        ({"steps": 0}, "steps: expected a whole number of at least 1, got 0"),
        ({"batch": 6, "devices": 4}, "batch: expected a multiple of devices=4, got 6"),
        ({"embedding": 100}, "embedding: expected a multiple of 2\\*heads=8, got 100"),
        ({"learning_rate": float("nan")}, "learning_rate: expected"),
    ],
)
def test_config_names_the_field(change, message):
    with pytest.raises(ValueError, match=message):
        Config(**change)


def test_config_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Config().steps = 3
