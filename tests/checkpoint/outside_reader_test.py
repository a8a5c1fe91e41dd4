"""Reads the golden checkpoints with h5py and nothing of libzero: the format's page must be enough to do so.

Exit code 77 means skipped: h5py is not there.
"""

import json
import os
import re
import sys

try:
    import h5py
    import numpy as np
except ImportError as missing:
    print(f"skipped: {missing}; apt-get install python3-h5py")
    sys.exit(77)

source = sys.argv[1]
golden = os.path.join(source, "tests/checkpoint/golden/v1.0")
page = open(os.path.join(source, "docs/checkpoint_format.md"), encoding="utf-8").read()
recipe = {}
exec(re.search(r"```python\n(.*?)```", page, re.S).group(1), recipe)  # the page's own recipe

MASK = (1 << 64) - 1


def expected(step, state, width, parameter, count):
    """The same numbers as Sample::expected in sample.cpp."""
    out = bytearray()
    for i in range(count):
        word = step * 0x9E3779B97F4A7C15 & MASK
        for c in state.encode():
            word = (word ^ c) * 0x100000001B3 & MASK
        word ^= parameter << 40
        word = (word + i) * 0xFF51AFD7ED558CCD & MASK
        word ^= word >> 29
        out += word.to_bytes(8, "little")[:width]
    return bytes(out)


def check(condition, what):
    if not condition:
        sys.exit(f"failed: {what}")


def check_manifest(directory):
    raw = open(os.path.join(directory, "MANIFEST.json"), "rb").read()
    manifest = json.loads(raw)
    canonical = json.dumps(manifest, sort_keys=True, indent=1, ensure_ascii=False) + "\n"
    check(canonical.encode() == raw, "the manifest is what json.dumps writes")
    check(raw[-55:].startswith(b' "xxh3_of_above": "'), "the tail has 55 bytes")
    try:
        import xxhash
        check(xxhash.xxh3_128_hexdigest(raw[:-55]) == manifest["xxh3_of_above"], "the manifest's hash")
    except ImportError:
        pass  # the hash is checked by the C++ tests, too
    return manifest


def check_files(directory, manifest):
    for record in manifest["files"]:
        path = os.path.join(directory, record["name"])
        raw = open(path, "rb").read()
        check(len(raw) == record["size"], path)
        with h5py.File(path, "r") as file:
            found = []
            file.visititems(lambda name, item: found.append("/" + name) if isinstance(item, h5py.Dataset) else None)
            check(sorted(found) == sorted(d["name"] for d in record["datasets"]), f"datasets of {path}")
            check(file.attrs["rank"] == record["rank"] and file.attrs["step"] == manifest["step"], "attributes")
            check(file.attrs["run_id"].decode() == manifest["run_id"], "run_id")
            for d in record["datasets"]:
                item = file[d["name"]]
                check(list(item.shape) == d["shape"], d["name"])
                check(item.chunks is None and item.compression is None, d["name"])
                check((item.id.get_offset() or 0) == d["offset"], f"offset of {d['name']}")
                if item.size and not d["type"].startswith(("bfloat16", "float16")):
                    check(item[()].tobytes() == raw[d["offset"]:d["offset"] + d["bytes"]], d["name"])


def check_values(directory, step):
    for parameter, name, shape in [(0, "embed.weight", (7, 5)), (1, "block.\u00e9.bias", (13,)), (2, "scale", ())]:
        for state in ("master", "exp_avg", "exp_avg_sq"):
            value = recipe["load"](directory, name, state)
            check(value.shape == shape, name)
            check(value.tobytes() == expected(step, state, 4, parameter, value.size), f"{state} of {name}")
    counter = recipe["load"](directory, "batches", "value", "int64")
    check(counter.tobytes() == expected(step, "value", 8, 6, 1), "batches")
    frozen = recipe["load"](directory, "frozen", "value", "float16")  # h5py knows our custom type
    bits = np.frombuffer(expected(step, "value", 2, 4, 9), np.float16).reshape(3, 1, 3)
    check(((frozen == bits) | (np.isnan(frozen) & np.isnan(bits))).all(), "frozen")


for world_size in (1, 2, 3):
    folder = os.path.join(golden, f"step_{world_size:012d}")
    check_files(folder, check_manifest(folder))
    check_values(folder, world_size)
    with h5py.File(os.path.join(folder, "common.h5"), "r") as common:
        check(common["groups/lr"][0] == 1e-3 / (1.0 + world_size), "lr")
        check(common["counters/samples_seen"][0] == 64 * world_size, "samples_seen")
        check(len(common["blobs/rank"]) == world_size, "blobs of ranks")
print("read the golden checkpoints with h5py", h5py.__version__)
