"""Reads views with h5py, and compares them with what the format page's recipe reads from the shards.

usage: view_reader_test.py SOURCE WRITER. Exit code 77 means skipped: h5py is not there.
"""

import os
import re
import subprocess
import sys
import tempfile

try:
    import h5py
    import numpy as np
except ImportError as missing:
    print(f"skipped: {missing}; apt-get install python3-h5py")
    sys.exit(77)

source, writer = sys.argv[1:]
page = open(os.path.join(source, "docs/checkpoint_format.md"), encoding="utf-8").read()
recipe = {}
exec(re.search(r"```python\n(.*?)```", page, re.S).group(1), recipe)
MOMENTS = ("master", "exp_avg", "exp_avg_sq")
SHAPES = {"embed.weight": (7, 5), "block.\u00e9.bias": (13,), "scale": ()}
VALUES = {"frozen": ("float16", (3, 1, 3)), "batches": ("int64", ()), "mask": ("uint8", (17,))}


def check(condition, what):
    if not condition:
        sys.exit(f"failed: {what}")


def check_view(step, world_size):
    with h5py.File(os.path.join(step, "view.h5"), "r") as view:
        where = f"of {world_size} ranks"
        parameters = view["parameters"]
        check(set(parameters) == {*SHAPES, *VALUES, "head.weight"}, f"names {where}")
        for name, shape in SHAPES.items():
            check(set(parameters[name]) == set(MOMENTS), f"states {where}")
            for state in MOMENTS:
                got = parameters[name][state]
                check(got.is_virtual and got.shape == shape and got.dtype == np.float32, f"{state} of {name} {where}")
                check(got[()].tobytes() == recipe["load"](step, name, state).tobytes(), f"{state} of {name} {where}")
        for name, (kind, shape) in VALUES.items():
            got = parameters[name]["value"]
            check(set(parameters[name]) == {"value"} and got.shape == shape and got.dtype == kind, f"{name} {where}")
            check(got[()].tobytes() == recipe["load"](step, name, "value", kind).tobytes(), f"{name} {where}")
        check(parameters["head.weight"] == parameters["embed.weight"], f"alias {where}")
        check(view.attrs["format"] == b"libzero-view" and view.attrs["world_size"] == world_size, f"attributes {where}")
        sources = {s.file_name for s in parameters["embed.weight/master"].virtual_sources()}
        check(all("/" not in name for name in sources), "sources have no path")


with tempfile.TemporaryDirectory() as temporary:
    root = os.path.join(temporary, "store")
    subprocess.run([writer, root], check=True)
    for world_size in (1, 2, 3, 5, 8):
        step = os.path.join(root, f"step_{world_size:012d}")
        check_view(step, world_size)
        moved = os.path.join(temporary, f"copied elsewhere {world_size}")  # a checkpoint may be moved whole
        os.rename(step, moved)
        os.chdir(temporary)
        check_view(os.path.basename(moved), world_size)  # by a relative path
        os.chdir(moved)
        check_view(".", world_size)
        os.chdir("/")  # and from a folder that has nothing to do with it
        check_view(moved, world_size)
    os.remove(os.path.join(temporary, "copied elsewhere 2", "shard-00001-of-00002.h5"))
    with h5py.File(os.path.join(temporary, "copied elsewhere 2", "view.h5"), "r") as view:
        rest = view["parameters/embed.weight/master"][()]
        check(np.isnan(rest.ravel()[17:]).all(), "what is missing is NaN")
        check((view["parameters/mask/value"][8:] == 0).all(), "what is missing is 0")
    print("read the views with h5py", h5py.__version__)
