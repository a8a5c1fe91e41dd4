"""Arrows between folders point one way, libraries stay where they belong, examples are short, and the umbrella header is cheap.

usage: structure_test.py <repository> <build folder> <compiler> <folder of LibTorch's headers>...
"""

import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

REPOSITORY, BUILD, COMPILER, *TORCH_INCLUDES = sys.argv[1:]

# What a folder may include, besides itself.
CORE = {"libzero/base"}
COLLECTIVE = CORE | {"libzero/layout", "libzero/kernels", "libzero/collective"}
MAY_INCLUDE = {
    "libzero/base": set(),
    "libzero/layout": CORE,
    "libzero/kernels": CORE,
    "libzero/kernels/cuda": CORE | {"libzero/kernels"},
    "libzero/collective": COLLECTIVE,
    "libzero/collective/testing": COLLECTIVE,
    "libzero/offload": CORE,
    "libzero/estimate": CORE | {"libzero/layout", "libzero/kernels", "libzero/offload", "libzero/optim"},
    "libzero/optim": COLLECTIVE | {"libzero/kernels/cuda", "libzero/offload", "checkpoint", "checkpoint/ranks", "checkpoint/tools"},
    "libzero/observe": CORE | {"libzero/layout", "libzero/optim"},
    "libzero/train": COLLECTIVE | {"libzero/optim", "checkpoint", "checkpoint/ranks"},
    "checkpoint": {"libzero/base", "libzero/layout"},
    "checkpoint/ranks": COLLECTIVE | {"checkpoint"},
    "checkpoint/tools": {"libzero/base", "libzero/layout", "checkpoint"},
    "checkpoint/testing": {"checkpoint"},
    "libzero": {"libzero/base", "libzero/collective", "libzero/optim", "libzero/train", "backends", "backends/rendezvous"},
    "backends": {"libzero/base", "libzero/collective", "backends/rendezvous", "backends/shm", "backends/nccl"},
    "backends/rendezvous": {"libzero/base", "libzero/collective"},
    "backends/gloo": {"libzero/base", "libzero/collective"},
    "backends/shm": {"libzero/base", "libzero/collective"},
    "backends/nccl": COLLECTIVE | {"libzero/kernels/cuda"},
    "cli": {"libzero/base", "libzero/collective", "libzero/layout", "backends/rendezvous", "checkpoint", "checkpoint/ranks",
            "checkpoint/tools", "libzero/estimate", "libzero/kernels", "libzero/observe"},
}
EXAMPLES_MAY_INCLUDE = COLLECTIVE | {"libzero", "libzero/optim", "libzero/train", "libzero/observe", "backends", "backends/rendezvous"}
LONGEST_EXAMPLE = 200  # lines of a file

# Headers of other libraries, and the folders that may see them.
LIBRARIES = [
    (re.compile(r"torch/torch\.h|torch/all\.h|torch/nn\.h"), "LibTorch's large headers", {"examples"}),
    (re.compile(r"(?:torch|ATen|c10)/"), "LibTorch", {"libzero/optim", "libzero/train", "examples"}),
    (re.compile(r"gloo/"), "Gloo", {"backends/gloo"}),
    (re.compile(r"boost/"), "Boost", {"backends/rendezvous", "libzero/observe"}),
    (re.compile(r"hwy/"), "Highway", {"libzero/kernels"}),
    (re.compile(r"hdf5|H5"), "HDF5", {"checkpoint"}),
    (re.compile(r"CLI/"), "a library for programs", {"cli", "examples"}),
    (re.compile(r"nlohmann/"), "a library for JSON", {"checkpoint", "cli", "examples", "libzero/observe"}),
]
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)


def own_problems(folder, target):
    """`target` is a header of this repository."""
    if "/" not in target:
        return [f"'{target}' is not named from the repository's root"]
    to = target.rpartition("/")[0]
    allowed = EXAMPLES_MAY_INCLUDE if folder.startswith("examples/") else MAY_INCLUDE.get(folder)
    if allowed is None:
        return ["this folder is in no table of integration/structure_test.py: say what it may include"]
    return [] if to == folder or to in allowed else [f"{folder} may not include {to}: '{target}'"]


def library_problems(folder, target):
    for pattern, library, folders in LIBRARIES:
        if pattern.match(target) and folder not in folders and folder.split("/")[0] not in folders:
            return [f"{library} may not be seen here: <{target}>"]
    return []


def include_problems(root):
    files = [path for top in ("libzero", "backends", "checkpoint", "cli", "examples") for path in sorted((root / top).rglob("*"))
             if path.suffix in (".h", ".cpp")]
    for path in files:
        name = path.relative_to(root).as_posix()
        folder = name.rpartition("/")[0]
        for quote, target in INCLUDE.findall(path.read_text(encoding="utf-8")):
            for problem in (own_problems if quote == '"' else library_problems)(folder, target):
                yield f"{name}: {problem}"


def examples_too_long(root):
    for path in sorted((root / "examples").rglob("*")):
        if not path.is_file() or path.parent.name == "data":
            continue
        lines = len(path.read_bytes().splitlines())
        if lines > LONGEST_EXAMPLE:
            yield f"{path.relative_to(root).as_posix()}: {lines} lines; people copy examples: split it, one idea a file"


def needed_libraries(program):
    return subprocess.run(["ldd", program], check=True, capture_output=True, text=True).stdout


def is_sanitized():
    cache = pathlib.Path(BUILD) / "CMakeCache.txt"
    return re.search(r"^LIBZERO_SANITIZE:\w+=.", cache.read_text(encoding="utf-8"), re.M) is not None


class Structure(unittest.TestCase):
    def test_includes_follow_the_arrows(self):
        self.assertEqual(list(include_problems(pathlib.Path(REPOSITORY))), [])

    def test_a_wrong_include_is_found(self):
        cases = {
            "libzero/layout/a.h": ('#include "libzero/collective/collective.h"', "may not include libzero/collective"),
            "libzero/optim/b.cpp": ('#include "backends/connect.h"', "may not include backends"),
            "libzero/optim/c.cpp": ("#include <torch/torch.h>", "large headers"),
            "backends/gloo/d.cpp": ('#include "backends/rendezvous/wire.h"', "may not include backends/rendezvous"),
            "cli/e.cpp": ("#include <ATen/core/Tensor.h>", "LibTorch may not be seen"),
            "checkpoint/i.cpp": ("#include <ATen/core/Tensor.h>", "LibTorch may not be seen"),
            "libzero/optim/j.cpp": ("#include <hdf5.h>", "HDF5 may not be seen"),
            "libzero/base/f.h": ('#include "g.h"', "not named from the repository's root"),
            "libzero/new/h.h": ('#include "libzero/base/error.h"', "in no table"),
        }
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, (line, _) in cases.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(line + "\n")
            found = "\n".join(include_problems(root))
        for name, (_, words) in cases.items():
            self.assertRegex(found, rf"(?m)^{re.escape(name)}: .*{re.escape(words)}")

    def test_no_file_of_an_example_is_over_200_lines(self):
        self.assertEqual(list(examples_too_long(pathlib.Path(REPOSITORY))), [])

    def test_a_long_file_is_found_unless_it_is_data(self):
        lines = {"a.cpp": 201, "README.md": 201, "b.cpp": 200, "data/text.txt": 201}
        with tempfile.TemporaryDirectory() as folder:
            for name, count in lines.items():
                path = pathlib.Path(folder) / "examples/new" / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text("line\n" * count)
            found = [problem.partition(":")[0] for problem in examples_too_long(pathlib.Path(folder))]
        self.assertEqual(found, ["examples/new/README.md", "examples/new/a.cpp"])

    def test_programs_link_only_what_they_may(self):
        for program, strangers in (("bin/zero", ("libtorch", "libc10", "libgloo")), ("bin/minigpt", ("libgloo",)),
                                   ("lib/libzero_gloo.so", ("libtorch", "libc10"))):
            path = pathlib.Path(BUILD) / program
            if not path.exists():
                print(f"skipped: this build has no {program}")
                continue
            libraries = needed_libraries(path)
            for stranger in strangers:
                if stranger == "libgloo" and is_sanitized():
                    continue  # comes first there, on purpose: cmake/SanitizedPrograms.cmake
                self.assertNotIn(stranger, libraries, program)

    def test_the_umbrella_header_includes_no_module_of_libtorch(self):
        flags = ["-std=c++20", "-I", REPOSITORY]
        for folder in TORCH_INCLUDES:
            flags += ["-isystem", folder]
        result = subprocess.run([COMPILER, *flags, "-M", "-x", "c++", f"{REPOSITORY}/libzero/zero.h"], capture_output=True,
                                text=True)
        self.assertEqual(result.returncode, 0, result.stderr)
        seen = result.stdout.split()
        self.assertTrue(any(header.endswith("libzero/optim/optimizer.h") for header in seen))
        for costly in ("/torch/torch.h", "/torch/all.h", "/torch/nn/module.h", "/torch/nn.h", "/torch/autograd.h",
                       "/torch/data.h"):
            self.assertFalse([header for header in seen if header.endswith(costly)], costly)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
