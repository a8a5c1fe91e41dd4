"""Reads exports with readers that know nothing of libzero, and compares them with the checkpoint's masters.

usage: export_reader_test.py SOURCE WRITER h5py|package

h5py: safetensors are read by a few lines here, HDF5 by h5py. package: safetensors are read by the Python package.
Exit code 77 means skipped: a package is not there.
"""

import json
import os
import re
import subprocess
import sys
import tempfile

try:
    import numpy as np
    if sys.argv[3] == "package":
        import safetensors
    else:
        import h5py
except ImportError as missing:
    print(f"skipped: {missing}; apt-get install python3-h5py, or pip install safetensors numpy")
    sys.exit(77)

source, writer, way = sys.argv[1:]
WIDTHS = {"F32": 4, "BF16": 2, "F16": 2, "I64": 8, "U8": 1}
SHORT = {"float32": "F32", "bfloat16": "BF16", "float16": "F16", "int64": "I64", "uint8": "U8"}
CODES = {1: "float32", 2: "bfloat16", 3: "float16", 4: "int64", 5: "uint8"}


def check(condition, what):
    if not condition:
        sys.exit(f"failed: {what}")


def read_safetensors(path):
    """name -> (dtype, shape, bytes), and the metadata: all that the format is."""
    raw = open(path, "rb").read()
    size = int.from_bytes(raw[:8], "little")
    check(raw[8:9] == b"{" and (8 + size) % 8 == 0, "the header's begin and end")
    header, data = json.loads(raw[8:8 + size]), raw[8 + size:]
    metadata = header.pop("__metadata__", {})
    end = 0
    for name, info in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        begin, stop = info["data_offsets"]
        check(begin == end, f"no hole before {name}")
        check(stop - begin == int(np.prod(info["shape"])) * WIDTHS[info["dtype"]], f"size of {name}")
        check(begin % WIDTHS[info["dtype"]] == 0, f"alignment of {name}")
        end = stop
    check(end == len(data), "no byte behind the last tensor")
    tensors = {name: (i["dtype"], i["shape"], data[slice(*i["data_offsets"])]) for name, i in header.items()}
    return tensors, metadata


def nearest_bfloat16(values):
    """By distance, not by the bits' trick that libzero uses; ties to even; as the bits."""
    out = []
    with np.errstate(over="ignore"):
        for x in values.astype(np.float64).ravel():
            low = np.float32(x).view(np.uint32) >> 16  # toward zero
            if np.isnan(x) or np.isinf(x):
                out.append(0x7FC0 if np.isnan(x) else low)
                continue
            high = low + 1
            a, b = (np.uint32(int(h) << 16).view(np.float32).astype(np.float64) for h in (low, high))
            if np.isinf(b):
                b = np.copysign(2.0 ** 128, x)
            near = abs(x - a) - abs(x - b)
            out.append(low if near < 0 or (near == 0 and low % 2 == 0) else high)
    return np.array(out, np.uint16)


def widened(kind, raw):
    if kind == "bfloat16":
        return (np.frombuffer(raw, np.uint16).astype(np.uint32) << 16).view(np.float32)
    return np.frombuffer(raw, kind)


def rounded(values, kind):
    if kind == "bfloat16":
        return nearest_bfloat16(values).tobytes()
    with np.errstate(over="ignore"):
        return values.astype(kind).tobytes()


def same(kind, a, b):
    if kind in ("int64", "uint8") or a == b:
        return a == b
    x, y = widened(kind, a), widened(kind, b)
    return x.shape == y.shape and bool(((x == y) & (np.signbit(x) == np.signbit(y)) | np.isnan(x) & np.isnan(y)).all())


class Checkpoint:
    """What the checkpoint itself holds, read by h5py and the format page's recipe, or from a dump of that."""

    def __init__(self, folder):
        page = open(os.path.join(source, "docs/checkpoint_format.md"), encoding="utf-8").read()
        recipe = {}
        exec(re.search(r"```python\n(.*?)```", page, re.S).group(1), recipe)
        step = os.path.join(folder, "store/step_000000000009")
        table = h5py.File(os.path.join(step, "common.h5"), "r")["parameters"]
        names = [n.decode() for n in table["name"][:]]
        self.rows, self.aliases = {}, {}
        for row, name in enumerate(names):
            owner = int(table["alias_of"][row])
            if owner >= 0:
                self.aliases[name] = names[owner]
                continue
            kind = CODES[int(table["dtype"][row])]
            shape = [int(d) for d in table["shape"][row] if d >= 0]
            stored = "float32" if table["trainable"][row] else kind
            state = "master" if table["trainable"][row] else "value"
            self.rows[name] = (kind, shape, stored, recipe["load"](step, name, state, stored).tobytes())

    def expected(self, name, target):
        kind, shape, stored, raw = self.rows[name]
        to = target if target and kind not in ("int64", "uint8") else kind
        return to, shape, raw if stored == to else rounded(widened(stored, raw), to)


def check_safetensors(checkpoint, tensors, metadata, target):
    check(sorted(tensors) == sorted(checkpoint.rows), "names")
    for name in checkpoint.rows:
        kind, shape, raw = checkpoint.expected(name, target)
        dtype, got_shape, got = tensors[name]
        check(dtype == SHORT[kind] and got_shape == shape, f"dtype and shape of {name}")
        check(same(kind, raw, got), f"{name} as {kind}")
    prefix = "libzero.alias."
    found = {key[len(prefix):]: owner for key, owner in metadata.items() if key.startswith(prefix)}
    check(found == checkpoint.aliases, "aliases")
    check(metadata["format"] == "pt" and metadata["libzero.step"] == "9", "metadata")


def check_hdf5(checkpoint, path, target):
    with h5py.File(path, "r") as file:
        found = []
        file.visititems(lambda name, item: found.append(name) if isinstance(item, h5py.Dataset) else None)
        names = set(checkpoint.rows) | set(checkpoint.aliases)
        check(len(found) == len(checkpoint.rows) and set(found) <= names, "each dataset is visited once")
        for name in checkpoint.rows:
            kind, shape, raw = checkpoint.expected(name, target)
            check(list(file[name].shape) == shape, f"shape of {name}")
            # numpy has no bfloat16: h5py widens it to float32, exactly.
            want = widened(kind, raw).astype(np.float32 if kind == "bfloat16" else kind)
            got = file[name][()]
            check(got.dtype == want.dtype, f"{name} has dtype {got.dtype}")
            check(same("float32" if kind == "bfloat16" else kind, want.tobytes(), got.tobytes()), f"{name} as {kind}")
        for alias, owner in checkpoint.aliases.items():
            check(file[alias] == file[owner], f"{alias} is {owner}")
        check(file.attrs["format"] == b"libzero-export" and file.attrs["step"] == 9, "attributes")


def check_parts(checkpoint, folder):
    index = json.load(open(os.path.join(folder, "parts.safetensors.index.json"), encoding="utf-8"))
    tensors, metadata = {}, {}
    for part in sorted(set(index["weight_map"].values())):
        here, about = read_safetensors(os.path.join(folder, part))
        check(all(index["weight_map"][name] == part for name in here), f"index of {part}")
        tensors.update(here)
        metadata.update(about)
    check(len(set(index["weight_map"].values())) > 2, "several parts")
    check(index["metadata"]["total_size"] == sum(len(raw) for _, _, raw in tensors.values()), "total size")
    check_safetensors(checkpoint, tensors, metadata, None)


def check_package(folder):
    """The package must read every file as the few lines above do."""
    for entry in sorted(os.listdir(folder)):
        if not entry.endswith(".safetensors"):
            continue
        path = os.path.join(folder, entry)
        tensors, metadata = read_safetensors(path)
        with safetensors.safe_open(path, framework="numpy") as file:
            check(file.metadata() == metadata, f"metadata of {entry}")
            check(sorted(file.keys()) == sorted(tensors), f"names of {entry}")
            for name, (dtype, shape, _) in tensors.items():
                part = file.get_slice(name)
                check((part.get_dtype(), part.get_shape()) == (dtype, shape), f"{name} of {entry}")
        for name, info in safetensors.deserialize(open(path, "rb").read()):
            check((info["dtype"], list(info["shape"])) == tensors[name][:2], f"{name} of {entry}")
            check(bytes(info["data"]) == tensors[name][2], f"{name} of {entry}")


with tempfile.TemporaryDirectory() as temporary:
    folder = os.path.join(temporary, "exports")
    subprocess.run([writer, folder], check=True)
    if way == "package":
        check_package(folder)
        print("read the exports with safetensors", safetensors.__version__)
        sys.exit(0)
    checkpoint = Checkpoint(folder)
    for target in (None, "float32", "bfloat16", "float16"):
        name = target or "own"
        check_safetensors(checkpoint, *read_safetensors(os.path.join(folder, f"{name}.safetensors")), target)
        check_hdf5(checkpoint, os.path.join(folder, f"{name}.h5"), target)
    check_parts(checkpoint, folder)
    print("read the exports with h5py", h5py.__version__)
