"""The text, its split and its batches."""

import numpy as np
import pytest

from mhc_kernels.demo import Config, text


def test_the_standard_library_is_long_and_the_same_each_time():
    a, b = text.load(Config()), text.load(Config())
    assert a.digest == b.digest and a.size > 4_000_000
    everything = a.train.tobytes() + a.held_out.tobytes()
    assert b"def " in everything
    assert b"builtins.str.join: Concatenate any number of strings" in everything


@pytest.mark.parametrize("size", [66, 100, 5000, 400_000])
def test_no_byte_is_in_both_parts(size):
    data = np.arange(size, dtype=np.uint32)
    split = text.split("test", bytes(size), 32)
    assert split.size == size
    assert min(len(split.train), len(split.held_out)) > 32
    assert len(split.held_out) <= max(33 + 32, size // 8) or size < 200
    # Blocks of distinct bytes: what is held out is not in the rest.
    block = max(33, size // 20)
    marked = text.split("test", (data // min(block, 16384) % 251).astype(np.uint8).tobytes(), 32)
    if size // block < 251:
        assert not set(marked.train.tolist()) & set(marked.held_out.tolist()) or size < 200


def test_batches_depend_on_seed_and_step_alone(tiny):
    data = text.load(tiny)
    first = text.batch(data, tiny, 3)
    assert first.shape == (8, 33) and first.dtype == np.int32
    text.batch(data, tiny, 4)
    np.testing.assert_array_equal(first, text.batch(data, tiny, 3))
    assert (first != text.batch(data, tiny, 4)).any()
    assert (first != text.batch(data, tiny.replace(seed=1), 3)).any()
    joined = data.train.tobytes()
    assert all(row.astype(np.uint8).tobytes() in joined for row in first)


def test_held_out_batches_are_from_the_held_out_part(tiny):
    data = text.load(tiny)
    joined = data.held_out.tobytes()
    for batch in text.held_out_batches(data, tiny.replace(held_out_batches=2)):
        assert batch.shape == (8, 33)
        assert all(row.astype(np.uint8).tobytes() in joined for row in batch)


def test_a_folder_is_read_in_order_without_hidden_and_binary_files(tmp_path):
    (tmp_path / "b").mkdir()
    for name, data in [("b/1.txt", b"third"), ("a.txt", b"first"), ("b/.x", b"no"), ("z", b"\0no")]:
        (tmp_path / name).write_bytes(data)
    assert text.folder(tmp_path) == b"firstthird"
