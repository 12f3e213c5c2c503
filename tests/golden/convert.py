#!/usr/bin/env python3
"""Turns .npz files into what C++ reads without a zip library.

    convert.py NPZ... --out FOLDER

For each NAME.npz writes NAME.bin, all arrays little-endian and contiguous one behind the other, and NAME.json, an
index {array: {"dtype": "f32" | "bf16", "shape": [...], "offset": bytes}}. uint16 arrays hold bf16 bits.
"""
import argparse
import json
from pathlib import Path

import numpy as np

DTYPES = {"float32": "f32", "uint16": "bf16"}


def convert(source, folder):
    index, blob = {}, bytearray()
    with np.load(source) as arrays:
        for name in arrays.files:
            array = np.ascontiguousarray(arrays[name])
            index[name] = {"dtype": DTYPES[array.dtype.name], "shape": list(array.shape), "offset": len(blob)}
            blob += array.astype(array.dtype.newbyteorder("<")).tobytes()
            blob += bytes(-len(blob) % 4)
    rows = ",\n".join(f"  {json.dumps(name)}: {json.dumps(entry)}" for name, entry in index.items())
    (folder / f"{source.stem}.bin").write_bytes(blob)
    (folder / f"{source.stem}.json").write_text("{\n" + rows + "\n}\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("npz", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    for path in arguments.npz:
        convert(path, arguments.out)
